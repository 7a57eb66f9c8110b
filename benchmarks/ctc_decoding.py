"""Measures the speed of CTC prefix beam search on one core, and of pyctcdecode if it is installed.

usage: python benchmarks/ctc_decoding.py [--beam_width 16 100] [--frames 500] [--repeats 5]

There are three kinds of logits for 28 symbols and a blank: `clear` (like those of a well-trained model, with one likely
symbol in most frames), `noisy` (of a poor model) and `flat` (of an untrained model). Both programs decode the same
logits with the same beam width and pruning, alternately; the table has the shortest time of each. The language model is
a 3-gram model of made-up words, estimated by this program, written as an ARPA file and read by both programs
(pyctcdecode needs kenlm for it: `pip install pyctcdecode kenlm`).
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.decoding.ctc import CtcDecoder
from open_seq2seq.decoding.ngram import write_arpa
from open_seq2seq.decoding.ngram.estimation import estimate

LABELS = list("abcdefghijklmnopqrstuvwxyz' ")
BEAM_THRESHOLD, SYMBOL_THRESHOLD = 10.0, -5.0  # natural logarithms; pyctcdecode's defaults
# Weight of the language model, bonus for each word, and penalty for each word outside of the vocabulary.
ALPHA, BETA, OOV_PENALTY = 0.5, 1.5, 10.0
# Standard deviation of the noise that is added to logits of 10 for the symbol of a frame and 0 for all others.
KINDS = {"clear": 1.0, "noisy": 2.5}


def make_words(rng: np.random.Generator, count: int) -> list[str]:
    """Returns ``count`` distinct made-up words of 2 to 9 letters."""
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(rng.choice(LABELS[:26], rng.integers(2, 10)))] = None
    return list(words)


def make_text(rng: np.random.Generator, words: list[str], sentences: int) -> list[list[str]]:
    """Returns sentences, lists of 4 to 19 random words; the first words of ``words`` are the most frequent."""
    shares = 1.0 / np.arange(1, len(words) + 1)
    return [list(rng.choice(words, rng.integers(4, 20), p=shares / shares.sum())) for _ in range(sentences)]


def make_logits(rng: np.random.Generator, kind: str, text: list[list[str]], frames: int) -> np.ndarray:
    """Returns random logits ``[frames, 29]``; the blank is last.

    Args:
      rng: the random number generator.
      kind: ``clear``, ``noisy`` or ``flat``.
      text: sentences; clear and noisy logits spell two of them, again and again.
      frames: number of frames.
    """
    if kind == "flat":
        return rng.normal(size=(frames, len(LABELS) + 1))
    spoken = [LABELS.index(c) for c in " ".join(text[rng.integers(len(text))] + text[rng.integers(len(text))])]
    peaks = np.zeros([frames, len(LABELS) + 1])
    peaks[:, -1] = 10.0
    place = 3
    while place < frames - 3:
        for symbol in spoken:
            end = min(place + int(rng.integers(1, 3)), frames)
            peaks[place:end] = 0.0
            peaks[place:end, symbol] = 10.0
            place = end + int(rng.integers(1, 6))
    return peaks + KINDS[kind] * rng.normal(size=peaks.shape)


def our_decoder(width: int, lm_path: str | None) -> Callable[[np.ndarray], str]:
    """Returns a function that decodes logits ``[frames, 29]`` to the best text with ``CtcDecoder``.

    Args:
      width: beam width.
      lm_path: path of an n-gram model, or None.
    """
    decoder = CtcDecoder(LABELS, {
        "beam_width": width, "beam_threshold": BEAM_THRESHOLD, "symbol_threshold": SYMBOL_THRESHOLD, "alpha": ALPHA,
        "beta": BETA, "oov_penalty": OOV_PENALTY, "lm_path": lm_path})
    return lambda logits: decoder.decode(logits)[0].text


def their_decoder(width: int, lm_path: str | None, words: list[str]) -> Callable[[np.ndarray], str] | None:
    """Returns a function that decodes logits ``[frames, 29]`` to the best text with pyctcdecode.

    Returns None if pyctcdecode, or kenlm for a language model, is not installed.

    Args:
      width: beam width.
      lm_path: path of an n-gram model, or None.
      words: the vocabulary of the n-gram model.
    """
    try:
        from pyctcdecode import build_ctcdecoder
        if lm_path is not None:
            import kenlm  # noqa: F401 (pyctcdecode reads the model with it)
    except ImportError:
        return None
    logging.disable(logging.WARNING)
    decoder: Any = build_ctcdecoder([*LABELS, ""], lm_path, words if lm_path else None, alpha=ALPHA, beta=BETA,
                                    unk_score_offset=-OOV_PENALTY)
    return lambda logits: decoder.decode_beams(logits, beam_width=width, beam_prune_logp=-BEAM_THRESHOLD,
                                               token_min_logp=SYMBOL_THRESHOLD)[0][0]


def in_turns(programs: list[Callable[[np.ndarray], str] | None], logits: np.ndarray,
             repeats: int) -> list[tuple[float, str]]:
    """Decodes with the programs alternately, ``repeats`` times each.

    Args:
      programs: functions from logits to a text; None for a program that is not installed.
      logits: ``[frames, 29]``.
      repeats: number of times that each program decodes the logits.

    Returns:
      For each program, its shortest CPU time in milliseconds and the decoded text; NaN and an empty text for None.
    """
    times: list[list[float]] = [[] for _ in programs]
    texts = ["" for _ in programs]
    for _ in range(repeats):
        for number, program in enumerate(programs):
            if program is not None:
                start = time.process_time()
                texts[number] = program(logits)
                times[number].append(1000.0 * (time.process_time() - start))
    return [(min(t) if t else float("nan"), text) for t, text in zip(times, texts, strict=True)]


def main(argv: list[str] | None = None) -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beam_width", type=int, nargs="+", default=[16, 100], help="beam widths to measure")
    parser.add_argument("--frames", type=int, default=500, help="frames of logits (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each program (default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, default=5000,
                        help="number of words in the language model (default: %(default)s)")
    args = parser.parse_args(argv)
    rng = np.random.default_rng(0)
    words = make_words(rng, args.vocabulary)
    text = make_text(rng, words, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        lm_path = os.path.join(folder, "words.arpa")
        write_arpa(lm_path, estimate(text, 3, vocabulary=words).model)
        print("| logits | language model | width | here, ms | pyctcdecode, ms | factor | same text |")
        print("|---|---|---|---|---|---|---|")
        for path in (None, lm_path):
            for width in args.beam_width:
                programs = [our_decoder(width, path), their_decoder(width, path, words)]
                for kind in (*KINDS, "flat"):
                    logits = make_logits(np.random.default_rng(1), kind, text, args.frames)
                    (ours, mine), (theirs, other) = in_turns(programs, logits, args.repeats)
                    print(f"| {kind} | {'3-gram' if path else 'none'} | {width} | {ours:.1f} | {theirs:.1f} | "
                          f"{theirs / ours:.1f} | {'yes' if mine == other else 'no'} |", flush=True)
    if programs[1] is None:
        print("No comparison: pyctcdecode, or kenlm for the language model, is not installed.")


if __name__ == "__main__":
    main()
