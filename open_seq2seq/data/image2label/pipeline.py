"""Crops and augmentation of images: the parameters, the operations, and their sizes and order.

The operations are deterministic: random numbers are passed as arguments. RandAugment: Cubuk et al. 2019,
https://arxiv.org/abs/1909.13719. Cutout: DeVries and Taylor 2017, https://arxiv.org/abs/1708.04552. Alternating flips:
Jordan 2024, https://arxiv.org/abs/2404.00498, section 3.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.parts.randomness import example_uniforms

JITTER_DRAWS = 3
"""Number of random numbers that ``jittered`` needs for each image."""
CUTOUT_DRAWS = 2
"""Number of random numbers that ``cut_out`` needs for each image."""
_GREY = (0.299, 0.587, 0.114)  # luminance of red, green and blue (ITU-R BT.601)
_QUANTILES = 4096
_BLANK = 128.0  # the grey of cutout, and of pixels that a rotation, shear or shift takes from outside of an image


def flipped(images: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """Mirrors, left to right, the images ``[batch, height, width, channels]`` whose draw ``[batch]`` is below 0.5."""
    return tf.where(draws[:, tf.newaxis, tf.newaxis, tf.newaxis] < 0.5, tf.reverse(images, [2]), images)


def jittered(images: tf.Tensor, draws: tf.Tensor, strength: float) -> tf.Tensor:
    """Changes brightness, contrast and saturation by random factors from 1 - strength to 1 + strength.

    Args:
      images: FP32 ``[batch, height, width, 3]`` from 0 to 255.
      draws: random numbers from 0 to 1, FP32 ``[batch, JITTER_DRAWS]``.
      strength: largest difference between a factor and 1.
    """
    factors = 1.0 + strength * (2.0 * draws - 1.0)
    images = brightened(images, factors[:, 0])
    images = contrasted(images, factors[:, 1])
    return saturated(images, factors[:, 2])


def blended(images: tf.Tensor, others: tf.Tensor | float, factors: tf.Tensor) -> tf.Tensor:
    """Returns ``others + factors · (images - others)``, clipped to values from 0 to 255, with factors ``[batch]``."""
    factors = factors[:, tf.newaxis, tf.newaxis, tf.newaxis]
    return tf.clip_by_value(others + factors * (images - others), 0.0, 255.0)


def brightened(images: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Multiplies the values of each image by the image's factor ``[batch]``."""
    return blended(images, 0.0, factors)


def contrasted(images: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Multiplies the differences between an image's values and its mean luminance by the image's factor ``[batch]``."""
    return blended(images, tf.reduce_mean(_luminance(images), [1, 2], keepdims=True), factors)


def saturated(images: tf.Tensor, factors: tf.Tensor) -> tf.Tensor:
    """Multiplies the differences between a pixel's values and its luminance by the image's factor ``[batch]``."""
    return blended(images, _luminance(images), factors)


def _luminance(images: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(images * tf.constant(_GREY), axis=-1, keepdims=True)


def cut_out(images: tf.Tensor, draws: tf.Tensor, size: int) -> tf.Tensor:
    """Makes a square of each image grey (128). The square may extend beyond the image.

    Args:
      images: FP32 ``[batch, height, width, 3]`` with a static height and width.
      draws: random numbers, at least 0 and below 1, FP32 ``[batch, 2]``: the centre of the square, down and across.
      size: height and width of the square in pixels.
    """
    height, width = images.shape[1:3]
    starts = tf.cast(draws * tf.constant([height, width], tf.float32), tf.int32) - size // 2
    rows, columns = (tf.range(length) - starts[:, axis, tf.newaxis] for axis, length in ((0, height), (1, width)))
    is_cut = ((rows >= 0) & (rows < size))[:, :, tf.newaxis] & ((columns >= 0) & (columns < size))[:, tf.newaxis]
    return tf.where(is_cut[..., tf.newaxis], _BLANK, images)


def moved(images: tf.Tensor, matrices: tf.Tensor) -> tf.Tensor:
    """Applies an affine map to each image; pixels from outside of the image are grey (128).

    Args:
      images: FP32 ``[batch, height, width, 3]``.
      matrices: FP32 ``[batch, 2, 3]``, which map positions (x, y, 1) in the result to positions (x, y) in the image,
        both relative to the centre.
    """
    height, width = images.shape[1:3]
    centre = tf.constant([(width - 1) / 2.0, (height - 1) / 2.0])
    linear = matrices[:, :, :2]
    shift = matrices[:, :, 2] + centre - tf.linalg.matvec(linear, centre)
    rows = tf.concat([linear, shift[:, :, tf.newaxis]], axis=2)
    transforms = tf.pad(tf.reshape(rows, [-1, 6]), [[0, 0], [0, 2]])
    return tf.raw_ops.ImageProjectiveTransformV3(images=images, transforms=transforms, output_shape=[height, width],
                                                 fill_value=_BLANK, interpolation="BILINEAR", fill_mode="CONSTANT")


def beta_quantiles(alpha: float) -> np.ndarray:
    """Returns the quantiles of the distribution Beta(alpha, alpha) for the probabilities i / 4096, FP32 ``[4097]``."""
    # Values between 0 and 1, closer together near the ends, where the density can be infinite.
    points = np.sin(np.linspace(0.0, math.pi / 2, 1 << 14)) ** 2
    with tf.device("CPU:0"):
        probabilities = tf.math.betainc(tf.constant(alpha, tf.float64), tf.constant(alpha, tf.float64),
                                        tf.constant(points)).numpy()
    return np.interp(np.arange(_QUANTILES + 1) / _QUANTILES, probabilities, points).astype(np.float32)


def mixing_weights(draws: tf.Tensor, quantiles: np.ndarray) -> tf.Tensor:
    """Returns samples of a distribution, drawn by inverse transform sampling, FP32 ``[batch]``.

    Args:
      draws: random numbers, at least 0 and below 1, FP32 ``[batch]``.
      quantiles: the distribution's quantiles, in the form of ``beta_quantiles``.
    """
    place = draws * _QUANTILES
    low = tf.cast(place, tf.int32)
    table = tf.constant(quantiles)
    first, second = tf.gather(table, low), tf.gather(table, low + 1)
    return first + (place - tf.floor(place)) * (second - first)


def mixed(first: tf.Tensor, second: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns ``weights · first + (1 - weights) · second`` (mixup, https://arxiv.org/abs/1710.09412).

    Args:
      first: FP32 ``[batch, …]``.
      second: FP32 ``[batch, …]``.
      weights: FP32 ``[batch]``.
    """
    weights = tf.reshape(weights, [-1] + [1] * (len(first.shape) - 1))
    return weights * first + (1.0 - weights) * second


def standardized(images: tf.Tensor, kind: str) -> tf.Tensor:
    """Returns images with standardized values, FP32 in the shape of ``images``.

    Args:
      images: FP32 ``[batch, height, width, 3]`` from 0 to 255.
      kind: ``image`` gives each image the mean 0 and the standard deviation 1, or less if it is almost uniform.
        ``imagenet`` subtracts the mean of ImageNet and divides by 127.5. ``none`` divides by 255.
    """
    if kind == "image":
        return tf.image.per_image_standardization(images)
    if kind == "imagenet":
        return (images - tf.constant([123.68, 116.78, 103.94])) / 127.5
    return images / 255.0


OPERATION_DRAWS = 2
"""Number of random numbers for each operation: one chooses the operation, the other the sign of its strength."""
LARGEST_MAGNITUDE = 10.0
# Strengths at the largest magnitude: angle in degrees, shear, shift as a fraction of the side, change of a factor.
_DEGREES, _SHEAR, _SHIFT, _FACTOR = 30.0, 0.3, 0.33, 0.9
_GEOMETRIC = ("rotate", "shear_x", "shear_y", "shift_x", "shift_y")
_COLOURS: dict[str, Callable[[tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "brightness": brightened, "contrast": contrasted, "saturation": saturated}
_FIXED: dict[str, Callable[[tf.Tensor, float], tf.Tensor]] = {
    "posterize": lambda images, strength: images - tf.math.floormod(images, 2.0 ** round(4 * strength)),
    "solarize": lambda images, strength: tf.where(images >= 256.0 * (1.0 - strength), 255.0 - images, images),
    "stretch": lambda images, strength: _stretched(images),
}
OPERATIONS = ("identity", *_GEOMETRIC, *_COLOURS, *_FIXED)
"""Names of the operations, which are all equally probable."""


def rand_augmented(images: tf.Tensor, draws: tf.Tensor, magnitude: float) -> tf.Tensor:
    """Applies a sequence of random operations to each image.

    Args:
      images: FP32 ``[batch, height, width, 3]`` from 0 to 255.
      draws: random numbers, at least 0 and below 1, FP32 ``[batch, operations, OPERATION_DRAWS]``.
      magnitude: strength of all operations, from 0 to ``LARGEST_MAGNITUDE``.
    """
    for number in range(draws.shape[1]):
        images = _operated(images, draws[:, number], magnitude / LARGEST_MAGNITUDE)
    return images


def _operated(images: tf.Tensor, draws: tf.Tensor, strength: float) -> tf.Tensor:
    """Applies the operations that ``draws`` ``[batch, OPERATION_DRAWS]`` choose; ``strength`` is from 0 to 1."""
    chosen = tf.cast(draws[:, 0] * len(OPERATIONS), tf.int32)
    signed = tf.where(draws[:, 1] < 0.5, -strength, strength)

    def of(name: str, other: float = 0.0) -> tf.Tensor:
        """Returns the signed strength for images with this operation, and ``other`` for the rest, ``[batch]``."""
        return tf.where(tf.equal(chosen, OPERATIONS.index(name)), signed, other)

    # Each operation is computed for the whole batch, but changes only the images for which it was chosen.
    images = tf.cond(tf.reduce_any((chosen >= 1) & (chosen <= len(_GEOMETRIC))),
                     lambda: moved(images, _matrices(images, of)), lambda: images)
    for name, change in _COLOURS.items():
        is_chosen = tf.equal(chosen, OPERATIONS.index(name))[:, tf.newaxis, tf.newaxis, tf.newaxis]
        images = tf.where(is_chosen, change(images, 1.0 + _FACTOR * of(name)), images)
    for name, fixed in _FIXED.items():
        is_chosen = tf.equal(chosen, OPERATIONS.index(name))[:, tf.newaxis, tf.newaxis, tf.newaxis]
        images = tf.where(is_chosen, fixed(images, strength), images)
    return images


def _matrices(images: tf.Tensor, of: Callable[..., tf.Tensor]) -> tf.Tensor:
    """Returns the affine maps ``[batch, 2, 3]`` of the geometric operations."""
    angles = of("rotate") * (_DEGREES * math.pi / 180)
    cosine, sine = tf.cos(angles), tf.sin(angles)
    across, down = of("shift_x") * _SHIFT * images.shape[2], of("shift_y") * _SHIFT * images.shape[1]
    return tf.stack([tf.stack([cosine, of("shear_x") * _SHEAR - sine, across], axis=1),
                     tf.stack([of("shear_y") * _SHEAR + sine, cosine, down], axis=1)], axis=1)


def _stretched(images: tf.Tensor) -> tf.Tensor:
    """Stretches the values of each channel to the range from 0 to 255; uniform channels stay as they are."""
    low = tf.reduce_min(images, [1, 2], keepdims=True)
    span = tf.reduce_max(images, [1, 2], keepdims=True) - low
    return tf.where(span > 0.0, (images - low) * 255.0 / tf.maximum(span, 1e-6), images)


TRAIN_CROPS = ("resized", "padded", "centre")
STANDARDIZATIONS = ("image", "imagenet", "none")


def image_params(image_size: int, resize_size: int | None, train_crop: str, standardize: str) -> dict[str, Any]:
    """Returns the optional parameters of a data layer of images.

    Args:
      image_size: default of ``image_size``.
      resize_size: default of ``resize_size``.
      train_crop: default of ``train_crop``.
      standardize: default of ``standardize``.
    """
    return {
        **DataLayer.get_optional_params(),
        "batch_size_unit": Param(["images", "sentences"], "images", "The batch size counts images; the value "
                                 "sentences means the same.", on_change=FREE),
        "image_size": Param(int, image_size, "Height and width of the images that the model gets.", "pixels",
                            minimum=1, maximum=8192, on_change=REFUSE),
        "resize_size": Param((int, type(None)), resize_size, "Height and width to which images are resized before the "
                             "crop in evaluation and, unless train_crop is resized, in training: the shorter side is "
                             "resized to this size, and the square in the centre is kept. By default image_size · "
                             "256 / 224.",
                             "pixels", minimum=1, maximum=8192),
        "train_crop": Param(list(TRAIN_CROPS), train_crop, "Crop of training images. resized: a box of random "
                            "position, area and shape, resized to image_size. padded: a random square of the image, "
                            "padded by crop_padding. centre: as in evaluation."),
        "crop_padding": Param(int, 2, "Number of zeros added on each side before a padded crop.", "pixels", minimum=0,
                              maximum=1000),
        "crop_area": Param(list, [0.05, 1.0], "Smallest and largest area of a resized crop, as fractions of the image.",
                           above=0.0, maximum=1.0),
        "crop_ratio": Param(list, [0.75, 1.33], "Smallest and largest ratio of width to height of a resized crop.",
                            above=0.0, maximum=100.0),
        "random_flip": Param(bool, True, "Whether training images are mirrored with a probability of 50 %."),
        "alternating_flip": Param(bool, False, "Whether random_flip decides for the first epoch only, after which each "
                                  "image is mirrored in every second epoch."),
        "color_jitter": Param(float, 0.0, "Largest relative change of brightness, contrast and saturation of training "
                              "images; 0 disables it.", minimum=0.0, maximum=1.0),
        "randaugment_layers": Param(int, 0, "Number of operations applied to each training image, drawn from "
                                    + ", ".join(OPERATIONS) + "; 0 disables them.", minimum=0, maximum=100),
        "randaugment_magnitude": Param(float, 5.0, "Strength of the operations that randaugment_layers applies.",
                                       minimum=0.0, maximum=LARGEST_MAGNITUDE),
        "cutout": Param(int, 0, "Height and width of a square of each training image, at a random position, that is "
                        "replaced by grey; 0 disables it.", "pixels", minimum=0, maximum=8192),
        "mixup": Param(float, 0.0, "Mixup of each training image with a random image of the data set; the image's "
                       "share in the mixture has the distribution Beta(mixup, mixup). 0 disables mixup.",
                       minimum=0.0, maximum=100.0),
        "standardize": Param(list(STANDARDIZATIONS), standardize, "Standardisation. image: mean 0 and standard "
                             "deviation 1 in each image. imagenet: values minus the mean of ImageNet, divided by "
                             "127.5. none: values from 0 to 1.", on_change=REFUSE),
        "on_bad_example": Param(["stop", "skip"], "stop", "What to do with an image that cannot be decoded: stop with "
                                "an error that names it, or leave it out and report it."),
        "files": Param(list, [], "Images without labels, for inference; --infer_files sets it.", on_change=FREE),
        "num_parallel_calls": Param(int, 16, "Maximum number of batches that are made at the same time.", "batches",
                                    minimum=1, maximum=1000, on_change=FREE),
        "shuffle_buffer": Param((int, type(None)), None, "Accepted for old configs; has no effect, because the whole "
                                "data set is shuffled.", on_change=FREE),
    }


def image_problems(params: Mapping[str, Any], path: str) -> list[str]:
    """Returns one message for each contradiction among the parameters; ``path`` is their path in the config."""
    problems = []
    for name in ("crop_area", "crop_ratio"):
        value = params[name]
        if len(value) != 2 or any(type(one) not in (int, float) for one in value) or not value[0] <= value[1]:
            problems.append(f"'{path}/{name}' must be a list of a smallest and a largest number, got {value}.")
    if params["alternating_flip"] and not params["random_flip"]:
        problems.append(f"'{path}/alternating_flip' is True, but '{path}/random_flip' is False: set both to the same.")
    least = params["image_size"]
    if params["mode"] == "train" and params["cutout"] >= least:
        problems.append(f"'{path}/cutout' is {params['cutout']}, but images have {least} pixels in each direction "
                        "(image_size), so some training images would be blank: lower cutout.")
    if resize_size(params) < least:
        problems.append(f"'{path}/resize_size' is {params['resize_size']}, but must be at least image_size, which is "
                        f"{least}: raise resize_size or lower image_size.")
    return problems


def resize_size(params: Mapping[str, Any]) -> int:
    """Returns the height and width to which images are resized before a crop."""
    return params["resize_size"] or round(params["image_size"] * 256 / 224)


BOX_DRAWS = 22
"""Number of random numbers for ``random_box``: two for each of ten candidate boxes, and two for the position."""


def pad_and_crop(images: tf.Tensor, padding: int, size: int, draws: tf.Tensor | None) -> tf.Tensor:
    """Crops squares, at random positions of the images padded with zeros, or in the centre of the unpadded images.

    Args:
      images: ``[batch, height, width, channels]`` with a static height and width.
      padding: number of zeros on each side.
      size: height and width of the squares in pixels, at most those of the images before cropping.
      draws: random numbers, at least 0 and below 1, FP32 ``[batch, 2]``; None for the centre, without padding.

    Returns:
      ``[batch, size, size, channels]`` in the dtype of ``images``.
    """
    height, width = images.shape[1:3]
    if draws is None:
        top, left = (height - size) // 2, (width - size) // 2
        return images[:, top:top + size, left:left + size]
    images = tf.pad(images, [[0, 0], [padding, padding], [padding, padding], [0, 0]])
    room = tf.constant([height + 2 * padding - size + 1, width + 2 * padding - size + 1], tf.float32)
    starts = tf.cast(draws * room, tf.int32)
    rows, columns = (starts[:, axis, tf.newaxis] + tf.range(size) for axis in (0, 1))
    images = tf.gather(images, rows, axis=1, batch_dims=1)
    return tf.gather(images, columns, axis=2, batch_dims=1)


def random_box(draws: tf.Tensor, height: tf.Tensor, width: tf.Tensor, areas: Sequence[float],
               ratios: Sequence[float]) -> tf.Tensor:
    """Draws a box of random area and shape in an image (Szegedy et al. 2014, https://arxiv.org/abs/1409.4842).

    Returns the first of ten random boxes that fits into the image or, if none fits, the largest square in the centre.

    Args:
      draws: random numbers, at least 0 and below 1, FP32 ``[BOX_DRAWS]``.
      height: height of the image in pixels, int32 scalar.
      width: width of the image in pixels, int32 scalar.
      areas: smallest and largest area of the box, as a fraction of the image.
      ratios: smallest and largest ratio of width to height.

    Returns:
      int32 ``[4]``: top, left, height and width in pixels.
    """
    size = tf.cast(tf.stack([height, width]), tf.float32)
    area = (areas[0] + draws[:10] * (areas[1] - areas[0])) * size[0] * size[1]
    logs = tf.math.log(tf.constant(ratios, tf.float32))
    ratio = tf.exp(logs[0] + draws[10:20] * (logs[1] - logs[0]))
    boxes = tf.maximum(tf.round(tf.stack([tf.sqrt(area / ratio), tf.sqrt(area * ratio)], axis=1)), 1.0)
    fits = tf.reduce_all(boxes <= size, axis=1)
    square = tf.fill([2], tf.reduce_min(size))
    box = tf.where(tf.reduce_any(fits), boxes[tf.argmax(tf.cast(fits, tf.int32))], square)
    place = tf.where(tf.reduce_any(fits), draws[20:22], 0.5)
    start = tf.floor(place * (size - box + 1.0))
    return tf.cast(tf.concat([start, box], axis=0), tf.int32)


def resized_short_side(image: tf.Tensor, size: int) -> tf.Tensor:
    """Resizes an image so that its shorter side has ``size`` pixels, and crops the square in the centre.

    Args:
      image: ``[height, width, channels]`` uint8.
      size: height and width of the result in pixels.

    Returns:
      FP32 ``[size, size, channels]``, from 0 to 255.
    """
    sides = tf.shape(image)[:2]
    # Cut off the ends of a long image: they are outside of the square, and resizing them could exceed the memory.
    sides = tf.minimum(sides, 3 * tf.reduce_min(sides))
    image = _middle(image, sides)
    scaled = tf.cast(tf.round(tf.cast(sides, tf.float64) * (size / tf.cast(tf.reduce_min(sides), tf.float64))),
                     tf.int32)
    image = tf.image.resize(image, tf.maximum(scaled, size), antialias=True)
    image = _middle(image, tf.constant([size, size]))
    return tf.clip_by_value(tf.ensure_shape(image, [size, size, 3]), 0.0, 255.0)


def _middle(image: tf.Tensor, sides: tf.Tensor) -> tf.Tensor:
    """Crops the middle of an image; ``sides`` are the height and width of the result, int32 ``[2]``."""
    start = (tf.shape(image)[:2] - sides) // 2
    end = start + sides
    return image[start[0]:end[0], start[1]:end[1]]


def resized_box(image: tf.Tensor, box: tf.Tensor, size: int) -> tf.Tensor:
    """Returns a box of an image ``[height, width, channels]``, resized to ``size`` × ``size``; see ``random_box``."""
    part = image[box[0]:box[0] + box[2], box[1]:box[1] + box[3]]
    part = tf.image.resize(part, [size, size], antialias=True)
    return tf.clip_by_value(tf.ensure_shape(part, [size, size, 3]), 0.0, 255.0)


class Pipeline:
    """Crops and augments images with values from 0 to 255.

    The random numbers of an image are used in this order: crop, mirror, colours, RandAugment, cutout.

    Args:
      params: the parameters of the data layer.

    Attributes:
      num_draws: number of random numbers for a training image.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params
        self._size, self._resize = params["image_size"], resize_size(params)
        self._layers = params["randaugment_layers"]
        self.num_draws = BOX_DRAWS + 1 + JITTER_DRAWS + OPERATION_DRAWS * self._layers + CUTOUT_DRAWS

    def draws(self, seed: int, examples: tf.Tensor, epoch: tf.Tensor) -> tf.Tensor:
        """Returns the random numbers of training images, FP32 ``[batch, num_draws]``; see ``example_uniforms``."""
        draws = example_uniforms(seed, examples, epoch, self.num_draws)
        if not self._params["alternating_flip"]:
            return draws
        first = example_uniforms(seed, examples, tf.zeros_like(epoch), self.num_draws)[:, BOX_DRAWS]
        # Half a turn of the circle of random numbers changes the choice of ``flipped``.
        flips = tf.math.floormod(first + 0.5 * tf.cast(epoch % 2, tf.float32), 1.0)
        return tf.concat([draws[:, :BOX_DRAWS], flips[:, tf.newaxis], draws[:, BOX_DRAWS + 1:]], axis=1)

    def _takes_box(self, training: bool) -> bool:
        return training and self._params["train_crop"] == "resized"

    def read_size(self, training: bool) -> int:
        """Returns the height and width of the images that ``read`` returns."""
        return self._size if self._takes_box(training) else self._resize

    def read(self, image: tf.Tensor, draws: tf.Tensor | None) -> tf.Tensor:
        """Returns an image cropped and resized to a square, FP32 ``[size, size, 3]``, with the size of ``read_size``.

        Args:
          image: uint8 ``[height, width, 3]``.
          draws: in training, random numbers FP32 ``[num_draws]``; otherwise None.
        """
        if draws is None or not self._takes_box(True):
            return resized_short_side(image, self._resize)
        shape = tf.shape(image)
        box = random_box(draws[:BOX_DRAWS], shape[0], shape[1], self._params["crop_area"], self._params["crop_ratio"])
        return resized_box(image, box, self._size)

    def finished(self, images: tf.Tensor, draws: tf.Tensor | None, was_read: bool) -> tf.Tensor:
        """Returns the images of a batch, cropped and augmented, FP32 ``[batch, image_size, image_size, 3]``.

        Args:
          images: ``[batch, height, width, 3]`` from 0 to 255.
          draws: in training, random numbers FP32 ``[batch, num_draws]``; otherwise None.
          was_read: whether the images are results of ``read``, which has already cropped them if train_crop is resized.
        """
        training = draws is not None
        if self._takes_box(training) and not was_read:
            images = tf.map_fn(lambda pair: self.read(*pair), (images, draws), fn_output_signature=tf.float32)
        elif not self._takes_box(training):
            place = draws[:, :2] if draws is not None and self._params["train_crop"] == "padded" else None
            images = pad_and_crop(images, self._params["crop_padding"], self._size, place)
        images = tf.cast(images, tf.float32)
        return images if draws is None else self._augmented(images, draws[:, BOX_DRAWS:])

    def _augmented(self, images: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
        if self._params["random_flip"]:
            images = flipped(images, draws[:, 0])
        if self._params["color_jitter"]:
            images = jittered(images, draws[:, 1:1 + JITTER_DRAWS], self._params["color_jitter"])
        if self._layers:
            operations = tf.reshape(draws[:, 1 + JITTER_DRAWS:-CUTOUT_DRAWS], [-1, self._layers, OPERATION_DRAWS])
            images = rand_augmented(images, operations, self._params["randaugment_magnitude"])
        if self._params["cutout"]:
            images = cut_out(images, draws[:, -CUTOUT_DRAWS:], self._params["cutout"])
        return images
