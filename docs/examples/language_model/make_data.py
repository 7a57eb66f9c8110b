"""Writes text of made-up words, in which a rare mark decides long after it what a question is answered by.

usage: python docs/examples/language_model/make_data.py --output_dir=toy_language

A story begins with one of four names. Sentences follow, and now and then a question for the name, whose answer only a
model knows that carries its state over the batches.
"""

import argparse
import os

import numpy as np

NAMES = ("anna", "boris", "clara", "david")
WORDS = ("the river runs", "a bird sings", "rain is near", "the road is long", "bread is warm")


def stories(count, seed):
    """Returns the text of so many stories."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        name = rng.choice(NAMES)
        lines.append(f"{name} tells.")
        for _ in range(rng.integers(4, 9)):
            lines.append(f"{rng.choice(WORDS)}.")
            if rng.random() < 0.5:
                lines.append(f"who tells? {name}.")
    return "\n".join(lines) + "\n"


def main():
    """Writes train.txt and dev.txt."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output_dir", default="toy_language", help="folder to write to (default: %(default)s)")
    parser.add_argument("--train", type=int, default=400, help="stories for training")
    parser.add_argument("--dev", type=int, default=40, help="stories for validation")
    options = parser.parse_args()
    os.makedirs(options.output_dir, exist_ok=True)
    for split, count, seed in (("train", options.train, 0), ("dev", options.dev, 1)):
        with open(os.path.join(options.output_dir, f"{split}.txt"), "w", encoding="utf-8") as out:
            out.write(stories(count, seed))
    with open(os.path.join(options.output_dir, "characters.txt"), "w", encoding="utf-8") as out:
        out.write("".join(sorted(set(stories(50, 2)) - {"\n"})))


if __name__ == "__main__":
    main()
