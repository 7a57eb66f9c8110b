"""Measures the speed of CTC prefix beam search on one core, and of pyctcdecode if it is installed.

    python benchmarks/ctc_decoding.py --repeats 7

There are three kinds of logits for 28 symbols and a blank: `clear` (like those of a well-trained model, with one likely
symbol in most frames), `noisy` (of a poor model) and `flat` (of an untrained model). Both programs decode the same
logits with the same beam width and pruning, alternately; the table has the shortest time of each. The language model is
a 3-gram model of artificial words, estimated by this program, written as an ARPA file and read by both programs
(pyctcdecode needs kenlm for it: `pip install pyctcdecode kenlm`).
"""

from __future__ import annotations

import itertools
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.measuring.programs import Pass, make_parser, markdown_table, run_program, take_turns
from open_seq2seq.decoding.ctc import CtcDecoder
from open_seq2seq.decoding.ngram import write_arpa
from open_seq2seq.decoding.ngram.estimation import estimate

Decoder = Callable[[np.ndarray], str]
"""Decodes logits ``[frames, 29]`` to the best text."""

LABELS = list("abcdefghijklmnopqrstuvwxyz' ")
BEAM_THRESHOLD, SYMBOL_THRESHOLD = 10.0, -5.0  # natural logarithms; pyctcdecode's defaults
# Weight of the language model, bonus for each word, and penalty for each word outside of the vocabulary.
ALPHA, BETA, OOV_PENALTY = 0.5, 1.5, 10.0
# Standard deviation of the noise that is added to logits of 10 for the symbol of a frame and 0 for all others.
KINDS = {"clear": 1.0, "noisy": 2.5}


def make_words(rng: np.random.Generator, count: int) -> list[str]:
    """Returns ``count`` distinct artificial words of 2 to 9 letters."""
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


def our_decoder(width: int, lm_path: str | None) -> Decoder:
    """Returns ``CtcDecoder`` with a beam width, and with the n-gram model in a file if there is one."""
    decoder = CtcDecoder(LABELS, {
        "beam_width": width, "beam_threshold": BEAM_THRESHOLD, "symbol_threshold": SYMBOL_THRESHOLD, "alpha": ALPHA,
        "beta": BETA, "oov_penalty": OOV_PENALTY, "lm_path": lm_path})
    return lambda logits: decoder.decode(logits)[0].text


def their_decoder(width: int, lm_path: str | None, words: list[str]) -> Decoder:
    """Returns pyctcdecode with the same settings; ``words`` is the vocabulary of the n-gram model.

    Raises:
      ImportError: pyctcdecode, or kenlm for a language model, is not installed.
    """
    from pyctcdecode import build_ctcdecoder
    if lm_path is not None:
        import kenlm  # noqa: F401 (pyctcdecode reads the model with it)
    logging.disable(logging.WARNING)
    decoder: Any = build_ctcdecoder([*LABELS, ""], lm_path, words if lm_path else None, alpha=ALPHA, beta=BETA,
                                    unk_score_offset=-OOV_PENALTY)
    return lambda logits: decoder.decode_beams(logits, beam_width=width, beam_prune_logp=-BEAM_THRESHOLD,
                                               token_min_logp=SYMBOL_THRESHOLD)[0][0]


def cpu_pass(decode: Decoder, logits: np.ndarray) -> Pass:
    """Returns a function that decodes logits, and returns the processor time in seconds."""
    def one_pass() -> float:
        start = time.process_time()
        decode(logits)
        return time.process_time() - start

    return one_pass


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--beam_width", type=int, nargs="+", default=[16, 100], help="beam widths to measure")
    parser.add_argument("--frames", type=int, default=500, help="frames of logits")
    parser.add_argument("--repeats", type=int, default=7, help="runs of each program")
    parser.add_argument("--vocabulary", type=int, default=5000, help="number of words in the language model")
    options = parser.parse_args(argv)
    rng, rows = np.random.default_rng(0), []
    words = make_words(rng, options.vocabulary)
    text = make_text(rng, words, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        lm_path = f"{folder}/words.arpa"
        write_arpa(lm_path, estimate(text, 3, vocabulary=words).model)
        for path, width in itertools.product((None, lm_path), options.beam_width):
            decoders = {"here": our_decoder(width, path)}
            try:
                decoders["pyctcdecode"] = their_decoder(width, path, words)
            except ImportError as error:
                print(f"pyctcdecode is not measured: {error}.", file=sys.stderr)
            for kind in (*KINDS, "flat"):
                logits = make_logits(np.random.default_rng(1), kind, text, options.frames)
                passes = {name: cpu_pass(decode, logits) for name, decode in decoders.items()}
                least = [min(times) for times in take_turns(passes, options.repeats).values()]
                same = len({decode(logits) for decode in decoders.values()}) == 1
                compared = [f"{least[1]:.1f}", f"{least[1] / least[0]:.1f}", "yes" if same else "no"] if (
                    len(least) > 1) else ["–"] * 3
                rows.append([kind, "3-gram" if path else "none", width, f"{least[0]:.1f}", *compared])
    print(markdown_table(["logits", "language model", "width", "here, ms", "pyctcdecode, ms", "factor", "same text"],
                         rows))


if __name__ == "__main__":
    run_program(main)
