"""Prefix beam search of many utterances in several processes."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from open_seq2seq.decoding.ctc.decoder import CtcDecoder, Transcript

_decoders: list[CtcDecoder] = []  # the decoders, in a worker process


def decode_all(decoders: Sequence[CtcDecoder], utterances: Iterable[np.ndarray],
               processes: int) -> list[list[list[Transcript]]]:
    """Decodes all utterances with each decoder in one pool of processes.

    Args:
      decoders: the decoders, which may share a language model.
      utterances: logits ``[time, vocabulary]`` of each utterance.
      processes: number of worker processes; with 1, decoding runs in this process.

    Returns:
      For each decoder, the transcripts of each utterance, as returned by ``CtcDecoder.decode``.
    """
    utterances = list(utterances)
    count = len(decoders) * len(utterances)
    if processes <= 1 or count <= 1:
        return [[decoder.decode(utterance) for utterance in utterances] for decoder in decoders]
    processes = min(processes, count)
    numbers = [number for number in range(len(decoders)) for _ in utterances]
    # Forked processes share the language model's memory, but forking a process with TensorFlow's threads is unsafe.
    method = "spawn" if "tensorflow" in sys.modules else "fork"
    with ProcessPoolExecutor(processes, multiprocessing.get_context(method), _hold, (list(decoders),)) as pool:
        # Most chunks contain several utterances for a single decoder, so that they benefit from its cached scores.
        chunk = max(1, min(len(utterances), count // (4 * processes)))
        found = list(pool.map(_decode, numbers, utterances * len(decoders), chunksize=chunk))
    return [found[begin:begin + len(utterances)] for begin in range(0, count, len(utterances))]


def _hold(decoders: list[CtcDecoder]) -> None:
    _decoders[:] = decoders


def _decode(number: int, logits: np.ndarray) -> list[Transcript]:
    return _decoders[number].decode(logits)
