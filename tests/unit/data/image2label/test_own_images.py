"""Pictures of one's own: what is left out, and the size that suits them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.image2label.own_images import Picture, clean, fitting_size
from open_seq2seq.data.own_classes import class_files


def write(path, seed, side=20):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (side, side + 4, 3), np.uint8)
    encode = tf.io.encode_jpeg if path.suffix == ".jpg" else tf.io.encode_png
    path.write_bytes(encode(pixels).numpy())


def test_what_cannot_be_used_is_left_out(tmp_path):
    for number in range(8):
        write(tmp_path / ("cat", "dog")[number % 2] / f"{number // 2}.jpg", number)
    whole = (tmp_path / "cat" / "0.jpg").read_bytes()
    (tmp_path / "dog" / "half.JPG").write_bytes(whole[:len(whole) // 2])
    (tmp_path / "dog" / "text.png").write_text("no picture")
    (tmp_path / "dog" / "empty.gif").write_bytes(b"")
    (tmp_path / "dog" / "notes.txt").write_text("notes")
    (tmp_path / "cat" / "copy.jpg").write_bytes(whole)
    (tmp_path / "dog" / "zcopy.jpg").write_bytes(whole)
    (tmp_path / "dog" / "gone.jpg").symlink_to("nowhere")
    write(tmp_path / "rare" / "1.png", 9)
    kept = clean(class_files(str(tmp_path)))
    assert {reason: [row.place.removeprefix(f"{tmp_path}/") for row in rows]
            for reason, rows in kept.dropped.items()} == {
        "not JPEG, PNG, GIF or BMP by their suffix": ["dog/notes.txt"], "empty": ["dog/empty.gif"],
        "that cannot be read": ["dog/gone.jpg"], "broken: cannot be decoded": ["dog/half.JPG", "dog/text.png"],
        "repeated": ["cat/copy.jpg"], "repeated with another label": ["dog/zcopy.jpg"],
        "of a class with fewer than 3 examples": ["rare/1.png"]}
    assert [row.place.removeprefix(f"{tmp_path}/") for row in kept.rows] == [
        f"{label}/{number}.jpg" for label in ("cat", "dog") for number in range(4)]
    assert {row.side for row in kept.rows} == {20}


@pytest.mark.parametrize(("sides", "size"), [([20], 32), ([32, 32, 500], 32), ([63, 64, 65], 64), ([100], 96),
                                             ([480, 2000], 128)])
def test_the_size_that_suits_the_pictures(sides, size):
    assert fitting_size([Picture(1, "a", "", "a.jpg", "", side) for side in sides]) == size
