"""Layers of the convolutional encoder and decoder, normalised or gated and residual, and their shared parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.parts.activations import activate_kept
from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.convolution import Window, convolve_over_time
from open_seq2seq.parts.convs2s.utils import Activation, gated_linear_units, inputs_per_output
from open_seq2seq.parts.dense import add_bias, times_matrix
from open_seq2seq.parts.dropout import keep_mask_of, keep_scale
from open_seq2seq.parts.precision import cast_weight, of_weights
from open_seq2seq.parts.transformer.normalization import LayerNorm
from open_seq2seq.utils.errors import ConfigError

# Standard deviation of the initial values of embeddings (Gehring et al. 2017, §3.5).
EMBEDDING_DEVIATION = 0.1


def required_conv_params() -> dict[str, Any]:
    """Returns the declarations of the required parameters."""
    return {
        "conv_nchannels_kwidth": Param(list, doc="Convolutions, each a pair (channels, kernel width)."),
        "embedding_dropout_keep_prob": Param(float, doc="Keep probability of dropout for embeddings.", above=0.0,
                                             maximum=1.0),
        "hidden_dropout_keep_prob": Param(float, doc="Keep probability of dropout before each convolution.", above=0.0,
                                          maximum=1.0),
    }


def optional_conv_params() -> dict[str, Any]:
    """Returns the declarations of the optional parameters."""
    return {
        "max_input_length": Param(int, 128, "Number of position embeddings; all later positions share the last "
                                  "embedding.", "tokens", minimum=1, maximum=10**6),
        "PAD_SYMBOL": Param(int, 0, "Id of padding; must be 0."),
        "conv_activation": Param((callable, str, type(None)), gated_linear_units, "Function after each convolution. It "
                                 "may halve the number of channels, as gated_linear_units does; the convolution then "
                                 "computes twice as many channels.", names="convs2s_activation", on_change=REFUSE),
        "normalization_type": Param(NORMALIZATIONS, "weight_norm", "weight_norm normalises all kernels except "
                                    "embeddings; batch_norm and layer_norm normalise the outputs of all linear "
                                    "layers and convolutions.", on_change=REFUSE),
        "scaling_factor": Param(float, math.sqrt(0.5), "Factor that multiplies three kinds of sums: those of residual "
                                "connections, of the attention's queries and the target's embeddings, and of the "
                                "encoder's outputs and embeddings.",
                                above=0.0, on_change=REFUSE),
        "init_var": Param((float, type(None)), None, "Standard deviation of the initial values of all kernels except "
                          "embeddings; by default it depends on each kernel's size. Ignored if initializer is set.",
                          above=0.0),
    }


def check_padding(params: Mapping[str, Any], path: str) -> None:
    """Checks that ``PAD_SYMBOL`` is 0.

    Args:
      params: the checked parameters of the encoder or decoder.
      path: their path in the config, for messages.

    Raises:
      ConfigError: ``PAD_SYMBOL`` is not 0.
    """
    if params["PAD_SYMBOL"] != 0:
        raise ConfigError([f"'{path}/PAD_SYMBOL' must be 0, got {params['PAD_SYMBOL']}."])


def conv_settings(params: Mapping[str, Any], path: str, initializer: Any, regularizer: Any,
                  is_causal: bool) -> ConvSettings:
    """Returns the settings of all convolutions.

    Args:
      params: the checked parameters of the encoder or decoder.
      path: their path in the config, for messages.
      initializer: the configured initialiser of kernels, or None.
      regularizer: the configured regulariser of kernels, or None.
      is_causal: whether an output does not depend on later positions.

    Raises:
      ConfigError: the activation is invalid.
    """
    activation = params["conv_activation"]
    layer = LayerSettings(params["normalization_type"], params["init_var"], initializer, regularizer)
    return ConvSettings(layer, activation, inputs_per_output(activation, f"{path}/conv_activation"),
                        params["hidden_dropout_keep_prob"], params["scaling_factor"], is_causal)


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


class ConvSettings(NamedTuple):
    """Settings that all convolutions of an encoder or decoder share.

    Attributes:
      layer: settings of linear layers and convolutions.
      activation: function of ``[…, inputs_per_output · channels]`` that returns ``[…, channels]``, or None.
      inputs_per_output: number of the activation's inputs for each output, 1 or 2.
      keep_prob: keep probability of dropout before each convolution.
      scaling: factor by which the sum of each residual connection is multiplied.
      is_causal: whether an output does not depend on later positions.
    """

    layer: LayerSettings
    activation: Activation | None
    inputs_per_output: int
    keep_prob: float
    scaling: float
    is_causal: bool


def drop_and_mask(x: tf.Tensor, keep_prob: float, mask: tf.Tensor | None, training: bool) -> tf.Tensor:
    """Applies dropout to ``[batch, time, channels]``, and sets positions where ``mask`` is False to zero."""
    rate = 1.0 - keep_prob
    drops = training and rate > 0.0
    if mask is None and not drops:
        return x
    keep = None if mask is None else mask[:, :, tf.newaxis]
    if drops:
        drawn = keep_mask_of(x, rate)
        keep = drawn if keep is None else drawn & keep
    return activate_kept(x, None, keep, keep_scale(rate, training))


class ConvLayer(Module):
    """Dropout, convolution and activation, with a residual connection.

    If the number of channels changes, the residual connection projects the input.

    Args:
      in_channels: number of input channels.
      channels: number of output channels.
      width: number of filter taps.
      settings: settings that all convolutions share.
    """

    def __init__(self, in_channels: int, channels: int, width: int, settings: ConvSettings) -> None:
        super().__init__(name="conv_layer")
        self.settings = settings
        self.in_channels = in_channels
        self.width = width
        # The variance of the kernel is 4 p / n before gated linear units (Gehring et al. 2017, §3.5), and 2 p / n
        # before activations that keep the number of channels. p is the keep probability of dropout; n is the number of
        # inputs of each output channel.
        keep = settings.keep_prob
        self.convolution = NormalizedLayer(
            in_channels, settings.inputs_per_output * channels, settings.layer,
            math.sqrt(2.0 * settings.inputs_per_output * keep / (width * in_channels)), width, settings.is_causal)
        self.projection = None if in_channels == channels else NormalizedLayer(
            in_channels, channels, settings.layer, in_channels ** -0.5)

    def convolve(self, x: tf.Tensor, mask: tf.Tensor | None, training: bool, kernel: tf.Tensor | None = None,
                 cache: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Computes the layer's output before the residual connection.

        Args:
          x: the layer's input, ``[batch, time, in_channels]``; with a cache, the newest inputs of each hypothesis,
            ``[batch, beam, in_channels]``.
          mask: boolean ``[batch, time]``, False at padding, which does not affect other positions; None with a cache.
          training: whether to apply dropout and use batch statistics.
          kernel: the convolution's normalised kernel; by default computed in this call.
          cache: the previous inputs, ``[batch, beam, width - 1, in_channels]``; None for whole sequences.

        Returns:
          (output ``[batch, time or beam, channels]``, the new cache).
        """
        if cache is not None:
            cache = tf.concat([cache, x[:, :, tf.newaxis]], 2)
            y, cache = self.convolution.newest(cache, kernel), cache[:, :, 1:]
        else:
            sees_padding = self.width > 1 and not self.settings.is_causal
            dropped = drop_and_mask(x, self.settings.keep_prob, mask if sees_padding else None, training)
            y = self.convolution(dropped, mask, training, kernel)
        return y if self.settings.activation is None else self.settings.activation(y), cache

    def residual(self, x: tf.Tensor, mask: tf.Tensor | None = None, training: bool = False,
                 kernel: tf.Tensor | None = None) -> tf.Tensor:
        """Returns the residual input ``[batch, time, channels]``, projected if the number of channels changes.

        The arguments are those of ``NormalizedLayer.__call__``.
        """
        return x if self.projection is None else self.projection(x, mask, training, kernel)

    def __call__(self, x: tf.Tensor, mask: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns the output, including the residual connection, ``[batch, time, channels]``; see ``convolve``."""
        y = self.convolve(x, mask, training)[0] + self.residual(x, mask, training)
        return y * tf.cast(self.settings.scaling, y.dtype)

    def kernels(self, dtype: tf.DType) -> dict[str, Any]:
        """Returns the normalised kernels, which decoding computes once for all steps.

        ``convolution`` is for ``convolve``; ``projection`` is for ``residual``, or None if there is no projection.
        """
        return {"convolution": self.convolution.normalized_kernel(dtype),
                "projection": None if self.projection is None else self.projection.normalized_kernel(dtype)}

    def initial_cache(self, batch: tf.Tensor, beam: int, dtype: tf.DType) -> tf.Tensor:
        """Returns the inputs before the first position: zeros ``[batch, beam, width - 1, in_channels]``."""
        return tf.zeros(tf.stack([batch, beam, self.width - 1, self.in_channels]), dtype)


class PositionEmbedding(Module):
    """A table ``[positions, channels]`` of embeddings; later positions use its last row.

    Args:
      positions: number of rows.
      channels: number of channels.
      deviation: standard deviation of the initial values.
    """

    def __init__(self, positions: int, channels: int, deviation: float) -> None:
        super().__init__(name="position_embedding")
        self.table = self.weight([positions, channels], tf.keras.initializers.RandomNormal(0.0, deviation))

    def __call__(self, positions: tf.Tensor) -> tf.Tensor:
        """Returns the embeddings ``[…, channels]`` FP32 of integer positions ``[…]``, which are counted from 0."""
        return tf.gather(tf.convert_to_tensor(self.table), tf.minimum(positions, self.table.shape[0] - 1))
