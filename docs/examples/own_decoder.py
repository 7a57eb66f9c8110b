"""An autoregressive decoder of one's own: it teaches and steps, the base searches and samples."""

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.decoders import AutoregressiveDecoder
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.precision import cast_weight


class BagDecoder(AutoregressiveDecoder):
    """Knows which symbols it has written, the last one, and the mean of the source; not in which order."""

    start_id, end_id = 0, 1  # those of ParallelTextDataLayer: padding, and the end of a sentence

    @staticmethod
    def get_required_params():
        return {**AutoregressiveDecoder.get_required_params(),
                "hidden_size": Param(int, doc="Channels, of the encoder's outputs too.")}

    def __init__(self, params, model, name="decoder", mode="train"):
        super().__init__(params, model, name, mode)
        size, hidden = self.params["tgt_vocab_size"], self.params["hidden_size"]
        self.tables = [self.weight([size, hidden], "random_normal") for _ in range(2)]  # any symbol, the last symbol
        self.kernel = self.weight([hidden, size])

    def prepare(self, encoder_output):
        outputs, lengths = encoder_output["outputs"], lengths_of(encoder_output)
        mask = tf.sequence_mask(lengths, tf.shape(outputs)[1], tf.float32)[:, :, tf.newaxis]
        total = tf.reduce_sum(tf.cast(outputs, tf.float32) * mask, axis=1, keepdims=True)
        mean = total / tf.maximum(tf.reduce_sum(mask, axis=1, keepdims=True), 1.0)  # [batch, 1, hidden]
        return {"source": mean, "kernel": cast_weight(self.kernel, self.compute_dtype)}

    def initial_cache(self, encoder_output, beam_size):
        batch = tf.shape(encoder_output["outputs"])[0]
        return tf.zeros([batch, beam_size, self.params["hidden_size"]])

    def step(self, ids, step, cache, prepared):
        cache += tf.gather(self.tables[0], ids)
        return self._logits(cache, ids, prepared), cache

    def limits(self, encoder_output):
        return 2 * lengths_of(encoder_output) + 5

    def _teacher_force(self, encoder_output, ids, lengths):
        shifted = tf.pad(ids, [[0, 0], [1, 0]], constant_values=self.start_id)[:, :-1]
        written = tf.cumsum(tf.gather(self.tables[0], shifted), axis=1)
        logits = self._logits(written, shifted, self.prepare(encoder_output))
        return {"logits": logits, "outputs": [tf.argmax(logits, axis=-1, output_type=tf.int32)]}

    def _logits(self, written, last, prepared):
        hidden = tf.tanh(written + tf.gather(self.tables[1], last) + prepared["source"])
        return tf.matmul(tf.cast(hidden, self.compute_dtype), prepared["kernel"])
