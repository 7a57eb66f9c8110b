"""Writes a made-up text for a language model: train.txt and valid.txt, from a Markov chain of words.

Each word has a few possible successors with known probabilities. The script prints the perplexity under these
probabilities, which is the lowest that a model can reach on average.

Usage: python scripts/create_toy_text.py --output_dir=toy_text_lm
"""

from __future__ import annotations

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.script import ScriptParser, random_seed, run_script

_MOST_LINES = 10**6
_SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "pi", "ro", "tu")


def make_chain(num_words: int, successors: int, rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    """Returns (words, probabilities ``[words + 1, words + 1]`` of the next word; the last index is the line's end)."""
    words = [first + second for first in _SYLLABLES for second in _SYLLABLES][:num_words]
    chain = np.zeros([num_words + 1, num_words + 1])
    for row in range(num_words + 1):
        chain[row, rng.choice(num_words, successors, replace=False)] = rng.dirichlet(np.ones(successors))
    chain[:num_words] *= 0.9
    chain[:num_words, num_words] = 0.1  # lines have ten words on average
    return words, chain


def make_lines(words: list[str], chain: np.ndarray, count: int, rng: np.random.Generator) -> tuple[list[str], float]:
    """Returns lines and their perplexity per token (word or line end) under the chain."""
    end, cumulated = len(words), np.cumsum(chain, axis=1)
    lines: list[str] = []
    surprise, tokens = 0.0, 0
    for _ in range(count):
        line: list[int] = []
        word = end
        while not line or word != end:
            following = int(np.searchsorted(cumulated[word], rng.random() * cumulated[word, -1], side="right"))
            surprise, tokens = surprise - float(np.log(chain[word, following])), tokens + 1
            word = following
            line.append(word)
        lines.append(" ".join(words[number] for number in line[:-1]))
    return lines, float(np.exp(surprise / tokens))


def main(argv: list[str] | None = None) -> None:
    """Runs the script."""
    parser = ScriptParser(__doc__.splitlines()[0])
    parser.add_argument("--output_dir", default="toy_text_lm", help="folder to write to (default: toy_text_lm)")
    parser.add_argument("--lines", type=int, default=3000, help="number of training lines (default: 3000)")
    parser.add_argument("--seed", type=random_seed, default=0, help="random seed (default: 0)")
    args = parser.parse_args(argv)
    if not 1 <= args.lines <= _MOST_LINES:
        raise UserError(f"--lines is {args.lines}, but has to be from 1 to {_MOST_LINES:,}, which take about a minute.")
    rng = np.random.default_rng(args.seed)
    words, chain = make_chain(60, 4, rng)
    for name, count in (("train", args.lines), ("valid", max(args.lines // 10, 1))):
        lines, perplexity = make_lines(words, chain, count, rng)
        path = os.path.join(args.output_dir, f"{name}.txt")
        write_lines(path, lines)
        deco_print(f"{path}: {count:,} lines, perplexity of the chain itself: {perplexity:.3f}")


if __name__ == "__main__":
    run_script(main)
