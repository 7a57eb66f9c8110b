"""An image classifier: a data layer by tf.data, an encoder, an output layer, and a model with its metric."""

import os
import re

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.data import DataLayer
from open_seq2seq.data.fields import Field
from open_seq2seq.encoders import Encoder
from open_seq2seq.losses import LossTerm
from open_seq2seq.models import Model
from open_seq2seq.models.part import Part
from open_seq2seq.models.results import LineWriter
from open_seq2seq.parts.component import Component
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.randomness import example_seeds
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError

_PICTURE = re.compile(r"\.(png|jpe?g|bmp|gif)$", re.IGNORECASE)


class ImageFolder(DataLayer):
    """Pictures in folders named after their classes: ``folder/<class>/<name>.png``.

    In inference ``files`` may name pictures without classes instead.
    """

    @staticmethod
    def get_required_params():
        return {"classes": Param(list, doc="Names of the classes, in the order of their numbers.")}

    @staticmethod
    def get_optional_params():
        return {
            **DataLayer.get_optional_params(),
            "folder": Param((str, type(None)), None, "Folder with a folder of pictures for each class."),
            "files": Param(list, [], "Pictures, for inference."),
            "image_size": Param(int, 24, "Height and width that pictures are resized to.", "pixels", minimum=1,
                                maximum=4096),
            "shift": Param(int, 2, "How far training pictures are shifted at random at most.", "pixels", minimum=0),
        }

    def __init__(self, params, model=None, name="data_layer", mode=None):
        super().__init__(params, model, name, mode)
        pairs = [(path, 0) for path in self.params["files"]] or self._labelled()
        if not pairs and self.mode != "interactive_infer":
            raise DataError(f"There are no pictures in {self.params['folder']}: it needs a folder for each of "
                            f"{', '.join(self.params['classes'])}.")
        self._paths = [path for path, _ in pairs]
        self._labels = np.array([label for _, label in pairs], np.int32)

    def _labelled(self):
        folder, examples = self.params["folder"] or "", []
        for label, name in enumerate(self.params["classes"]):
            path = os.path.join(folder, name)
            names = sorted(os.listdir(path)) if os.path.isdir(path) else []
            pictures = [(os.path.join(path, name), label) for name in names if _PICTURE.search(name)]
            if folder and not pictures:
                raise DataError(f"There are no pictures in {path}: 'data_layer_params/classes' names a folder of "
                                "pictures for each class.")
            examples += pictures
        return examples

    @property
    def num_examples(self):
        return len(self._paths)

    @property
    def fields(self):
        size = self.params["image_size"]
        fields = {"source_tensors": [Field(tf.float32, (None, size, size, 3))], "ids": Field(tf.int64, (None,))}
        labels = {"target_tensors": [Field(tf.int32, (None,))]}
        return {**fields, **labels} if self.mode in ("train", "eval") else fields

    def make_dataset(self, plan, training):
        paths, labels = tf.constant(self._paths), tf.constant(self._labels)

        def batch(wanted):
            examples = wanted["examples"]
            pictures = tf.map_fn(self._picture, tf.gather(paths, examples), fn_output_signature=tf.float32)
            if training:
                # From the run's seed, the example and the epoch: a resumed run draws the same.
                seeds = example_seeds(self.seed, examples, wanted["epoch"])
                pictures = tf.map_fn(self._augmented, (pictures, seeds), fn_output_signature=tf.float32)
            tensors = {"source_tensors": (pictures,), "ids": examples}
            if self.mode in ("train", "eval"):
                tensors["target_tensors"] = (tf.gather(labels, examples),)
            return tensors

        return plan.map(batch, num_parallel_calls=4, deterministic=True)

    def _picture(self, path):
        """Reads one picture: ``[size, size, 3]`` from -1 to 1."""
        size = self.params["image_size"]
        picture = tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)
        return tf.ensure_shape(tf.image.resize(picture, [size, size]), [size, size, 3]) / 127.5 - 1.0

    def _augmented(self, pair):
        """Mirrors and shifts a picture at random."""
        picture, seed = pair
        shift = self.params["shift"]
        picture = tf.image.stateless_random_flip_left_right(picture, seed)
        padded = tf.pad(picture, [[shift, shift], [shift, shift], [0, 0]], "SYMMETRIC")
        return tf.image.stateless_random_crop(padded, tf.shape(picture), seed)

    @classmethod
    def params_for_files(cls, files):
        """Returns the parameters for ``--infer_files``: pictures, and folders of them."""
        paths = []
        for name in files:
            inside = sorted(os.listdir(name)) if os.path.isdir(name) else [None]
            paths += [os.path.join(name, other) if other else name for other in inside
                      if other is None or _PICTURE.search(other)]
        return {"files": paths, "folder": None}

    def describe_example(self, example):
        return self._paths[example]


class ConvNet(Encoder):
    """Convolutions, each of which halves the picture, and the largest value of each channel: ``[batch, channels]``."""

    @staticmethod
    def get_required_params():
        return {"channels": Param(list, doc="Channels of the convolutions.")}

    def __init__(self, params, model=None, name="encoder", mode="train"):
        super().__init__(params, model, name, mode)
        sizes = [3, *self.params["channels"]]
        self.kernels = [self.weight([3, 3, before, after], self.make_initializer("he_normal"))
                        for before, after in zip(sizes, sizes[1:], strict=False)]
        self.offsets = [self.weight([after], "zeros") for after in sizes[1:]]

    def _encode(self, input_dict):
        x = tf.cast(input_dict["source_tensors"][0], self.compute_dtype)
        for kernel, offset in zip(self.kernels, self.offsets, strict=True):
            x = tf.nn.conv2d(x, cast_weight(kernel, self.compute_dtype), strides=2, padding="SAME")
            x = tf.nn.relu(x + tf.cast(offset, self.compute_dtype))
        return {"outputs": tf.reduce_max(x, axis=[1, 2])}


class Head(Component):
    """One matrix from features to logits; the model tells it how many classes there are."""

    @staticmethod
    def get_required_params():
        return {"num_classes": Param(int, doc="Set from the data layer.", derived=True),
                "num_features": Param(int, doc="Set from the encoder.", derived=True)}

    def __init__(self, params, model=None, name="head", mode="train"):
        super().__init__(params, model, name, mode)
        self.kernel = self.weight([self.params["num_features"], self.params["num_classes"]])
        self.bias = self.weight([self.params["num_classes"]], "zeros")

    def __call__(self, features):
        product = tf.matmul(features, cast_weight(self.kernel, features.dtype))
        return tf.cast(product, tf.float32) + self.bias


class ImageClassifier(Model):
    """Says which class a picture belongs to; judged by accuracy, written as CSV."""

    object_name = "images"

    @staticmethod
    def get_parts():
        return {**Model.get_parts(), "encoder": Part(Encoder), "head": Part(Head, "Class of the output layer.")}

    def derived_params(self, part):
        if part == "head":
            return {"num_classes": len(self.data_layer.params["classes"]),
                    "num_features": self.encoder.params["channels"][-1]}
        return {}

    def _logits(self, batch, training):
        encoded = self.encoder.encode({"source_tensors": batch["source_tensors"]}, training)
        return self.head(encoded["outputs"])

    def loss_terms(self, batch, training):
        logits, real = self._logits(batch, training), tf.cast(batch["ids"] >= 0, tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["target_tensors"][0], logits)
        term = LossTerm(tf.reduce_sum(losses * real), tf.reduce_sum(real), unit="image")
        return [term], {"outputs": [tf.nn.softmax(logits)]}

    def predict(self, batch):
        return [tf.nn.softmax(self._logits(batch, training=False))]

    def evaluate(self, input_values, output_values):
        """Returns whether each picture of the batch was recognised."""
        return (output_values[0].argmax(axis=1) == input_values["target_tensors"][0]).tolist()

    def finalize_evaluation(self, results_per_batch, training_step=None):
        hits = [hit for batch in results_per_batch for hit in batch]
        accuracy = float(np.mean(hits))
        deco_print(f"accuracy: {accuracy:.4f}", offset=1)
        return {"accuracy": accuracy}

    def infer(self, input_values, output_values):
        """Returns (example, (class, probability)) for each picture of the batch."""
        classes, best = self.data_layer.params["classes"], output_values[0].argmax(axis=1)
        return [(int(example), (classes[label], float(row[label])))
                for example, label, row in zip(input_values["ids"], best, output_values[0], strict=True)]

    def open_results(self, output_file):
        name = self.data_layer.describe_example
        return LineWriter(output_file, lambda example, result: f"{name(example)},{result[0]},{result[1]:.4f}\n")

    def report_sample(self, batch, outputs, reporter):
        classes = self.data_layer.params["classes"]
        label, predicted = int(batch["target_tensors"][0][0]), int(outputs[0][0].argmax())
        reporter.text("Sample", f"{classes[label]}, taken for {classes[predicted]}")
        reporter.image("sample", (batch["source_tensors"][0][0] + 1.0) / 2.0)
