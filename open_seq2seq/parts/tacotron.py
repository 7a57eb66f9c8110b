"""Layers and small networks of Tacotron 2, as configs for NVIDIA's OpenSeq2Seq describe them, and of its successor.

The successor, Non-Attentive Tacotron, predicts durations (Shen et al. 2020, https://arxiv.org/abs/2010.04301).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param, check_entries, check_params
from open_seq2seq.parts.activations import Activation, resolve_activation
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.block import BlockSettings, BlockShape, ConvBlock
from open_seq2seq.parts.conv_blocks.convolution import Window
from open_seq2seq.parts.dense import times_matrix
from open_seq2seq.parts.dropout import keep_mask_of, keep_scale
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.parts.randomness import example_uniforms
from open_seq2seq.parts.rnn.layers import Direction, RecurrentLayer
from open_seq2seq.utils.errors import ConfigError

_CONVOLUTION = {
    "kernel_size": Param((list, tuple), doc="Number of taps on each axis.", minimum=1, maximum=10**5),
    "stride": Param((list, tuple), doc="Stride on each axis.", minimum=1, maximum=10**5),
    "num_channels": Param(int, doc="Number of output channels.", minimum=-1),
    "padding": Param(["SAME", "VALID"], doc="SAME pads with zeros, VALID does not pad."),
}


def check_convolutions(entries: Sequence[Any], path: str, axes: int = 1,
                       optional: Mapping[str, Any] | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    """Checks a list of convolutions.

    Args:
      entries: the list in the config.
      path: its path in the config, for messages.
      axes: number of axes: 1 for convolutions over time, 2 for convolutions over time and frequency.
      optional: specs of further optional entries.

    Returns:
      (the entries with defaults filled in; one sentence for each problem).
    """

    def problems_of(layer: Mapping[str, Any], place: str) -> list[str]:
        problems = [f"'{place}/{name}' has to be a list of {axes} positive integer{'s' if axes > 1 else ''}, got "
                    f"{layer[name]}." for name in ("kernel_size", "stride")
                    if len(layer[name]) != axes or not all(isinstance(n, int) and n >= 1 for n in layer[name])]
        return problems + [f"'{place}/num_channels' has to be at least 1, got 0."] * (layer["num_channels"] == 0)

    layers, problems = check_entries(entries, _CONVOLUTION, optional or {}, path, problems_of)
    lists = [{**layer, **{name: list(layer[name]) for name in ("kernel_size", "stride")}} for layer in layers.values()]
    return lists, problems


def make_convolution_block(layer: Mapping[str, Any], in_channels: int, dropout: float,
                           settings: BlockSettings) -> ConvBlock:
    """Returns one convolution with normalisation, activation and dropout, for a checked entry of the list."""
    windows = [Window(size, stride, padding=layer["padding"])
               for size, stride in zip(layer["kernel_size"], layer["stride"], strict=True)]
    kind = "conv1d" if len(windows) == 1 else "conv2d"
    return ConvBlock(in_channels, BlockShape(kind, 1, windows, layer["num_channels"], dropout), settings)


def make_direction(cell: Any, units: int, input_size: int, zoneout: float, path: str, initializer: Any,
                   regularizer: Any, use_cudnn: bool = True) -> Direction:
    """Returns a recurrent layer of one direction.

    Args:
      cell: the class of the cell, see ``parts.rnn.core_cells``.
      units: number of units.
      input_size: number of channels of the input.
      zoneout: probability with which an element of a state keeps its value from the previous step.
      path: path of the component's parameters in the config, for messages.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
      use_cudnn: whether to use cuDNN on GPUs if it supports the cell.
    """
    required, optional = cell.declared_params()
    params, _ = check_params({"num_units": units, "zoneout_prob": zoneout}, required, optional, path)
    direction = cell.layer(params, input_size, initializer, regularizer)
    direction.use_cudnn = use_cudnn
    return direction


def make_recurrent_layers(count: int, input_size: int, bidirectional: bool, make: Any) -> list[RecurrentLayer]:
    """Returns a stack of recurrent layers; ``make`` returns one direction for a number of input channels."""
    layers: list[RecurrentLayer] = []
    for _ in range(count):
        def one(size: int = input_size) -> Direction:
            return make(size)

        layers.append(RecurrentLayer(input_size, 0, "", bidirectional, make_direction=one))
        input_size = layers[-1].output_size
    return layers


class Dense(Module):
    """A dense layer with an optional bias.

    Args:
      input_size: number of input channels.
      output_size: number of output channels.
      initializer: initialiser of the matrix.
      regularizer: regulariser of the matrix.
      use_bias: whether to add a bias.
    """

    def __init__(self, input_size: int, output_size: int, initializer: Any = None, regularizer: Any = None,
                 use_bias: bool = True) -> None:
        super().__init__(name="dense")
        self.kernel = self.weight([input_size, output_size], initializer, regularizer=regularizer)
        self.bias = self.weight([output_size], "zeros") if use_bias else None

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """Returns ``[…, output_size]`` in the dtype of ``x`` ``[…, input_size]``."""
        y = times_matrix(x, cast_weight(self.kernel, x.dtype))
        return y if self.bias is None else y + tf.cast(self.bias, x.dtype)


class Prenet(Module):
    """Dense layers with dropout, usually also outside of training.

    Outside of training, the same elements are dropped in all examples, so that a text sounds the same in any batch: the
    random numbers depend only on the seed and the step. Or none are dropped.

    Args:
      input_size: number of features of a frame.
      units: number of units of each layer.
      count: number of layers.
      activation: activation after each layer, or None.
      rate: dropout rate after each layer.
      seed: seed of the dropout outside of training.
      initializer: initialiser of the matrices.
      regularizer: regulariser of the matrices.
      drops_always: whether elements are dropped outside of training, too.
    """

    def __init__(self, input_size: int, units: int, count: int, activation: Activation | None, rate: float, seed: int,
                 initializer: Any, regularizer: Any, drops_always: bool = True) -> None:
        super().__init__(name="prenet")
        self._activation, self._rate, self._seed, self._units = activation, rate, seed, units
        self._drops_always = drops_always
        self.layers = [Dense(input_size if number == 0 else units, units, initializer, regularizer)
                       for number in range(count)]

    def __call__(self, x: tf.Tensor, steps: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns ``[time, batch, units]``.

        Args:
          x: frames ``[time, batch, features]`` in the compute dtype.
          steps: numbers of the steps, ``[time]`` int32.
          training: whether the dropout masks are drawn anew for each micro-batch.
        """
        for number, layer in enumerate(self.layers):
            y = layer(x)
            x = y if self._activation is None else self._activation(y)
            if self._rate > 0.0 and (training or self._drops_always):
                keep = keep_mask_of(x, self._rate) if training else self._keep(steps, number)
                x = tf.where(keep, x * tf.cast(keep_scale(self._rate), x.dtype), tf.zeros([], x.dtype))
        return x

    def _keep(self, steps: tf.Tensor, number: int) -> tf.Tensor:
        """Returns which elements a layer keeps, ``[time, 1, units]``."""
        steps = tf.cast(steps, tf.int64)
        uniforms = example_uniforms(self._seed, tf.zeros_like(steps), steps, self._units, number)
        return (uniforms >= self._rate)[:, tf.newaxis]


class ReductionSchedule(Module):
    """Number of frames that each step of a decoder predicts, which depends on the number of the update.

    Training sets the variable ``update``, which checkpoints contain, so that evaluation and inference use the number of
    the last update.

    Args:
      pairs: the first update, and the number of frames from there on; see ``reduction_problems``.

    Attributes:
      largest: the largest number of frames.
    """

    def __init__(self, pairs: Sequence[Sequence[int]]) -> None:
        super().__init__(name="reduction_schedule")
        self._updates, self._frames = ([pair[index] for pair in pairs] for index in (0, 1))
        self.largest = max(self._frames)
        self.update = self.weight([], "zeros", trainable=False)

    def frames(self, path: str) -> tf.Tensor:
        """Returns the number of frames in the current pass, int32 ``[]``.

        Args:
          path: path of the parameter in the config, for messages.

        Raises:
          ConfigError: the pass is traced for XLA, whose shapes cannot depend on it.
        """
        forward = current_pass()
        if forward.for_xla:
            raise ConfigError([f"'{path}' cannot change during training with use_xla_jit: give one number, or set "
                               "use_xla_jit to False."])
        update = tf.convert_to_tensor(self.update)
        if forward.update is not None:
            update = tf.cast(forward.update, tf.float32)
            if not forward.is_recomputing:
                self.update.assign(update)
        passed = tf.reduce_sum(tf.cast(update >= tf.constant(self._updates, tf.float32), tf.int32))
        return tf.gather(tf.constant(self._frames), passed - 1)


def reduction_problems(value: Any, path: str) -> list[str]:
    """Returns one sentence if a reduction factor is neither a number of frames nor pairs of an update and a number."""
    pairs = [[0, value]] if isinstance(value, int) else value
    are_pairs = all(isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(n, int) for n in pair)
                    for pair in pairs)
    updates = [pair[0] for pair in pairs] if are_pairs else []
    if updates[:1] == [0] and updates == sorted(set(updates)) and all(1 <= pair[1] <= 1000 for pair in pairs):
        return []
    return [f"'{path}' is {value} but has to be a number of frames from 1 to 1000, or a list of pairs of an update and "
            "such a number, with increasing updates from 0, such as [[0, 6], [2000, 2]]."]


def unpadded_lengths(ids: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Returns the lengths ``[batch]`` of texts without the symbols of padding, whose id is 0, at their ends.

    Args:
      ids: the symbols ``[batch, text]``.
      lengths: the lengths with padding ``[batch]``.
    """
    positions = tf.range(1, tf.shape(ids)[1] + 1)
    return tf.minimum(lengths, tf.reduce_max(tf.where(ids == 0, 0, positions), 1))


class Postnet(Module):
    """Convolutions over time whose result is added to a spectrogram.

    Args:
      layers: the checked layers; ``num_channels`` -1 stands for the number of features.
      num_features: number of features of a frame.
      dropout: dropout rate after each layer.
      settings: settings of the convolutions except the activation.
      path: path of the decoder's parameters in the config, for messages.
    """

    def __init__(self, layers: Sequence[Mapping[str, Any]], num_features: int, dropout: float,
                 settings: BlockSettings, path: str) -> None:
        super().__init__(name="postnet")
        self.blocks, size = [], num_features
        for number, layer in enumerate(layers):
            activation = resolve_activation(layer["activation_fn"],
                                            f"{path}/postnet_conv_layers/{number}/activation_fn")
            channels = num_features if layer["num_channels"] == -1 else layer["num_channels"]
            self.blocks.append(make_convolution_block({**layer, "num_channels": channels}, size, dropout,
                                                      settings._replace(activation=activation)))
            size = channels

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns ``[batch, time, num_features]`` for spectrograms ``[batch, time, num_features]``."""
        for block in self.blocks:
            x, lengths = block(x, lengths, training=training)
        return x


class MagnitudeNet(Module):
    """Convolutions from mel features to magnitudes.

    Args:
      num_features: number of mel features.
      num_bins: number of magnitudes of a frame.
      exponential: whether the exponential function is applied before the last layer.
      settings: settings of the convolutions.
    """

    def __init__(self, num_features: int, num_bins: int, exponential: bool, settings: BlockSettings) -> None:
        super().__init__(name="magnitude_net")
        self._exponential = exponential
        layer = {"kernel_size": [4], "stride": [1], "padding": "SAME"}
        self.blocks, size = [], num_features
        for channels in (256, 512):
            self.blocks.append(make_convolution_block({**layer, "num_channels": channels}, size, 0.0, settings))
            size = channels
        self.projection = Dense(size, num_bins, settings.initializer, settings.regularizer, False)

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns magnitudes ``[batch, time, num_bins]`` for mel spectrograms ``[batch, time, num_features]``.

        They are FP32 if ``exponential``, because exponentials may overflow in float16.
        """
        for block in self.blocks:
            x, lengths = block(x, lengths, training=training)
        return self.projection(tf.exp(tf.cast(x, tf.float32)) if self._exponential else x)


class DurationPredictor(Module):
    """Convolutions over the symbols, and a dense layer, which predict the logarithm of 1 + duration.

    Args:
      input_size: number of channels of the symbols.
      units: number of channels of the convolutions.
      count: number of convolutions.
      size: number of taps of the convolutions.
      dropout: dropout rate after each convolution.
      settings: settings of the convolutions.
    """

    def __init__(self, input_size: int, units: int, count: int, size: int, dropout: float,
                 settings: BlockSettings) -> None:
        super().__init__(name="duration_predictor")
        shape = BlockShape("conv1d", 1, [Window(size)], units, dropout)
        self.blocks = [ConvBlock(units if number else input_size, shape, settings) for number in range(count)]
        self.projection = Dense(units, 1, settings.initializer, settings.regularizer)

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns ``[batch, text]`` FP32 for symbols ``[batch, text, input_size]`` in the compute dtype."""
        for block in self.blocks:
            x, lengths = block(x, lengths, training=training)
        return tf.cast(self.projection(x)[..., 0], tf.float32)


class GaussianUpsampling(Module):
    """Upsampling of symbols to frames: each frame is a mean of the symbols, with weights of normal densities.

    The density of a symbol has its mean at the centre of the symbol. Symbols without duration have no weight. Two
    channels are added to each frame: the mean logarithm of 1 + duration, and the mean position in the symbol, -0.5 at
    its beginning and 0.5 at its end.

    Args:
      input_size: number of channels of the symbols.
      sigma: standard deviation of the densities in frames; None to learn it for each symbol from its channels and its
        duration.

    Attributes:
      output_size: number of channels of the frames.
    """

    def __init__(self, input_size: int, sigma: float | None) -> None:
        super().__init__(name="gaussian_upsampling")
        self._sigma, self.output_size = sigma, input_size + 2
        self.range: Dense | None = None
        if sigma is None:
            self.range = Dense(input_size + 1, 1)

    def __call__(self, x: tf.Tensor, durations: tf.Tensor, time: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Upsamples symbols.

        Args:
          x: symbols ``[batch, text, input_size]`` in the compute dtype.
          durations: numbers of frames ``[batch, text]`` FP32, 0 at padding.
          time: number of frames of the result.

        Returns:
          (frames ``[batch, time, output_size]`` in the compute dtype; weights ``[batch, time, text]`` FP32). Those
          after the end of an example are arbitrary.
        """
        logarithms = tf.math.log1p(durations)[..., tf.newaxis]
        sigmas = tf.ones_like(durations) * (self._sigma or 1.0)
        if self.range is not None:
            # The bias of 1 begins with a standard deviation near that of sounds of average length.
            sigmas = tf.nn.softplus(self.range(tf.concat([tf.cast(x, tf.float32), logarithms], -1))[..., 0] + 1.0)
        weights, distances = gaussian_weights(durations, sigmas, time)
        positions = tf.reduce_sum(weights * distances / tf.maximum(durations, 1.0)[:, tf.newaxis], -1, keepdims=True)
        values = tf.concat([x, tf.cast(logarithms, x.dtype)], -1)
        frames = tf.concat([tf.matmul(tf.cast(weights, x.dtype), values), tf.cast(positions, x.dtype)], -1)
        return tf.ensure_shape(frames, [None, None, self.output_size]), weights


def gaussian_weights(durations: tf.Tensor, sigmas: tf.Tensor, time: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the weights of symbols at frames, and the distances from the centres of the symbols in frames.

    Args:
      durations: ``[batch, text]`` FP32, in frames.
      sigmas: positive standard deviations ``[batch, text]`` FP32, in frames.
      time: number of frames.

    Returns:
      (weights ``[batch, time, text]`` FP32, whose sum over the symbols is 1; distances ``[batch, time, text]``).
    """
    centres = tf.cumsum(durations, 1) - durations / 2
    distances = tf.range(time, dtype=tf.float32)[:, tf.newaxis] + 0.5 - centres[:, tf.newaxis]
    sigmas = tf.maximum(sigmas, 1e-2)[:, tf.newaxis]
    scores = -tf.square(distances / sigmas) / 2 - tf.math.log(sigmas)
    return tf.nn.softmax(tf.where(durations[:, tf.newaxis] > 0, scores, -1e9)), distances


def whole_frames(durations: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """Rounds durations to whole frames, so that the ends of the symbols are within half a frame of the unrounded ones.

    A text has at least one frame.

    Args:
      durations: ``[batch, text]`` FP32, in frames; negative ones count as 0.
      lengths: numbers of symbols ``[batch]``.

    Returns:
      ``[batch, text]`` FP32, 0 at padding.
    """
    durations = tf.nn.relu(durations) * tf.sequence_mask(lengths, tf.shape(durations)[1], tf.float32)
    ends = tf.round(tf.cumsum(durations, 1))
    # The first symbol of a text that would have no frames gets one.
    empty = (ends[:, -1:] < 1) & (lengths[:, tf.newaxis] > 0)
    return tf.concat([ends[:, :1] + tf.cast(empty, tf.float32), ends[:, 1:] - ends[:, :-1]], 1)


_REFERENCE_SIZE = 128  # number of channels of the reference embedding, as in NVIDIA's OpenSeq2Seq
STYLE_PARAMS = {
    "conv_layers": Param(list, doc="Convolutions over time and frequency of the reference encoder, each a dict with "
                         "kernel_size and stride (time, frequency), num_channels and padding."),
    "num_rnn_layers": Param(int, doc="Number of recurrent layers of the reference encoder.", minimum=1, maximum=1000),
    "rnn_cell_dim": Param(int, doc="Number of units of these layers.", minimum=1),
    "rnn_unidirectional": Param(bool, doc="Whether these layers are unidirectional."),
    "rnn_type": Param((type, str), doc="Cell of these layers, as in core_cell.", names="cell"),
    "emb_size": Param(int, doc="Number of channels of the style tokens.", minimum=1),
    "attention_layer_size": Param(int, doc="Number of channels of the attention and of the style embedding.",
                                  minimum=1),
    "num_tokens": Param(int, doc="Number of style tokens.", minimum=1),
    "num_heads": Param(int, doc="Number of attention heads; must divide attention_layer_size.", minimum=1),
}


def style_problems(params: Mapping[str, Any], path: str) -> list[str]:
    """Returns one sentence for each problem in checked ``style_embedding_params``."""
    problems = check_convolutions(params["conv_layers"], f"{path}/conv_layers", 2)[1]
    if params["attention_layer_size"] % params["num_heads"]:
        problems.append(f"'{path}/num_heads' is {params['num_heads']} but has to divide attention_layer_size, which "
                        f"is {params['attention_layer_size']}.")
    return problems


class StyleAttention(Module):
    """Additive attention with several heads, whose keys and values are the style tokens.

    The weight of token k in a head is the softmax of ``Σ tanh(v · tanh(key_k + query))`` over the head's channels;
    all heads share ``v``. As in NVIDIA's OpenSeq2Seq, the tokens are random and are not trained.

    Args:
      query_size: number of channels of the query.
      params: checked ``style_embedding_params``.
      initializer: initialiser of the matrices and of ``v``.
      regularizer: regulariser of the matrices.
    """

    def __init__(self, query_size: int, params: Mapping[str, Any], initializer: Any, regularizer: Any) -> None:
        super().__init__(name="style_attention")
        self._heads, size = params["num_heads"], params["attention_layer_size"]
        self.tokens = self.weight([params["num_tokens"], params["emb_size"]],
                                  tf.keras.initializers.RandomUniform(-1.0, 1.0), trainable=False)
        self.query = Dense(query_size, size, initializer, regularizer, False)
        self.key = Dense(params["emb_size"], size, initializer, regularizer, False)
        self.value = Dense(params["emb_size"], size, initializer, regularizer, False)
        self.output = Dense(size, size, initializer, regularizer, False)
        self.score_vector = self.weight([size // self._heads], tf.keras.initializers.RandomNormal(stddev=1.0))

    def __call__(self, query: tf.Tensor) -> tf.Tensor:
        """Returns style embeddings ``[batch, attention_layer_size]`` for queries ``[batch, query_size]``."""
        queries, keys = self._by_head(self.query(query)), self._by_head(self.key(tf.tanh(self.tokens)))
        inside = tf.tanh(queries[:, tf.newaxis] + keys)  # [batch, tokens, heads, channels]
        scores = tf.reduce_sum(tf.tanh(self.score_vector * inside), -1)
        return self._mixed(tf.nn.softmax(scores, 1))

    def by_weights(self, weights: Sequence[float]) -> tf.Tensor:
        """Returns the style embedding ``[1, attention_layer_size]`` for the weights of the tokens in all heads."""
        return self._mixed(tf.tile(tf.reshape(tf.constant(weights, tf.float32), [1, -1, 1]), [1, 1, self._heads]))

    def _by_head(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, [-1, self._heads, x.shape[-1] // self._heads])

    def _mixed(self, weights: tf.Tensor) -> tf.Tensor:
        """Returns the embeddings for weights ``[batch, tokens, heads]``."""
        mixed = tf.einsum("bkh,khc->bhc", weights, self._by_head(self.value(tf.tanh(self.tokens))))
        return self.output(tf.reshape(mixed, [tf.shape(weights)[0], self.output.kernel.shape[0]]))


class StyleEncoder(Module):
    """Encodes the style of a recording: convolutions, recurrent layers, and an attention over style tokens.

    All is computed in FP32. Padding does not affect the results.

    Args:
      num_features: number of features of each frame of the recording.
      params: checked ``style_embedding_params``.
      settings: settings of the convolutions.
      path: path of the parameters in the config, for messages.

    Attributes:
      output_size: number of channels of the style embedding.
    """

    def __init__(self, num_features: int, params: Mapping[str, Any], settings: BlockSettings, path: str) -> None:
        super().__init__(name="style_encoder")
        initializer, regularizer = settings.initializer, settings.regularizer
        self.blocks, width, channels = [], num_features, 1
        for layer in check_convolutions(params["conv_layers"], f"{path}/conv_layers", 2)[0]:
            self.blocks.append(make_convolution_block(layer, channels, 0.0, settings))
            width, channels = self.blocks[-1].layers[0].convolution.frequency.outputs(width), layer["num_channels"]

        def make(size: int) -> Any:
            return make_direction(params["rnn_type"], params["rnn_cell_dim"], size, 0.0, path, initializer,
                                  regularizer)

        self.layers = make_recurrent_layers(params["num_rnn_layers"], width * channels,
                                            not params["rnn_unidirectional"], make)
        self.reference = Dense(self.layers[-1].output_size, _REFERENCE_SIZE, initializer, regularizer)
        self.attention = StyleAttention(_REFERENCE_SIZE, params, initializer, regularizer)
        self.output_size = params["attention_layer_size"]

    def __call__(self, features: tf.Tensor, lengths: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Returns style embeddings ``[batch, output_size]`` FP32.

        Args:
          features: spectrograms ``[batch, time, num_features]`` FP32.
          lengths: numbers of frames, ``[batch]`` int32.
          training: whether to normalise by batch statistics.
        """
        mask = tf.sequence_mask(lengths, tf.shape(features)[1])
        x = tf.where(mask[:, :, tf.newaxis], features, 0.0)[..., tf.newaxis]
        for block in self.blocks:
            x, lengths = block(x, lengths, training=training)
        x = tf.transpose(tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], x.shape[2] * x.shape[3]]), [1, 0, 2])
        state = tf.zeros([])
        for layer in self.layers:
            x, states = layer.with_final_states(x, lengths, training)
            state = states[0]
        return self.attention(tf.tanh(self.reference(state)))
