"""Small pictures in files and a linear classifier of them: a data layer whose batches ``tf.data`` makes."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.data import DataLayer
from open_seq2seq.data.fields import Field
from open_seq2seq.decoders import Decoder
from open_seq2seq.encoders import Encoder
from open_seq2seq.losses import Loss, LossTerm
from open_seq2seq.models import EncoderDecoderModel
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.randomness import example_seeds

SIZE, CLASSES = 6, 4


def write_images(folder, count: int) -> None:
    """Writes ``0000.png`` and so on: each has one bright quarter, which is its class."""
    rng = np.random.default_rng(0)
    for number in range(count):
        image = rng.integers(0, 100, (SIZE, SIZE, 3)).astype(np.uint8)
        row, column = divmod(number % CLASSES, 2)
        image[row * SIZE // 2:(row + 1) * SIZE // 2, column * SIZE // 2:(column + 1) * SIZE // 2] += 120
        (folder / f"{number:04d}.png").write_bytes(tf.io.encode_png(image).numpy())


class Images(DataLayer):
    """Pictures of a folder; in training they are brightened and get noise, drawn anew in each epoch."""

    @staticmethod
    def get_required_params():
        return {"folder": str}

    @staticmethod
    def get_optional_params():
        return {**DataLayer.get_optional_params(), "batch_size_unit": Param(["images"], "images", "Pictures.")}

    def __init__(self, params, model=None, name="data_layer", mode=None):
        super().__init__(params, model, name, mode)
        self.files = sorted(os.listdir(self.params["folder"]))
        self.paths = [os.path.join(self.params["folder"], file) for file in self.files]

    @property
    def num_examples(self):
        return len(self.files)

    @property
    def fields(self):
        return {"source_tensors": [Field(tf.float32, (None, SIZE, SIZE, 3))],
                "target_tensors": [Field(tf.int32, (None,)), Field(tf.float32, (None, CLASSES))],
                "ids": Field(tf.int64, (None,))}

    def describe_example(self, example):
        return self.files[example]

    def make_dataset(self, plan, training):
        return plan.map(lambda wanted: self.batch(wanted["examples"], wanted["epoch"], training),
                        num_parallel_calls=2)

    def batch(self, examples, epoch, training):
        """Returns the batch in TensorFlow's operations."""
        def image(path):
            return tf.ensure_shape(tf.io.decode_png(tf.io.read_file(path), channels=3), [SIZE, SIZE, 3])

        paths = tf.gather(self.paths, examples)
        images = tf.cast(tf.map_fn(image, paths, fn_output_signature=tf.uint8), tf.float32)
        if training:
            images = tf.map_fn(self._augmented, (images, example_seeds(self.seed, examples, epoch)),
                               fn_output_signature=tf.float32)
        labels = tf.cast(examples % CLASSES, tf.int32)
        return {"source_tensors": (images,), "target_tensors": (labels, tf.one_hot(labels, CLASSES)), "ids": examples}

    @staticmethod
    def _augmented(image_and_seed):
        image, seed = image_and_seed
        return image + tf.random.stateless_uniform([SIZE, SIZE, 3], seed, maxval=30.0)


class ImagesByHand(Images):
    """The same pictures, batch by batch."""

    def make_batch(self, examples):
        return self._made(examples, 0, False)

    def make_training_batch(self, examples, epoch):
        return self._made(examples, epoch, True)

    def _made(self, examples, epoch, training):
        made = self.batch(tf.constant(examples, tf.int64), tf.constant(epoch, tf.int64), training)
        return {name: [a.numpy() for a in value] if isinstance(value, tuple) else value.numpy()
                for name, value in made.items()}


class Pixels(Encoder):
    """The picture as a vector."""

    def _encode(self, input_dict):
        images = input_dict["source_tensors"][0]
        return {"outputs": tf.reshape(images / 255.0, [-1, SIZE * SIZE * 3])}


class Classifier(Decoder):
    """Logits of classes."""

    def __init__(self, params, model, name="decoder", mode="train"):
        super().__init__(params, model, name, mode)
        self.kernel = self.weight([SIZE * SIZE * 3, CLASSES])

    def _decode(self, input_dict):
        pixels = tf.cast(input_dict["encoder_output"]["outputs"], self.compute_dtype)
        logits = tf.matmul(pixels, cast_weight(self.kernel, self.compute_dtype))
        return {"logits": logits, "outputs": [tf.argmax(logits, axis=-1)]}


class ClassLoss(Loss):
    """Cross entropy over the examples that are no empty rows."""

    def _compute_loss(self, input_dict):
        logits = tf.cast(input_dict["decoder_output"]["logits"], tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(input_dict["target_tensors"][0], logits)
        held = tf.cast(input_dict["ids"] >= 0, tf.float32)
        return LossTerm(tf.reduce_sum(losses * held), tf.reduce_sum(held), unit="image")


class ImageModel(EncoderDecoderModel):
    """Judged by its accuracy."""

    object_name = "images"

    def evaluate(self, input_values, output_values):
        return list(zip(input_values["ids"].tolist(), output_values[0] == input_values["target_tensors"][0],
                        strict=True))

    def finalize_evaluation(self, results_per_batch, training_step=None):
        hits = dict(row for batch in results_per_batch for row in batch)
        print(f"{sum(hits.values())} of {len(hits)} are right")
        return {"accuracy": float(np.mean(list(hits.values())))}
