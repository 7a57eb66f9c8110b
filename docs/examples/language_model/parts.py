"""A language model of characters: its state is carried from each batch to the next (truncated back-propagation)."""

import math

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
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.rnn.layers import Direction
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import DataError


class CharacterStream(DataLayer):
    """The characters of a text file, in pieces of ``steps``: example n goes on where example n - 1 ends.

    Targets are the characters one place further on.
    """

    contiguous = True

    @staticmethod
    def get_required_params():
        return {"characters": Param(str, doc="File with the alphabet, all in one line; a line's end is a character "
                                    "too.", file="asset")}

    @staticmethod
    def get_optional_params():
        return {**DataLayer.get_optional_params(),
                "text_file": Param((str, type(None)), None, "Text in UTF-8."),
                "steps": Param(int, 20, "Length of a piece.", "characters", minimum=1, maximum=100000)}

    def __init__(self, params, model=None, name="data_layer", mode=None):
        super().__init__(params, model, name, mode)
        with open(self.params["characters"], encoding="utf-8") as file:
            self.alphabet = ["\n", *file.read().strip("\n")]
        self._ids = np.zeros(0, np.int32)
        if self.mode != "interactive_infer":
            with open(self.params["text_file"], encoding="utf-8") as file:
                self._ids = self.encode(file.read())
            if len(self._ids) < 2:
                raise DataError(f"{self.params['text_file']} has no two characters: a language model needs text.")

    def encode(self, text):
        """Returns the ids of a text ``[characters]``."""
        numbers = {character: number for number, character in enumerate(self.alphabet)}
        unknown = sorted(set(text) - set(numbers))
        if unknown:
            raise DataError(f"{self.params['text_file']} has {unknown[0]!r}, which {self.params['characters']} has "
                            "not: add it there, or take it out.")
        return np.array([numbers[character] for character in text], np.int32)

    @property
    def num_examples(self):
        return math.ceil((len(self._ids) - 1) / self.params["steps"])

    @property
    def fields(self):
        def side():
            return [Field(tf.int32, (None, None), time=1, lengths=1), Field(tf.int32, (None,))]

        return {"source_tensors": side(), "target_tensors": side(), "ids": Field(tf.int64, (None,))}

    def make_batch(self, examples):
        steps = self.params["steps"]
        starts = np.asarray(examples)[:, np.newaxis] * steps
        positions = np.minimum(starts + np.arange(steps + 1), len(self._ids) - 1)
        ids, lengths = self._ids[positions], np.minimum(steps, len(self._ids) - 1 - starts[:, 0]).astype(np.int32)
        return {"source_tensors": [ids[:, :-1], lengths], "target_tensors": [ids[:, 1:], lengths],
                "ids": np.asarray(examples, np.int64)}


class CarriedGru(Encoder):
    """A recurrent layer that goes on where it stopped at the end of the batch before."""

    @staticmethod
    def get_required_params():
        return {"vocab_size": Param(int, doc="Set from the data layer.", derived=True),
                "hidden_size": Param(int, doc="Units.", minimum=1, maximum=10000)}

    def __init__(self, params, model=None, name="encoder", mode="train"):
        super().__init__(params, model, name, mode)
        size = self.params["hidden_size"]
        self.table = self.weight([self.params["vocab_size"], size], "random_normal")
        self.recurrent = Direction(size, size, "gru")
        self.state = self.carried_state([size])

    def _encode(self, input_dict):
        ids, lengths = input_dict["source_tensors"]
        x = tf.cast(tf.gather(tf.convert_to_tensor(self.table), ids), self.compute_dtype)
        outputs = self.recurrent(tf.transpose(x, [1, 0, 2]), lengths, [self.state.read()])[0]
        self.state.write(tf.cast(outputs[-1], tf.float32))
        return {"outputs": tf.transpose(outputs, [1, 0, 2]), "outputs_length": lengths}


class LanguageModel(Model):
    """Guesses the next character; judged by bits a character, written as the log probability of each piece."""

    object_name = "characters"

    @staticmethod
    def get_parts():
        return {**Model.get_parts(), "encoder": Part(Encoder)}

    def derived_params(self, part):
        return {"vocab_size": len(self.data_layer.alphabet)}

    def connect(self):
        self.bias = self.weight([len(self.data_layer.alphabet)], "zeros")

    def _log_probs(self, batch, training):
        """Returns the log probability of each target ``[batch, time]``, 0 where there is padding."""
        encoded = self.encoder.encode({"source_tensors": batch["source_tensors"]}, training)
        table = cast_weight(self.encoder.table, self.encoder.compute_dtype)
        logits = tf.cast(tf.einsum("bth,vh->btv", encoded["outputs"], table), tf.float32) + self.bias
        targets, lengths = batch["target_tensors"]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
        return -losses * tf.sequence_mask(lengths, tf.shape(targets)[1], tf.float32)

    def loss_terms(self, batch, training):
        log_probs = self._log_probs(batch, training)
        units = tf.cast(tf.reduce_sum(batch["target_tensors"][1]), tf.float32)
        return [LossTerm(-tf.reduce_sum(log_probs), units, unit="character")], {"outputs": [log_probs]}

    def predict(self, batch):
        return [tf.reduce_sum(self._log_probs(batch, training=False), axis=1)]

    def num_objects(self, batch):
        return int(np.sum(batch["target_tensors"][1]))

    def evaluate(self, input_values, output_values):
        return float(np.sum(output_values[0])), int(np.sum(input_values["target_tensors"][1]))

    def finalize_evaluation(self, results_per_batch, training_step=None):
        total, characters = (math.fsum(column) for column in zip(*results_per_batch, strict=True))
        bits = -total / characters / math.log(2.0)
        deco_print(f"bits_per_character: {bits:.4f}", offset=1)
        return {"bits_per_character": bits}

    def infer(self, input_values, output_values):
        """Returns (piece, its log probability) for each piece of the batch."""
        return list(zip(input_values["ids"].tolist(), output_values[0].tolist(), strict=True))

    def open_results(self, output_file):
        return LineWriter(output_file, lambda piece, log_prob: f"{piece}\t{log_prob:.4f}\n")
