"""A small regression whose data or gradients can be made to diverge; configs of the tests name these classes."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.data import DataLayer
from open_seq2seq.decoders import Decoder
from open_seq2seq.encoders import Encoder
from open_seq2seq.losses import Loss, LossTerm
from open_seq2seq.models import EncoderDecoderModel
from open_seq2seq.parts.precision import cast_weight

FEATURES = 8


class Points(DataLayer):
    """y = w·x + noise; some examples hold NaN, some have gradients that are far too large."""

    @staticmethod
    def get_optional_params():
        return {**DataLayer.get_optional_params(), "size": Param(int, 4000, "How many points."),
                "nan_examples": Param(list, [], "Examples with NaN in a feature."),
                "storm": Param(list, [], "First and last of the examples with huge gradients.")}

    def __init__(self, params, model=None, name="data_layer", mode=None):
        super().__init__(params, model, name, mode)
        rng = np.random.default_rng(7 if mode == "train" else 8)
        count = self.params["size"] if mode == "train" else 512
        self.x = rng.normal(size=(count, FEATURES)).astype(np.float32)
        self.y = (self.x @ np.arange(1, FEATURES + 1) / 4 + rng.normal(size=count)).astype(np.float32)
        self.boost = np.ones(count, np.float32)
        if mode == "train":
            self.x[self.params["nan_examples"], 2] = np.nan
            if self.params["storm"]:
                first, last = self.params["storm"]
                self.boost[first:last + 1] = 1e9

    @property
    def num_examples(self):
        return len(self.y)

    def make_batch(self, examples):
        return {"source_tensors": [self.x[examples], np.ones(len(examples), np.int32)],
                "target_tensors": [self.y[examples], np.ones(len(examples), np.int32), self.boost[examples]],
                "ids": np.asarray(examples, np.int64)}

    @property
    def input_signature(self):
        length = tf.TensorSpec([None], tf.int32)
        return {"source_tensors": [tf.TensorSpec([None, FEATURES], tf.float32), length],
                "target_tensors": [tf.TensorSpec([None], tf.float32), length, tf.TensorSpec([None], tf.float32)],
                "ids": tf.TensorSpec([None], tf.int64)}

    def describe_example(self, example):
        return f"points.csv:{example + 1}"


class Nothing(Encoder):
    """Hands the features on."""

    def _encode(self, input_dict):
        return {"outputs": input_dict["source_tensors"][0]}


class Line(Decoder):
    """w·x + b."""

    def __init__(self, params, model, name="decoder", mode="train"):
        super().__init__(params, model, name, mode)
        self.kernel = self.weight([FEATURES, 1])
        self.bias = self.weight([1], "zeros")

    def _decode(self, input_dict):
        x = tf.cast(input_dict["encoder_output"]["outputs"], self.compute_dtype)
        y = tf.matmul(x, cast_weight(self.kernel, self.compute_dtype))[:, 0]
        return {"logits": y + cast_weight(self.bias, self.compute_dtype), "outputs": None}


@tf.custom_gradient
def _boosted(values, factor):
    return values, lambda upstream: (upstream * factor, None)


class SquaredError(Loss):
    """Mean squared error; a boosted example has a gradient that is so many times too large."""

    def _compute_loss(self, input_dict):
        target, _, boost = input_dict["target_tensors"]
        predicted = _boosted(tf.cast(input_dict["decoder_output"]["logits"], tf.float32), boost)
        errors = tf.square(predicted - target)
        return LossTerm(tf.reduce_sum(errors), tf.cast(tf.size(errors), tf.float32), unit="example")


class Regression(EncoderDecoderModel):
    """Judged by its loss alone."""

    object_name = "points"

    @property
    def predicts_in_evaluation(self):
        return False
