"""Draws small pictures of circles, squares, triangles and crosses, in the layout <folder>/<split>/<class>/<number>.png.

usage: python docs/examples/images/make_data.py --output_dir=toy_images
"""

import argparse
import os

import numpy as np
import tensorflow as tf

CLASSES = ("circle", "cross", "square", "triangle")


def draw(kind, rng, size=24):
    """Returns one picture ``[size, size, 3]`` uint8: a shape of random place, size and colour on noise."""
    radius = rng.uniform(4.0, 8.0)
    centre = rng.uniform(radius, size - radius, 2)
    y, x = np.mgrid[:size, :size] - centre[:, np.newaxis, np.newaxis]
    inside = {
        "circle": x**2 + y**2 < radius**2,
        "cross": (np.abs(x) < radius / 3) & (np.abs(y) < radius) | (np.abs(y) < radius / 3) & (np.abs(x) < radius),
        "square": np.maximum(np.abs(x), np.abs(y)) < 0.85 * radius,
        "triangle": (y > -radius) & (y < 0.7 * radius) & (np.abs(x) < 0.6 * (y + radius)),
    }[kind]
    picture = rng.uniform(0, 110, (size, size, 3))
    picture[inside] = rng.uniform(130, 255, 3)
    return picture.astype(np.uint8)


def main():
    """Draws the pictures of both splits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output_dir", default="toy_images", help="folder to write to (default: %(default)s)")
    parser.add_argument("--train", type=int, default=400, help="pictures of each class for training")
    parser.add_argument("--dev", type=int, default=50, help="pictures of each class for validation")
    options = parser.parse_args()
    for split, count, seed in (("train", options.train, 0), ("dev", options.dev, 1)):
        rng = np.random.default_rng(seed)
        for kind in CLASSES:
            folder = os.path.join(options.output_dir, split, kind)
            os.makedirs(folder, exist_ok=True)
            for number in range(count):
                tf.io.write_file(os.path.join(folder, f"{number:04d}.png"), tf.io.encode_png(draw(kind, rng)))


if __name__ == "__main__":
    main()
