"""Linear layers and convolutions over time with weight normalisation or a normalisation of their outputs."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.convolution import Window, convolve_over_time
from open_seq2seq.parts.dense import add_bias, times_matrix
from open_seq2seq.parts.precision import cast_weight, of_weights
from open_seq2seq.parts.transformer.normalization import LayerNorm

NORMALIZATIONS = ["weight_norm", "batch_norm", "layer_norm", None]


class LayerSettings(NamedTuple):
    """Settings that all linear layers and convolutions of an encoder or decoder share.

    Attributes:
      normalization: one of ``NORMALIZATIONS``.
      deviation: standard deviation of the kernels' initial values; None lets each layer choose.
      initializer: initialiser of the kernels, which takes precedence over ``deviation``; or None.
      regularizer: regulariser of the kernels, or None.
    """

    normalization: str | None = "weight_norm"
    deviation: float | None = None
    initializer: Any = None
    regularizer: Any = None


class NormalizedLayer(Module):
    """Linear layer or convolution over time, with an optional normalisation of its weights or outputs.

    With ``weight_norm``, the effective kernel of each output channel is ``gain · kernel / ‖kernel‖`` (Salimans and
    Kingma 2016, https://arxiv.org/abs/1602.07868). The gain is initially ``‖kernel‖``. With ``batch_norm`` and
    ``layer_norm``, the outputs are normalised.

    Args:
      in_channels: number of input channels.
      out_channels: number of output channels.
      settings: normalisation, initialisation and regularisation.
      deviation: standard deviation of the kernel's initial values, unless the settings determine them.
      width: number of filter taps; 1 is a linear layer.
      is_causal: whether a window ends at its output's position; otherwise it is centred.
    """

    def __init__(self, in_channels: int, out_channels: int, settings: LayerSettings, deviation: float, width: int = 1,
                 is_causal: bool = False) -> None:
        super().__init__(name="normalized_layer")
        self.out_channels = out_channels
        self.window = Window(width, padding="CAUSAL" if is_causal else "SAME")
        chosen = deviation if settings.deviation is None else settings.deviation
        initializer = settings.initializer or tf.keras.initializers.RandomNormal(0.0, chosen)
        self.kernel = self.weight([width, in_channels, out_channels], initializer, regularizer=settings.regularizer)
        kind = settings.normalization
        if kind == "weight_norm":
            self.gain = self.weight(
                [out_channels], lambda shape: tf.norm(tf.reshape(self.kernel, [-1, *shape]), axis=0))
        self.normalizes_weights = kind == "weight_norm"
        self.bias = self.weight([out_channels], "zeros") if kind in ("weight_norm", None) else None
        self.norm: Module | None = BatchNorm(out_channels, 0.95, 1e-4) if kind == "batch_norm" else (
            LayerNorm(out_channels) if kind == "layer_norm" else None)

    def normalized_kernel(self, dtype: tf.DType) -> tf.Tensor:
        """Returns the kernel ``[width, in_channels, out_channels]`` in ``dtype``; weight norm is applied in FP32."""
        if not self.normalizes_weights:
            return cast_weight(self.kernel, dtype)
        return of_weights(lambda: tf.cast(tf.math.l2_normalize(self.kernel, [0, 1]) * self.gain, dtype))

    def __call__(self, x: tf.Tensor, mask: tf.Tensor | None = None, training: bool = False,
                 kernel: tf.Tensor | None = None) -> tf.Tensor:
        """Transforms sequences.

        Args:
          x: ``[batch, time, in_channels]``; for centred windows, zeros at padding.
          mask: boolean ``[batch, time]``; positions where it is False are excluded from batch statistics.
          training: whether to use batch statistics.
          kernel: the result of ``normalized_kernel``; None to compute it in this call.

        Returns:
          ``[batch, time, out_channels]``.
        """
        kernel = self.normalized_kernel(x.dtype) if kernel is None else kernel
        y = times_matrix(x, kernel[0]) if self.window.size == 1 else convolve_over_time(x, kernel, self.window)
        return self._finish(y, mask, training)

    def newest(self, window: tf.Tensor, kernel: tf.Tensor | None = None) -> tf.Tensor:
        """Transforms the newest position of each hypothesis.

        Args:
          window: the newest ``width`` inputs, ``[batch, beam, width, in_channels]``.
          kernel: the result of ``normalized_kernel``; None to compute it in this call.

        Returns:
          ``[batch, beam, out_channels]``.
        """
        kernel = self.normalized_kernel(window.dtype) if kernel is None else kernel
        size = kernel.shape[0] * kernel.shape[1]
        flat = tf.reshape(window, tf.concat([tf.shape(window)[:2], [size]], 0))
        return self._finish(times_matrix(flat, tf.reshape(kernel, [size, self.out_channels])), None, False)

    def _finish(self, y: tf.Tensor, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
        if self.norm is not None:
            return self.norm(y, mask, training)
        rows = add_bias(tf.reshape(y, [-1, self.out_channels]), tf.convert_to_tensor(self.bias))
        return tf.reshape(rows, tf.shape(y))
