"""Base of the data layers of images: decoding and augmentation by ``tf.data``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.datasets import UnusableDataError, reason
from open_seq2seq.data.examination import examined
from open_seq2seq.data.fields import Field
from open_seq2seq.data.image2label.image_files import FileSet, PixelSet, RecordSet, decode_rgb, find_images, on_white
from open_seq2seq.data.image2label.pipeline import (
    Pipeline,
    beta_quantiles,
    image_problems,
    mixed,
    mixing_weights,
    standardized,
)
from open_seq2seq.parts.randomness import example_uniforms
from open_seq2seq.utils.console import deco_print, format_count
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import ConfigError, DataError
from open_seq2seq.utils.given_files import STANDARD_INPUT, check_given, spooled_input

_SHOWN = 5  # number of classes that messages name
_MIXUP = 1  # the argument ``draw`` of ``example_uniforms`` for mixup; other augmentation uses the default, 0


class ImageDataLayer(DataLayer):
    """Base of data layers of images and labels; subclasses implement ``_labelled_images`` and ``class_names``.

    A batch has images FP32 ``[batch, image_size, image_size, 3]`` and, except in inference, the probabilities of the
    classes FP32 ``[batch, num_classes]``, which are one-hot unless mixup is on. Random choices in training depend
    only on the run's seed, the index of the example, and the epoch.

    Raises:
      ConfigError: the parameters are invalid or contradict each other.
      DataError: a file is missing or cannot be used, or there are no images.
    """

    channels = 3

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(params, model, name, mode)
        if problems := image_problems(self.params, self.params_path):
            raise ConfigError(problems)
        self._pipeline = Pipeline(self.params)
        self._quantiles = beta_quantiles(self.params["mixup"]) if self.params["mixup"] else None
        self._skipped: set[int] = set()
        self._set: PixelSet | FileSet | None = None
        if self.mode != "interactive_infer":
            _ = self.fingerprints  # computed before the files are read, to detect later changes
            files = self.params["files"]
            self._set = FileSet(files, np.zeros(len(files), np.int32)) if files else self._labelled_images()
            if not self._set.num_images:
                raise DataError(f"'{self.params_path}' names files without images: name files that contain some.")
            self._print_left_out()

    def _labelled_images(self) -> PixelSet | FileSet:
        """Returns the images that the parameters name."""
        raise NotImplementedError("A data layer of images must define _labelled_images().")

    @property
    def class_names(self) -> list[str]:
        """Names of the classes, in the order of their indices."""
        raise NotImplementedError("A data layer of images must define class_names.")

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def _images(self) -> PixelSet | FileSet:
        if self._set is None:
            raise DataError("Interactive inference has no data set: pass images to make_interactive_batch.")
        return self._set

    @property
    def num_examples(self) -> int:
        return self._images.num_images

    @property
    def fields(self) -> dict[str, Any]:
        size = self.params["image_size"]
        fields: dict[str, Any] = {"source_tensors": [Field(tf.float32, (None, size, size, self.channels))],
                                  "ids": Field(tf.int64, (None,))}
        if self._has_targets:
            fields["target_tensors"] = [Field(tf.float32, (None, self.num_classes))]
        return fields

    def make_dataset(self, plan: tf.data.Dataset, training: bool) -> tf.data.Dataset:
        """Returns a data set of batches; see ``DataLayer``.

        With ``on_bad_example: skip``, images that cannot be decoded are left out. A batch in which no image can be
        decoded has one row with the id -1.
        """
        def batch(wanted: dict[str, tf.Tensor]) -> dict[str, Any]:
            examples, epoch = wanted["examples"], wanted["epoch"]
            images, labels, good = self._read(examples, epoch, training)
            if training and self._quantiles is not None:
                images, labels = self._mixed(images, labels, examples, epoch)
            arrays = {"source_tensors": standardized(images, self.params["standardize"]), "target_tensors": labels,
                    "ids": tf.where(good, examples, -1)}
            if self.params["on_bad_example"] == "skip":
                # If no image could be decoded, keep one row with the id -1, because every planned batch must be made.
                selected = tf.concat([good[:1] | ~tf.reduce_any(good), good[1:]], axis=0)
                arrays = {key: tf.boolean_mask(value, selected) for key, value in arrays.items()}
            arrays = {key: (value,) if key.endswith("tensors") else value for key, value in arrays.items()}
            if not self._has_targets:
                del arrays["target_tensors"]
            return arrays

        return plan.map(batch, num_parallel_calls=min(self.params["num_parallel_calls"], os.cpu_count() or 1))

    def _read(self, examples: tf.Tensor, epoch: tf.Tensor,
              training: bool) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns images (0 to 255), class probabilities, and whether each image could be decoded, bool ``[batch]``."""
        source, draws = self._images, None
        if training:
            draws = self._pipeline.draws(self.seed, examples, epoch)
        good = tf.ones_like(examples, tf.bool)
        if isinstance(source, PixelSet):
            images, labels = tf.gather(source.pixels, examples), source.labels(examples)
        else:
            images, labels, good = self._decoded(source, examples, draws)
        images = self._pipeline.finished(images, draws, isinstance(source, FileSet))
        return images, tf.one_hot(labels, self.num_classes), good

    def _decoded(self, source: FileSet, examples: tf.Tensor,
                 draws: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns images ``[batch, size, size, 3]``, labels, and whether each could be decoded, both ``[batch]``."""
        skips = self.params["on_bad_example"] == "skip"
        numbers = tf.zeros([tf.shape(examples)[0], 0]) if draws is None else draws
        size = self._pipeline.read_size(draws is not None)

        def one(pair: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            example, row = pair[0], pair[1] if draws is not None else None
            if not skips:
                content, label = source.load(example)
                return self._pipeline.read(decode_rgb(content), row), label, tf.constant(True)
            image, label = self._tried(source, example)
            good = tf.shape(image)[0] > 0
            square = tf.cond(good, lambda: self._pipeline.read(image, row), lambda: tf.zeros([size, size, 3]))
            return square, label, good

        kinds = (tf.TensorSpec([size, size, 3], tf.float32), tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.bool))
        return tf.map_fn(one, (examples, numbers), fn_output_signature=kinds)

    def _tried(self, source: FileSet, example: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns an image and its label; a file that cannot be decoded is reported, and gives an image of size 0."""
        def decode(example: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            try:
                content, label = source.load(example)
                return decode_rgb(content), label
            except tf.errors.OpError as error:
                self._skip(int(example), error)
                return tf.zeros([0, 0, 3], tf.uint8), tf.zeros([], tf.int32)

        image, label = tf.py_function(decode, [example], (tf.uint8, tf.int32))
        return tf.ensure_shape(image, [None, None, 3]), tf.ensure_shape(label, [])

    def _skip(self, example: int, error: tf.errors.OpError) -> None:
        if example not in self._skipped:
            self._skipped.add(example)
            deco_print(f"Skipped {self.describe_example(example)}, which cannot be read: {reason(error)}.")
        if len(self._skipped) == self.num_examples:
            raise UnusableDataError(
                f"{self.describe_example(example)} cannot be read ({reason(error)}), and there is no other image."
                if self.num_examples == 1 else f"All {self.num_examples:,} images were skipped: the last one cannot "
                f"be read, because {reason(error)}.")

    def report_dropped(self) -> dict[str, int]:
        return dict(getattr(self._set, "dropped", {}))

    def _print_left_out(self) -> None:
        """Prints the numbers of files that are left out and, in evaluation, the classes without images."""
        for why, count in self.report_dropped().items():
            deco_print(f"Left out {format_count(count, 'file')}: {why} ({self.mode})")
        if self.mode == "eval" and not isinstance(self._set, RecordSet):  # records are not read yet
            labels = self._images.labels(tf.range(self.num_examples))
            empty = np.setdiff1d(np.arange(self.num_classes), labels)
            names = ", ".join(shown(self.class_names[number]) for number in empty[:_SHOWN])
            if len(empty):
                deco_print(f"Classes without images: {len(empty):,} of {self.num_classes:,}, such as {names} (eval)")

    def _mixed(self, images: tf.Tensor, labels: tf.Tensor, examples: tf.Tensor,
               epoch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mixes each image with a random one of the data set; the choice depends on seed, example and epoch."""
        partners, draws = self._partners(examples, epoch)
        others, other_labels, good = self._read(partners, epoch, True)
        assert self._quantiles is not None
        weights = tf.where(good, mixing_weights(draws, self._quantiles), 1.0)
        return mixed(images, others, weights), mixed(labels, other_labels, weights)

    def _partners(self, examples: tf.Tensor, epoch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the numbers of the images to mix with ``[batch]``, and random numbers for the weights ``[batch]``."""
        draws = example_uniforms(self.seed, examples, epoch, 2, _MIXUP)
        # Float64, because an FP32 product could be rounded up to num_examples.
        return tf.cast(tf.cast(draws[:, 0], tf.float64) * self.num_examples, tf.int64), draws[:, 1]

    def examples_read(self, examples: np.ndarray, epoch: int) -> np.ndarray:
        """Returns the numbers of these images and, with mixup, of those that are mixed into them."""
        return examples if self._quantiles is None else np.append(examples, self._partners(examples, epoch)[0].numpy())

    def examine(self) -> list[str]:
        """Decodes every image, for ``--check``; images in memory were decoded when the layer was created."""
        source = self._images
        if isinstance(source, PixelSet):
            return [f"all {self.num_examples:,} images were read"]
        return examined(lambda example: self._problem(source, example), self.num_examples, "images",
                        self.params["on_bad_example"] == "skip")

    def _problem(self, source: FileSet, example: int) -> str | None:
        try:
            decode_rgb(source.load(tf.constant(example, tf.int64))[0])
        except tf.errors.OpError as error:
            return f"{self.describe_example(example)} cannot be read: {reason(error)}."
        return None

    def example_files(self) -> Sequence[str]:
        return self._set.paths if type(self._set) is FileSet and not self.params["files"] else ()

    def describe_example(self, example: int) -> str:
        return self._images.describe(example)

    def make_interactive_batch(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Returns a batch of images, each given as a path or as a uint8 array ``[height, width, 3]``.

        Arrays ``[height, width, 4]``, with an alpha channel, are put on a white background, as image files are.

        Raises:
          DataError: there are no images, or one cannot be used.
        """
        if not len(inputs):
            raise DataError("There are no images: pass a list of paths or arrays.")
        images = self.standardized(self.interactive_pixels(inputs))
        return {"source_tensors": [images.numpy()], "ids": np.arange(len(inputs))}

    def interactive_pixels(self, inputs: Sequence[Any]) -> tf.Tensor:
        """Returns images of ``make_interactive_batch`` with values from 0 to 255, FP32 ``[batch, size, size, 3]``."""
        images = tf.stack([self._pipeline.read(self._seen(image), None) for image in inputs])
        return self._pipeline.finished(images, None, True)

    def interactive_examples(self, count: int) -> list[Any]:
        """Returns the paths of images of the data set, or their pixels if they are not in files of their own."""
        source, numbers = self._images, range(min(count, self.num_examples))
        if isinstance(source, PixelSet):
            return [source.pixels[number].numpy() for number in numbers]
        if isinstance(source, RecordSet):
            return [decode_rgb(source.load(tf.constant(number, tf.int64))[0]).numpy() for number in numbers]
        return source.paths[:count]

    def graph_pixels(self, contents: tf.Tensor) -> tf.Tensor:
        """Returns the ``interactive_pixels`` of the contents of files, strings ``[batch]``, in the graph."""
        size = self._pipeline.read_size(False)
        images = tf.map_fn(lambda content: self._pipeline.read(decode_rgb(content), None), contents,
                           fn_output_signature=tf.TensorSpec([size, size, 3], tf.float32))
        return self._pipeline.finished(images, None, True)

    def standardized(self, pixels: tf.Tensor) -> tf.Tensor:
        """Returns the ``source_tensors`` of images with values from 0 to 255, FP32 ``[batch, size, size, 3]``."""
        return standardized(pixels, self.params["standardize"])

    def _seen(self, given: Any) -> tf.Tensor:
        if not isinstance(given, (str, os.PathLike)):
            pixels = np.asarray(given)
            if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (3, 4) or not pixels.size:
                raise DataError(f"An image must be a uint8 array [height, width, 3], got {pixels.dtype} of shape "
                                f"{list(pixels.shape)}.")
            return on_white(tf.constant(pixels))
        try:
            return decode_rgb(tf.io.read_file(os.fspath(given)))
        except tf.errors.OpError as error:
            raise DataError(f"{shown(os.fspath(given))} cannot be read: {reason(error)}.") from error

    @classmethod
    def params_for_files(cls, files: Sequence[str]) -> dict[str, Any]:
        """Returns the parameters that make inference classify the given images.

        Args:
          files: images, or folders of images; ``-`` is an image from standard input.

        Raises:
          UserError: a file does not exist, a folder has no images, or standard input is empty or a device.
        """
        check_given(files)
        names = [spooled_input("standard-input.image") if name == STANDARD_INPUT else name for name in files]
        return {"files": [path for name in names for path in find_images(name)]}
