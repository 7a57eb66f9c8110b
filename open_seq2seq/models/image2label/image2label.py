"""Classification of images, evaluated by top-1 and top-5 accuracy."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.data.image2label.image_layer import ImageDataLayer
from open_seq2seq.data.static_shapes import without_empty_rows
from open_seq2seq.encoders.speech_encoder import TimeWindows
from open_seq2seq.metrics.classification import confusion_matrix, in_top, most_confused
from open_seq2seq.models.confusion import report_confusion
from open_seq2seq.models.encoder_decoder import EncoderDecoderModel
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.models.serving import Answer, ServingFunction, Tensors
from open_seq2seq.models.speech2text.serving import FRONT_END, feed_of_waveforms, waveform_specs
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError


class PredictionWriter(ResultWriter):
    """Writes a CSV file with the columns example, class and probability, and a row for each predicted class.

    Args:
      output_file: path of the file.
      describe: function from the index of an example to its name.
      class_names: names of the classes.
    """

    def __init__(self, output_file: str, describe: Callable[[int], str], class_names: Sequence[str]) -> None:
        super().__init__()
        self._name, self._describe, self._class_names = output_file, describe, class_names

    def begin(self) -> None:
        self._rows = csv.writer(self.outputs.open(self._name), lineterminator="\n")
        self._rows.writerow(("example", "class", "probability"))

    def write(self, example: int, result: Any) -> None:
        for number, probability in zip(*result, strict=True):
            self._rows.writerow((self._describe(example), self._class_names[number], f"{probability:.4f}"))


def mistakes_picture(images: np.ndarray) -> np.ndarray:
    """Returns images in a square grid, FP32 ``[height, width, channels]`` from 0 to 1.

    Args:
      images: ``[images, height, width, channels]``. The values of each image are stretched to the range from 0 to 1.
        Audio features ``[images, time, 1, features]`` are shown as grey images. Of other images, only the first
        channel is shown, unless they have 1 or 3 channels.
    """
    if images.shape[2] == 1:
        images = images.transpose(0, 3, 1, 2)[:, ::-1]
    elif images.shape[3] not in (1, 3):
        images = images[..., :1]
    low, high = (bound(images, axis=(1, 2, 3), keepdims=True) for bound in (np.min, np.max))
    shown = (images - low) / np.maximum(high - low, 1e-6)
    count, height, width, channels = shown.shape
    columns = math.ceil(math.sqrt(count))
    rows = -(-count // columns)
    grid = np.zeros([rows, height + 1, columns, width + 1, channels], np.float32)  # with a black line between images
    for number, image in enumerate(shown):
        grid[number // columns, :height, number % columns, :width] = image
    return grid.reshape(rows * (height + 1), columns * (width + 1), channels)


TOP = 5
_WHITENED_PIXELS = 2_000_000  # of the images from which filters that whiten images are computed
_MOST_CLASSES = 1000  # largest number of classes for which a confusion matrix is computed


class Prediction(NamedTuple):
    """The most probable classes of one example.

    Attributes:
      classes: indices of the classes, most probable first.
      probabilities: probabilities of these classes.
    """

    classes: list[int]
    probabilities: list[float]


class Image2Label(EncoderDecoderModel):
    """Classification, evaluated by top-1 and top-5 accuracy; results are written as CSV.

    The data layer must have ``class_names``. The targets of a batch are indices of classes ``[batch]`` or, for mixed
    images, probabilities of classes ``[batch, classes]``.
    """

    object_name = "images"
    interactive_hint = "Type the name of an image"
    verb = "classify"
    hub_task = "image-classification"
    data_layer: Any

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **EncoderDecoderModel.get_optional_params(),
            "average_mirrored": Param(bool, False, "Whether evaluation and inference average the class probabilities "
                                      "of each image and its mirror image, which doubles their time. The validation "
                                      "loss remains that of the image alone.", on_change=FREE),
            "average_shifted": Param(int, 0, "Number of pixels by which two copies of each image are shifted, one up "
                                     "and left, one down and right; evaluation and inference average the class "
                                     "probabilities of the image and the copies, which count half as much. This "
                                     "triples their time; 0 disables it.", "pixels", minimum=0, maximum=1000,
                                     on_change=FREE),
            "write_top": Param(int, 1, "Number of most probable classes that inference writes for each example.",
                               "classes", minimum=1, on_change=FREE),
            "show_mistakes": Param(int, 16, "Maximum number of wrongly classified images of a training batch that are "
                                   "shown as samples; 0 disables this.", "images", minimum=0, on_change=FREE),
        }

    def derived_params(self, part: str) -> dict[str, Any]:
        """Returns the parameters that follow from the shape of the images, the classes and the encoder's outputs."""
        layer = self.data_layer
        if not hasattr(layer, "class_names"):
            raise ConfigError([f"'data_layer' is {type(layer).__name__}, but Image2Label needs a data layer with "
                               "class_names, such as CifarDataLayer."])
        for name, off in (("average_mirrored", False), ("average_shifted", 0)):
            if self.params[name] and not isinstance(layer, ImageDataLayer):
                raise ConfigError([f"'{name}' is {self.params[name]}, but {type(layer).__name__} is not a data layer "
                                   f"of images: set it to {off}."])
        source = layer.fields["source_tensors"][0].shape
        if (shift := self.params["average_shifted"]) and shift >= source[1]:
            raise ConfigError([f"'average_shifted' is {shift}, but images have {source[1]} pixels: choose a smaller "
                               "number."])
        derived = {"num_classes": layer.num_classes, "in_channels": source[-1], "image_shape": list(source[1:]),
                   "batch_size": self.params["batch_size_per_gpu"], **getattr(layer, "encoder_params", {})}
        if part == "decoder" and isinstance(self.encoder, TimeWindows):
            if len(layer.fields["source_tensors"]) < 2:
                raise ConfigError([f"'encoder' is {type(self.encoder).__name__}, which reads sequences, but "
                                   f"{type(layer).__name__} makes images: choose an encoder of images, such as "
                                   "ResNetEncoder, or for spoken commands set 'data_layer_params/model_format' to "
                                   "jasper."])
            derived["time_steps"] = self.encoder.output_lengths(source[1])
        return derived

    def initialize_from_data(self) -> None:
        """Sets the filters of an encoder that whitens images, from images spread over the training set."""
        whitening = getattr(self.encoder, "whitening", None)
        if whitening is not None:
            count, (height, width, _) = self.data_layer.num_examples, self.encoder.params["image_shape"]
            chosen = min(count, max(1, _WHITENED_PIXELS // (height * width)))
            examples = np.linspace(0, count - 1, chosen).astype(np.int64)
            whitening.fit(self.data_layer.make_batch(examples)["source_tensors"][0])

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        """Returns the logits ``[batch, classes]``; of several views of an image, those of the mean probabilities."""
        images, *others = batch["source_tensors"]
        views = self._views(images)
        logits = [super(Image2Label, self).predict({**batch, "source_tensors": [view, *others]})[0]
                  for _, view in views]
        if len(views) == 1:
            return logits
        logs = tf.nn.log_softmax(tf.cast(tf.stack(logits), tf.float32))
        shares = np.array([share for share, _ in views], np.float32)[:, np.newaxis, np.newaxis]
        return [tf.reduce_logsumexp(logs + np.log(shares), axis=0)]

    def _views(self, images: tf.Tensor) -> list[tuple[float, tf.Tensor]]:
        """Returns the views of images whose predictions are averaged, each with its share; the sum of these is 1."""
        views = [(1.0, images)]
        if shift := self.params["average_shifted"]:
            height, width = images.shape[1:3]
            padded = tf.pad(images, [[0, 0], [shift, shift], [shift, shift], [0, 0]], "REFLECT")
            views = [(0.5, images), (0.25, padded[:, 2 * shift:, 2 * shift:]), (0.25, padded[:, :height, :width])]
        if self.params["average_mirrored"]:
            views = [(share / 2, side) for share, view in views for side in (view, tf.reverse(view, [2]))]
        return views

    def prediction_tensors(self, decoded: dict[str, Any]) -> list[tf.Tensor]:
        """Returns the logits ``[batch, classes]``."""
        return [decoded["logits"]]

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        """Shows the accuracy in the batch, the first mistake, and a picture of the wrongly classified images."""
        batch, outputs = without_empty_rows(batch, outputs)
        logits, labels = outputs[0], _labels(batch)
        if not len(labels):
            return
        for count in (1, TOP):
            reporter.scalar(f"Train batch top-{count}", float(in_top(logits, labels, count).mean()))
        predicted = logits.argmax(axis=1)
        wrong = np.flatnonzero(predicted != labels)[:self.params["show_mistakes"]]
        names = self.data_layer.class_names
        if len(wrong):
            first = wrong[0]
            reporter.texts({"mistake": self.data_layer.describe_example(int(batch["ids"][first])),
                            "label": names[labels[first]], "prediction": self._class_name(int(predicted[first]))})
            reporter.image("mistakes", mistakes_picture(batch["source_tensors"][0][wrong]))

    def _class_name(self, number: int) -> str:
        names = self.data_layer.class_names
        return names[number] if number < len(names) else str(number)

    def evaluate(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> np.ndarray:
        """Returns a row for each image, int64 ``[batch, 5]``.

        The columns are the index of the example, its label, the predicted class, and 1 or 0 for whether the label is
        among the 1 and among the 5 most probable classes.
        """
        (logits,), labels = output_values, _labels(input_values)
        return np.stack([np.asarray(input_values["ids"], np.int64), labels, logits.argmax(axis=1),
                         in_top(logits, labels, 1), in_top(logits, labels, TOP)], axis=1)

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        """Prints the accuracies and the most frequent mistakes; returns the accuracies, or none without examples."""
        rows = np.concatenate(results_per_batch) if results_per_batch else np.zeros([0, 5], np.int64)
        if not len(rows):
            return {}
        metrics = {f"Eval top-{count}": float(rows[:, column].mean()) for count, column in ((1, 3), (TOP, 4))}
        for name, value in metrics.items():
            deco_print(f"{name}: {value:.4f}", offset=1)
        self._print_mistakes(rows)
        return metrics

    def report_evaluation(self, results_per_batch: list[Any], reporter: Reporter) -> None:
        """Shows a picture of the confusion matrix."""
        rows = np.concatenate(results_per_batch)
        if len(rows) and (matrix := self._confusion(rows)) is not None:
            report_confusion(matrix, [self._class_name(number) for number in range(len(matrix))], reporter)

    def _confusion(self, rows: np.ndarray) -> np.ndarray | None:
        """Returns the confusion matrix of the rows of ``evaluate``; None if there are too many classes."""
        size = max(len(self.data_layer.class_names), int(rows[:, 1:3].max()) + 1)
        return confusion_matrix(rows[:, 1], rows[:, 2], size) if size <= _MOST_CLASSES else None

    def _print_mistakes(self, rows: np.ndarray) -> None:
        if (matrix := self._confusion(rows)) is None:
            return
        for label, prediction, count in most_confused(matrix, 5):
            deco_print(f"{count:,} of {matrix[label].sum():,} examples of {self._class_name(label)} taken for "
                       f"{self._class_name(prediction)}", offset=1)

    def infer(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[tuple[int, Prediction]]:
        """Returns (example, prediction) for each example of the batch."""
        (logits,) = output_values
        class_logits = logits[:, :len(self.data_layer.class_names)]  # there may be more outputs than classes
        scores = np.exp(class_logits - class_logits.max(axis=1, keepdims=True))
        probabilities = scores / scores.sum(axis=1, keepdims=True)
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, :self.params["write_top"]]
        return [(int(example), Prediction(best.tolist(), row[best].tolist()))
                for example, best, row in zip(input_values["ids"], order, probabilities, strict=True)]

    def answer(self, result: Prediction) -> str:
        return ", ".join(f"{self._class_name(number)} ({probability:.3f})"
                         for number, probability in zip(*result, strict=True))

    def serving_functions(self) -> list[ServingFunction]:
        return classifying(self)

    def label_of(self, result: Prediction) -> str:
        """Returns the name of the most probable class in one of ``infer``'s results."""
        return self._class_name(result.classes[0])

    def open_results(self, output_file: str) -> ResultWriter:
        layer = self.data_layer
        return PredictionWriter(output_file, layer.describe_example, layer.class_names)


def _labels(batch: dict[str, Any]) -> np.ndarray:
    """Returns the index of each image's class, int64 ``[batch]``; for a mixed image, of the more probable class."""
    targets = np.asarray(batch["target_tensors"][0])
    return np.asarray(targets.argmax(axis=1) if targets.ndim > 1 else targets, np.int64)


def classifying(model: Any) -> list[ServingFunction]:
    """Returns the functions ``classify``, which also returns names, and ``probabilities``.

    Args:
      model: an ``Image2Label`` built for ``interactive_infer``.
    """
    layer, names = model.data_layer, model.data_layer.class_names
    if isinstance(layer, ImageDataLayer):
        sources, raw, core = _of_images(layer)
    else:
        sources, raw, core = _of_recordings(layer)

    def probabilities(inputs: Tensors) -> Tensors:
        with tf.name_scope(FRONT_END):
            source = sources(inputs)
        (logits,) = model.predict({"source_tensors": source})
        return {"probabilities": tf.nn.softmax(tf.cast(logits[:, :len(names)], tf.float32))}

    def classify(inputs: Tensors) -> Tensors:
        outputs = probabilities(inputs)
        return {"labels": tf.gather(tf.constant(names), tf.argmax(outputs["probabilities"], -1)), **outputs}

    def answers(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
        rows = outputs["probabilities"]
        labels = [names[row.argmax()].encode() for row in rows]
        return [Answer((label.decode(),), (float(row.max()),))
                for label, row in zip(outputs.get("labels", labels), rows, strict=True)]

    def expected(result: Any) -> Answer:
        return Answer((model.label_of(result),), (result.probabilities[0],))

    described = {"probabilities": f"probability of each class [batch, {len(names)}], float32"}
    return [
        ServingFunction("classify", classify, raw[0], {"labels": "the most probable class [batch]", **described}, False,
                        raw[1], answers, expected),
        ServingFunction("probabilities", probabilities, core[0], described, True, core[1], answers, expected)]


# The specs of a function's inputs, and its feed; see ``ServingFunction``.
_Inputs = tuple[dict[str, tf.TensorSpec], Callable[[Sequence[Any], np.ndarray], dict[str, np.ndarray]]]


def _of_images(layer: ImageDataLayer) -> tuple[Callable[[Tensors], list[tf.Tensor]], _Inputs, _Inputs]:
    """Returns a function from inputs to ``source_tensors``, and the inputs of ``classify`` and ``probabilities``."""
    size = layer.params["image_size"]

    def sources(inputs: Tensors) -> list[tf.Tensor]:
        pixels = inputs["pixels"] if "pixels" in inputs else layer.graph_pixels(inputs["files"])
        return [layer.standardized(pixels)]

    def contents(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        files = [Path(one).read_bytes() if isinstance(one, (str, os.PathLike)) else tf.io.encode_png(one).numpy()
                 for one in inputs]
        return {"files": np.array(files, object)}

    def pixels(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        return {"pixels": layer.interactive_pixels(inputs).numpy()}

    return (sources, ({"files": tf.TensorSpec([None], tf.string)}, contents),
            ({"pixels": tf.TensorSpec([None, size, size, layer.channels], tf.float32)}, pixels))


def _of_recordings(layer: Any) -> tuple[Callable[[Tensors], list[tf.Tensor]], _Inputs, _Inputs]:
    """Does what ``_of_images`` does for recordings."""
    inputs = waveform_specs(), feed_of_waveforms(layer.params["sample_freq"])
    return lambda given: layer.graph_sources(given["waveforms"], given["lengths"]), inputs, inputs
