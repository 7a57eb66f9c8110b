"""An encoder and a learning-rate policy that configs can name once this package is installed."""

import tensorflow as tf

from open_seq2seq.encoders import TransformerEncoder


class ReversedEncoder(TransformerEncoder):
    """Reads the source from its end, as the first neural translators did (Sutskever et al., 2014)."""

    def _encode(self, input_dict):
        source, lengths = input_dict["source_tensors"]
        turned = tf.reverse_sequence(source, lengths, seq_axis=1)
        return super()._encode({**input_dict, "source_tensors": [turned, lengths]})


def triangular(global_step, learning_rate, warmup_steps):
    """Rises linearly from 0 to ``learning_rate`` in ``warmup_steps`` updates, falls as it rose, and rises again."""
    phase = tf.cast(global_step % (2 * warmup_steps), tf.float32) / warmup_steps
    return learning_rate * (1.0 - tf.abs(phase - 1.0))
