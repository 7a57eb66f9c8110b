"""Models of other parts than encoder, decoder and loss: two encoders, two decoders, none of them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.data import DataLayer
from open_seq2seq.decoders import Decoder
from open_seq2seq.encoders import Encoder
from open_seq2seq.losses import Loss, LossTerm
from open_seq2seq.models import EncoderDecoderModel, Model, Part
from open_seq2seq.optimizers import LossScaler, Optimizer
from open_seq2seq.parts.component import Component
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.training.hooks import Hook

FEATURES = 4


class Points(DataLayer):
    """Points with two targets."""

    def __init__(self, params, model, name="data_layer", mode="train"):
        super().__init__(params, model, name, mode)
        rng = np.random.default_rng(0 if mode == "train" else 1)
        self.x = rng.normal(size=(96, FEATURES)).astype(np.float32)
        self.y = np.stack([self.x.sum(1), self.x @ np.arange(FEATURES)], 1).astype(np.float32)
        self.num_targets = 2

    @property
    def num_examples(self):
        return len(self.y)

    def make_batch(self, examples):
        return {"source_tensors": [self.x[examples]], "target_tensors": [self.y[examples]],
                "ids": np.asarray(examples, np.int64)}

    @property
    def input_signature(self):
        return {"source_tensors": [tf.TensorSpec([None, FEATURES], tf.float32)],
                "target_tensors": [tf.TensorSpec([None, 2], tf.float32)], "ids": tf.TensorSpec([None], tf.int64)}


class Projection(Encoder):
    """An activation of a matrix product."""

    @staticmethod
    def get_required_params():
        return {"size": int}

    @staticmethod
    def get_optional_params():
        return {**Encoder.get_optional_params(), "activation": Param((callable, str), "relu", names="activation")}

    def __init__(self, params, model, name="encoder", mode="train"):
        super().__init__(params, model, name, mode)
        self.kernel = self.weight([FEATURES, self.params["size"]], self.make_initializer(),
                                  regularizer=self.make_regularizer())

    def _encode(self, input_dict):
        x = tf.cast(input_dict["source_tensors"][0], self.compute_dtype)
        return {"outputs": self.params["activation"](tf.matmul(x, cast_weight(self.kernel, self.compute_dtype)))}


class Linear(Decoder):
    """One number for each target that the data layer has."""

    @staticmethod
    def get_required_params():
        return {"size": int, "num_targets": Param(int, doc="Columns of the targets.", derived=True)}

    def __init__(self, params, model, name="decoder", mode="train"):
        super().__init__(params, model, name, mode)
        self.kernel = self.weight([self.params["size"], self.params["num_targets"]], self.make_initializer())

    def _decode(self, input_dict):
        y = tf.matmul(input_dict["encoder_output"]["outputs"], cast_weight(self.kernel, self.compute_dtype))
        return {"logits": y, "outputs": [tf.cast(y, tf.float32)]}


class Squares(Loss):
    """Mean squared error."""

    def _compute_loss(self, input_dict):
        predicted = tf.cast(input_dict["decoder_output"]["logits"], tf.float32)
        errors = tf.square(predicted - input_dict["target_tensors"][0])
        return LossTerm(tf.reduce_sum(errors), tf.cast(tf.size(errors), tf.float32), unit="number")


class _Regression(Model):
    object_name = "points"

    def derived_params(self, part):
        return {"num_targets": self.data_layer.num_targets, "unknown": 1}

    def terms(self, loss, decoded, batch):
        return loss.compute_loss({"decoder_output": decoded, "target_tensors": batch["target_tensors"],
                                  "ids": batch["ids"]})

    def evaluate(self, input_values, output_values):
        return [0]

    def infer(self, input_values, output_values):
        return list(zip(input_values["ids"].tolist(), output_values[0].tolist(), strict=True))

    def finalize_inference(self, results_per_batch, output_file):
        with open(output_file, "w", encoding="utf-8") as out:
            out.writelines(f"{row}\n" for _, row in sorted(row for batch in results_per_batch for row in batch))


class TwoEncoders(_Regression):
    """Adds up what two encoders say; the second computes in a type of its own."""

    @staticmethod
    def get_parts():
        return {**Model.get_parts(), "near_encoder": Part(Encoder, "Sees all."),
                "far_encoder": Part(Encoder, follows_dtype=False, inherits=False), "decoder": Part(Decoder),
                "loss": Part(Loss, follows_dtype=False, inherits=False)}

    def decoded(self, batch, training):
        source = {"source_tensors": batch["source_tensors"]}
        near, far = (part.encode(source, training)["outputs"] for part in (self.near_encoder, self.far_encoder))
        return self.decoder.decode({"encoder_output": {"outputs": near + tf.cast(far, near.dtype)}}, training)

    def loss_terms(self, batch, training):
        decoded = self.decoded(batch, training)
        return self.terms(self.loss, decoded, batch), decoded

    def predict(self, batch):
        return self.decoded(batch, False)["outputs"]


class TwoDecoders(EncoderDecoderModel, _Regression):
    """A second decoder and a second loss, in training and evaluation alone."""

    @staticmethod
    def get_parts():
        both = ("train", "eval")
        return {**EncoderDecoderModel.get_parts(), "other_decoder": Part(Decoder, modes=both),
                "other_loss": Part(Loss, optional=True, follows_dtype=False, inherits=False, modes=both)}

    def loss_terms(self, batch, training):
        encoded = self.encoder.encode({"source_tensors": batch["source_tensors"]}, training)
        first, second = (part.decode({"encoder_output": encoded}, training)
                         for part in (self.decoder, self.other_decoder))
        return self.terms(self.loss, first, batch) + self.terms(self.other_loss, second, batch), first


class Net(Component):
    """Neither encoder nor decoder."""

    def __init__(self, params, model, name="net", mode="train"):
        super().__init__(params, model, name, mode)
        self.kernel = self.weight([FEATURES, 2], self.make_initializer())

    def __call__(self, x):
        return tf.matmul(x, self.kernel)


class OnePart(_Regression):
    """Neither encoder, decoder nor loss."""

    @staticmethod
    def get_parts():
        return {**Model.get_parts(), "net": Part(Net, follows_dtype=False)}

    def loss_terms(self, batch, training):
        y = self.net(batch["source_tensors"][0])
        errors = tf.square(y - batch["target_tensors"][0])
        return [LossTerm(tf.reduce_sum(errors), tf.cast(tf.size(errors), tf.float32), unit="number")], {"outputs": [y]}

    def predict(self, batch):
        return [self.net(batch["source_tensors"][0])]


class FormerContract(_Regression):
    """Names its parts among its parameters, as models did before they declared them."""

    @staticmethod
    def get_required_params():
        return {**Model.get_required_params(), "encoder": (type, str), "decoder": Param((type, str))}

    @staticmethod
    def get_optional_params():
        return {**Model.get_optional_params(), "loss": (type, str), "encoder_params": dict, "decoder_params": dict}

    @property
    def components(self):
        return ("encoder", "decoder", "loss")

    loss_terms = EncoderDecoderModel.loss_terms
    predict = EncoderDecoderModel.predict
    prediction_tensors = EncoderDecoderModel.prediction_tensors


class Signs(Optimizer):
    """Goes by the sign of the gradient."""

    def _update_dense(self, variable, gradient, slots, step):
        variable.assign_sub(step * tf.sign(gradient))


def halving(global_step, learning_rate):
    return learning_rate / (1.0 + tf.cast(global_step, tf.float32))


class One(LossScaler):
    """Scales by 1."""

    automatic = False

    @property
    def scale(self):
        return tf.constant(1.0)


class Count(Hook):
    """Says how many updates there were."""

    def end(self, trainer):
        print(f"Counted up to {trainer.step} of {type(self.train_model).__name__}")


def waves(x):
    return tf.sin(x)


def thirds(shape):
    return tf.fill(shape, 1.0 / 3.0)
