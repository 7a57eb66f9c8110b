"""A recurrent language model whose state is carried from piece to piece of one text; configs of the tests name it."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.data import DataLayer
from open_seq2seq.decoders import Decoder
from open_seq2seq.encoders import Encoder
from open_seq2seq.losses import Loss, LossTerm
from open_seq2seq.models import EncoderDecoderModel
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.dropout import dropout

SYMBOLS, PIECE, UNITS = 7, 3, 5


def text(mode, size):
    """The symbols ``[size · PIECE + 1]`` of a text that repeats itself now and then."""
    rng = np.random.default_rng(1 if mode == "train" else 2)
    words = rng.integers(0, SYMBOLS, (4, 5))
    return words[rng.integers(0, 4, size)].reshape(-1)[:size * PIECE + 1].astype(np.int32)


class Pieces(DataLayer):
    """Pieces of a text, each with the symbols that follow; of some examples the loss can be made NaN."""

    @staticmethod
    def get_optional_params():
        return {**DataLayer.get_optional_params(), "size": Param(int, 50, "How many pieces."),
                "continues": Param(bool, True, "Whether the layer says that they continue one another."),
                "nan_examples": Param(list, [], "Examples whose loss is NaN.")}

    def __init__(self, params, model=None, name="data_layer", mode=None):
        super().__init__(params, model, name, mode)
        symbols = text(self.mode, self.params["size"])
        self.source = symbols[:-1].reshape(-1, PIECE)
        self.target = symbols[1:].reshape(-1, PIECE)

    @property
    def contiguous(self):
        return self.params["continues"]

    @property
    def num_examples(self):
        return len(self.source)

    def make_batch(self, examples):
        lengths = np.full(len(examples), PIECE, np.int32)
        factor = np.where(np.isin(examples, self.params["nan_examples"]), np.nan, 1.0).astype(np.float32)
        return {"source_tensors": [self.source[examples], lengths, factor],
                "target_tensors": [self.target[examples], lengths], "ids": np.asarray(examples, np.int64)}

    @property
    def input_signature(self):
        values, lengths = tf.TensorSpec([None, PIECE], tf.int32), tf.TensorSpec([None], tf.int32)
        return {"source_tensors": [values, lengths, tf.TensorSpec([None], tf.float32)],
                "target_tensors": [values, lengths], "ids": tf.TensorSpec([None], tf.int64)}


class Cell(Module):
    """A recurrent layer that goes on from where the batch before has left it."""

    def __init__(self):
        super().__init__()
        self.inner = self.weight([UNITS, UNITS], "orthogonal")
        self.hidden = self.carried_state([UNITS])

    def __call__(self, inputs):
        state, outputs = self.hidden.read(), []
        for step in tf.unstack(inputs, axis=1):
            state = tf.tanh(step + tf.matmul(state, self.inner))
            outputs.append(state)
        self.hidden.write(state)
        return tf.stack(outputs, 1)


class Reader(Encoder):
    """Embedding and cell; counts what it has read, too."""

    @staticmethod
    def get_optional_params():
        return {**Encoder.get_optional_params(), "drop": Param(float, 0.0, "Rate of dropout.")}

    def __init__(self, params, model, name="encoder", mode="train"):
        super().__init__(params, model, name, mode)
        self.table = self.weight([SYMBOLS, UNITS], tf.keras.initializers.RandomNormal(0.0, 0.5))
        self.cell = Cell()
        self.mean = self.weight([UNITS], "zeros", trainable=False)  # a statistic
        self.count = self.carried_state([], tf.int32)

    def _encode(self, input_dict):
        values, lengths, factor = input_dict["source_tensors"]
        before = self.count.read()
        self.count.write(before + lengths)
        inputs = dropout(tf.gather(self.table, values), self.params["drop"], self.training)
        outputs = self.cell(inputs * factor[:, tf.newaxis, tf.newaxis])
        if self.training:
            self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(inputs, [0, 1]))
        return {"outputs": outputs, "outputs_length": lengths, "before": before}


class Guess(Decoder):
    """Logits of the next symbols."""

    def __init__(self, params, model, name="decoder", mode="train"):
        super().__init__(params, model, name, mode)
        self.kernel = self.weight([UNITS, SYMBOLS])

    def _decode(self, input_dict):
        encoded = input_dict["encoder_output"]
        logits = tf.matmul(encoded["outputs"], self.kernel)
        return {"logits": logits, "outputs": [encoded["before"], logits]}


class NextSymbol(Loss):
    """Cross entropy, one unit a symbol."""

    def _compute_loss(self, input_dict):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            input_dict["target_tensors"][0], input_dict["decoder_output"]["logits"])
        return LossTerm(tf.reduce_sum(losses), tf.cast(tf.size(losses), tf.float32), unit="symbol")


class LanguageModel(EncoderDecoderModel):
    """Reports how many symbols were read before each example."""

    object_name = "symbols"

    def maybe_print_logs(self, input_values, output_values, training_step):
        print("sample", training_step, output_values[0].tolist())
        return {}

    def evaluate(self, input_values, output_values):
        return dict(zip(input_values["ids"].tolist(), output_values[0].tolist(), strict=True))

    def finalize_evaluation(self, results_per_batch, training_step=None):
        found = [row for result in results_per_batch for row in result.items()]
        print("examples", sorted(example for example, _ in found))
        return {"most_read": float(max(count for _, count in found))}

    def infer(self, input_values, output_values):
        return [(example, count, row) for example, count, row in
                zip(input_values["ids"].tolist(), output_values[0].tolist(), output_values[1], strict=True)]

    def finalize_inference(self, results_per_batch, output_file):
        rows = sorted((row for batch in results_per_batch for row in batch), key=lambda row: row[0])
        np.savez(output_file, ids=[r[0] for r in rows], counts=[r[1] for r in rows], logits=[r[2] for r in rows])
