import math

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.data.image2label import pipeline
from open_seq2seq.parts.randomness import example_uniforms


def images(count=4, height=7, width=9):
    return np.random.default_rng(0).uniform(0, 255, (count, height, width, 3)).astype(np.float32)


def draws(count, width, seed=1):
    return np.random.default_rng(seed).uniform(size=(count, width)).astype(np.float32)


def test_uniforms_are_uniform_and_depend_on_seed_example_epoch_and_draw():
    examples = tf.range(2000, dtype=tf.int64)
    numbers = example_uniforms(3, examples, tf.constant(1, tf.int64), 5).numpy()
    assert numbers.shape == (2000, 5) and numbers.min() >= 0.0 and numbers.max() < 1.0
    counts, _ = np.histogram(numbers, 20, (0, 1))
    assert np.all(np.abs(counts - 500) < 5 * math.sqrt(500))
    assert np.abs(np.corrcoef(numbers, rowvar=False) - np.eye(5)).max() < 0.1
    assert abs(np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]) < 0.1
    some = [example_uniforms(seed, examples[7:8], tf.constant(epoch, tf.int64), 5, draw).numpy()
            for seed, epoch, draw in ((3, 1, 0), (4, 1, 0), (3, 2, 0), (3, 1, 1))]
    np.testing.assert_array_equal(some[0][0], numbers[7])  # whatever the batch
    assert len(np.unique(np.concatenate(some))) == 20


def test_padded_crops_are_windows_of_the_padded_image():
    x, numbers = images(), draws(4, 2)
    numbers[0] = 0.0, 0.9999999
    cropped = pipeline.pad_and_crop(x, 2, 5, numbers).numpy()
    padded = np.pad(x, [(0, 0), (2, 2), (2, 2), (0, 0)])
    for row in range(4):
        top, left = (int(numbers[row, axis] * (size + 4 - 5 + 1)) for axis, size in ((0, 7), (1, 9)))
        np.testing.assert_array_equal(cropped[row], padded[row, top:top + 5, left:left + 5])
    np.testing.assert_array_equal(pipeline.pad_and_crop(x, 2, 5, None), x[:, 1:6, 2:7])


@pytest.mark.parametrize("height,width", [(40, 60), (1, 1), (3, 200)])
def test_random_boxes_lie_in_the_image_and_have_the_area(height, width):
    shapes = []
    for row in draws(200, pipeline.BOX_DRAWS):
        top, left, tall, wide = pipeline.random_box(row, height, width, [0.3, 0.6], [0.75, 1.33]).numpy()
        assert 0 <= top and top + tall <= height and 0 <= left and left + wide <= width and tall > 0 and wide > 0
        shapes.append((tall * wide / (height * width), wide / tall))
    if height == 40:
        areas, ratios = np.array(shapes).T
        assert 0.27 < areas.min() < areas.max() < 0.66 and 0.68 < ratios.min() < ratios.max() < 1.45


def test_short_side_is_resized_and_the_centre_cropped():
    wide = np.zeros([10, 30, 3], np.uint8)
    wide[:, 10:20] = 200
    np.testing.assert_allclose(pipeline.resized_short_side(tf.constant(wide), 10), np.full([10, 10, 3], 200.0))
    half = pipeline.resized_short_side(tf.constant(wide[:, 10:20]), 5)
    np.testing.assert_allclose(half, np.full([5, 5, 3], 200.0), rtol=1e-6)


def test_flipping_is_decided_by_each_images_number():
    x = images(2)
    np.testing.assert_array_equal(pipeline.flipped(x, tf.constant([0.4, 0.6])), [x[0, :, ::-1], x[1]])


def test_a_square_around_the_drawn_centre_is_cut_out():
    x, numbers = images(), draws(4, 2)
    numbers[0] = 0.0, 0.9999999
    cut = pipeline.cut_out(tf.constant(x), tf.constant(numbers), 4).numpy()
    for row in range(4):
        down, across = int(numbers[row, 0] * 7), int(numbers[row, 1] * 9)
        x[row, max(down - 2, 0):down + 2, max(across - 2, 0):across + 2] = 128.0
    np.testing.assert_array_equal(cut, x)


def test_colours_change_as_defined():
    x, numbers = images(), draws(4, 3)
    changed = pipeline.jittered(x, numbers, 0.4).numpy()
    for row, one in enumerate(x.astype(np.float64)):
        brightness, contrast, saturation = 1 + 0.4 * (2 * numbers[row] - 1)
        one = np.clip(one * brightness, 0, 255)
        grey = (one @ [0.299, 0.587, 0.114]).mean()
        one = np.clip(grey + contrast * (one - grey), 0, 255)
        grey = (one @ [0.299, 0.587, 0.114])[..., None]
        np.testing.assert_allclose(changed[row], np.clip(grey + saturation * (one - grey), 0, 255), atol=0.01)


def test_affine_maps_shift_and_rotate_about_the_centre():
    x = images(3, 7, 7)
    identity = [[1.0, 0, 0], [0, 1, 0]]
    quarter = [[0.0, 1, 0], [-1, 0, 0]]
    shift = [[1.0, 0, 2], [0, 1, 0]]
    found = pipeline.moved(x, tf.constant([identity, quarter, shift])).numpy()
    np.testing.assert_allclose(found[0], x[0], atol=1e-3)
    assert np.allclose(found[1], np.rot90(x[1]), atol=1e-2) or np.allclose(found[1], np.rot90(x[1], -1), atol=1e-2)
    np.testing.assert_allclose(found[2][:, :5], x[2][:, 2:], atol=1e-3)
    np.testing.assert_allclose(found[2][:, 5:], 128.0)


@pytest.mark.parametrize("name", pipeline.OPERATIONS)
def test_each_operation_changes_its_images_alone(name):
    x = images(3)
    chosen = np.zeros([3, 1, 2], np.float32)  # the identity
    chosen[1, 0] = (pipeline.OPERATIONS.index(name) + 0.5) / len(pipeline.OPERATIONS), 0.9
    found = pipeline.rand_augmented(tf.constant(x), tf.constant(chosen), 8.0).numpy()
    np.testing.assert_allclose(found[[0, 2]], x[[0, 2]], atol=1e-3)
    assert np.isfinite(found).all() and found.min() >= 0.0 and found.max() <= 255.01
    assert np.allclose(found[1], x[1], atol=1e-3) == (name == "identity")


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_mixing_weights_have_the_beta_distribution(alpha):
    numbers = tf.constant(draws(20000, 1)[:, 0])
    weights = pipeline.mixing_weights(numbers, pipeline.beta_quantiles(alpha)).numpy()
    assert weights.min() >= 0.0 and weights.max() <= 1.0
    assert weights.mean() == pytest.approx(0.5, abs=0.02)
    assert weights.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), abs=0.01)


@pytest.mark.parametrize("kind", ["image", "imagenet", "none"])
def test_standardisation(kind):
    found = pipeline.standardized(tf.constant(images()), kind).numpy()
    if kind == "image":
        np.testing.assert_allclose(found.mean((1, 2, 3)), 0, atol=1e-5)
        np.testing.assert_allclose(found.std((1, 2, 3)), 1, atol=1e-5)
    expected = {"imagenet": (images() - [123.68, 116.78, 103.94]) / 127.5, "none": images() / 255}
    if kind in expected:
        np.testing.assert_allclose(found, expected[kind], atol=1e-6)
