"""A data layer, an encoder, a decoder and a loss of one's own: say which symbol a sequence holds most often."""

import keras
import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.data import DataLayer
from open_seq2seq.decoders import Decoder
from open_seq2seq.encoders import Encoder
from open_seq2seq.losses import Loss, LossTerm
from open_seq2seq.models import EncoderDecoderModel
from open_seq2seq.models.results import LineWriter
from open_seq2seq.parts.precision import cast_weight


class MajorityData(DataLayer):
    """Random sequences of symbols 1…num_symbols; the target is the most frequent one."""

    @staticmethod
    def get_required_params():
        return {"num_symbols": Param(int, doc="Size of the alphabet.")}

    @staticmethod
    def get_optional_params():
        return {**DataLayer.get_optional_params(), "size": Param(int, 512, "How many sequences.", "examples")}

    def __init__(self, params, model, name="data_layer", mode="train"):
        super().__init__(params, model, name, mode)
        rng = np.random.default_rng(0 if mode == "train" else 1)
        self._examples = [rng.integers(1, self.params["num_symbols"] + 1, rng.integers(3, 12))
                          for _ in range(self.params["size"])]

    @property
    def num_examples(self):
        return len(self._examples)

    @property
    def lengths(self):
        return np.array([len(e) for e in self._examples])

    def make_batch(self, examples):
        chosen = [self._examples[i] for i in examples]
        lengths = np.array([len(e) for e in chosen], np.int32)
        values = np.zeros((len(chosen), lengths.max(initial=1)), np.int32)
        for row, example in zip(values, chosen, strict=True):
            row[: len(example)] = example
        targets = np.array([np.bincount(e).argmax() for e in chosen], np.int32)
        return {"source_tensors": [values, lengths], "target_tensors": [targets, np.ones_like(lengths)],
                "ids": np.asarray(examples, np.int64)}

    @property
    def input_signature(self):
        return {"source_tensors": [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)],
                "target_tensors": [tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.int32)],
                "ids": tf.TensorSpec([None], tf.int64)}


class BagEncoder(Encoder):
    """Embeds symbols, sums them over time without padding, and sends the sum through a Keras layer."""

    @staticmethod
    def get_required_params():
        return {"num_symbols": int, "hidden_size": int}

    def __init__(self, params, model, name="encoder", mode="train"):
        super().__init__(params, model, name, mode)
        hidden = self.params["hidden_size"]
        self.table = self.weight([self.params["num_symbols"] + 1, hidden], "random_normal")
        # Keras' autocast follows the component's compute type through the dtype policy.
        self.dense = keras.layers.Dense(hidden, activation="relu", dtype=self.keras_dtype_policy)

    def _encode(self, input_dict):
        values, lengths = input_dict["source_tensors"]
        mask = tf.sequence_mask(lengths, tf.shape(values)[1], tf.float32)[:, :, tf.newaxis]
        total = tf.reduce_sum(tf.gather(self.table, values) * mask, axis=1)
        return {"outputs": self.dense(tf.cast(total, self.compute_dtype))}


class SymbolDecoder(Decoder):
    """One matrix from the encoder's output to logits over symbols."""

    @staticmethod
    def get_required_params():
        return {"num_symbols": int, "hidden_size": int}

    def __init__(self, params, model, name="decoder", mode="train"):
        super().__init__(params, model, name, mode)
        self.kernel = self.weight([self.params["hidden_size"], self.params["num_symbols"] + 1])

    def _decode(self, input_dict):
        outputs = input_dict["encoder_output"]["outputs"]
        logits = tf.matmul(outputs, cast_weight(self.kernel, self.compute_dtype))
        return {"logits": logits, "outputs": [tf.argmax(logits, axis=-1)]}


class SymbolLoss(Loss):
    """Cross entropy, one unit an example."""

    def _compute_loss(self, input_dict):
        logits = tf.cast(input_dict["decoder_output"]["logits"], tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(input_dict["target_tensors"][0], logits)
        return LossTerm(tf.reduce_sum(losses), tf.cast(tf.size(losses), tf.float32), unit="example")


class MajorityModel(EncoderDecoderModel):
    """Judges by accuracy and writes one symbol a line."""

    object_name = "sequences"

    def evaluate(self, input_values, output_values):
        return [bool(a == b) for a, b in zip(output_values[0], input_values["target_tensors"][0], strict=True)]

    def finalize_evaluation(self, results_per_batch, training_step=None):
        return {"accuracy": float(np.mean([hit for batch in results_per_batch for hit in batch]))}

    def infer(self, input_values, output_values):
        return list(zip(input_values["ids"].tolist(), output_values[0].tolist(), strict=True))

    def open_results(self, output_file):
        return LineWriter(output_file, lambda example, symbol: f"{symbol}\n")

    def report_sample(self, batch, outputs, reporter):
        reporter.scalar("right_in_batch", np.mean(outputs[0] == batch["target_tensors"][0]))
        reporter.texts({"sequence": str(batch["source_tensors"][0][0]), "prediction": str(outputs[0][0])})
