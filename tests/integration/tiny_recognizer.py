"""A recogniser of three convolutions and CTC, to run the data layer of speech through the command."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data import Speech2TextDataLayer
from open_seq2seq.decoders import Decoder
from open_seq2seq.encoders import Encoder
from open_seq2seq.losses import Loss, LossTerm
from open_seq2seq.models import EncoderDecoderModel
from open_seq2seq.utils.console import deco_print

WIDTH, STRIDE = 7, 2


class Convolutions(Encoder):
    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {"num_features": int, "hidden_size": int}

    def __init__(self, params, model, name="encoder", mode="train"):
        super().__init__(params, model, name, mode)
        hidden = self.params["hidden_size"]
        sizes = [self.params["num_features"], hidden, hidden, hidden]
        self.kernels = [self.weight([WIDTH, before, after]) for before, after in zip(sizes, sizes[1:], strict=False)]
        self.biases = [self.weight([hidden], "zeros") for _ in self.kernels]

    def _encode(self, input_dict):
        values, lengths = input_dict["source_tensors"]
        for place, (kernel, bias) in enumerate(zip(self.kernels, self.biases, strict=True)):
            stride = STRIDE if place == 0 else 1
            values *= tf.sequence_mask(lengths, tf.shape(values)[1], values.dtype)[:, :, tf.newaxis]
            values = tf.nn.relu(tf.nn.conv1d(values, kernel, stride, "SAME") + bias)
            lengths = -(-lengths // stride)
        return {"outputs": values, "src_length": lengths}


class Letters(Decoder):
    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {"hidden_size": int, "tgt_vocab_size": int}

    def __init__(self, params, model, name="decoder", mode="train"):
        super().__init__(params, model, name, mode)
        self.kernel = self.weight([self.params["hidden_size"], self.params["tgt_vocab_size"]])

    def _decode(self, input_dict):
        logits = tf.matmul(input_dict["encoder_output"]["outputs"], self.kernel)
        lengths = input_dict["encoder_output"]["src_length"]
        best = tf.where(tf.sequence_mask(lengths, tf.shape(logits)[1]), tf.argmax(logits, axis=-1), -1)
        return {"logits": logits, "lengths": lengths, "outputs": [best]}


class Ctc(Loss):
    def _compute_loss(self, input_dict):
        labels, label_lengths = input_dict["target_tensors"]
        decoded = input_dict["decoder_output"]
        losses = tf.nn.ctc_loss(labels, decoded["logits"], label_lengths, decoded["lengths"], logits_time_major=False,
                                blank_index=-1)
        return LossTerm(tf.reduce_sum(losses), tf.cast(tf.size(losses), tf.float32), unit="utterance")


class TinyRecognizer(EncoderDecoderModel):
    data_layer: Speech2TextDataLayer

    def derived_params(self, part):
        if part == "encoder":
            self.data_layer.limit_labels(STRIDE)
        return {"tgt_vocab_size": self.data_layer.alphabet.size + 1}

    def _with_features(self, batch, training):
        return {**batch, "source_tensors": self.data_layer.features(batch, training)}

    def loss_terms(self, batch, training):
        return super().loss_terms(self._with_features(batch, training), training)

    def predict(self, batch):
        return super().predict(self._with_features(batch, False))

    def evaluate(self, input_values, output_values):
        blank, rows = self.data_layer.alphabet.size, []
        for example, best in zip(input_values["ids"], output_values[0], strict=True):
            kept = best[np.append(True, best[1:] != best[:-1])]
            rows.append((self.data_layer.ids_to_text(kept[(kept >= 0) & (kept != blank)]),
                         self.data_layer.reference_text(int(example))))
        return rows

    def finalize_evaluation(self, results_per_batch, training_step=None):
        rows = [row for batch in results_per_batch for row in batch]
        right = float(np.mean([said == heard for said, heard in rows]))
        deco_print(f"Whole utterances right: {right:.2f}")
        return {"right": right}
