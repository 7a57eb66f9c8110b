"""WaveNet: the next sample of a clip from the samples before it and a spectrogram; and its layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.batch_norm import BatchNorm
from open_seq2seq.parts.component import Module
from open_seq2seq.parts.conv_blocks.convolution import Convolution1D, Window
from open_seq2seq.parts.precision import cast_weight, of_weights
from open_seq2seq.parts.sample_values import LogisticMixture, MuLaw
from open_seq2seq.utils.errors import ConfigError


class LayerSettings(NamedTuple):
    """What the layers of a network have in common.

    Attributes:
      filters: number of channels.
      taps: number of taps of the dilated convolutions.
      momentum, epsilon: those of batch norm.
      initializer, regularizer: those of the kernels.
    """

    filters: int
    taps: int
    momentum: float
    epsilon: float
    initializer: Any
    regularizer: Any


class CausalConvolution(Module):
    """A convolution of the inputs up to each position, with batch norm.

    The first outputs, whose inputs would begin before the clip, are zeros, and do not count in the statistics.

    Args:
      in_channels: number of channels of the inputs or, of integers, number of their values.
      dilation: step between consecutive taps.
      settings: the settings of the network.

    Attributes:
      reach: number of earlier inputs that an output depends on.
    """

    def __init__(self, in_channels: int, dilation: int, settings: LayerSettings) -> None:
        super().__init__(name="causal_convolution")
        window = Window(settings.taps, 1, dilation, "VALID")
        self.convolution = Convolution1D(in_channels, settings.filters, window, settings.initializer,
                                         settings.regularizer)
        self.norm = BatchNorm(settings.filters, settings.momentum, settings.epsilon)
        self.reach = window.span - 1

    def __call__(self, x: tf.Tensor, mask: tf.Tensor, training: bool, dtype: tf.DType) -> tf.Tensor:
        """Returns ``[batch, time, filters]``.

        Args:
          x: ``[batch, time, in_channels]``, or integers ``[batch, time]``, which are convolved as one-hot vectors;
            ``time`` is larger than the reach.
          mask: which positions belong to clips ``[batch, time]``.
          training: whether to use the statistics of the batch.
          dtype: dtype of the result.
        """
        y = self._of_ids(x, dtype) if x.dtype.is_integer else self.convolution(x)
        return tf.pad(self.norm(y, mask[:, self.reach:], training), [[0, 0], [self.reach, 0], [0, 0]])

    def _of_ids(self, ids: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
        kernel, taps = cast_weight(self.convolution.kernel, dtype), self.convolution.window.size
        count = tf.shape(ids)[1] - self.reach
        return tf.add_n([tf.gather(kernel[tap], ids[:, tap:tap + count]) for tap in range(taps)])

    def folded(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the kernel ``[taps, in_channels, filters]`` and the offset, with batch norm by moving statistics."""
        factor = tf.math.rsqrt(self.norm.moving_variance + self.norm.epsilon) * self.norm.gamma
        return self.convolution.kernel * factor, self.norm.beta - self.norm.moving_mean * factor


class FoldedLayer(NamedTuple):
    """A layer for one position: few operations, whose number takes more time than their arithmetic.

    Attributes:
      kernel: the convolutions of filter and gate ``[taps * filters, 2 * filters]``.
      offset: what is added to filter and gate ``[2 * filters]``.
      outputs: the products that follow them, for the next layer and for the output ``[filters, 2 * filters]``.
    """

    kernel: tf.Tensor
    offset: tf.Tensor
    outputs: tf.Tensor

    def __call__(self, inputs: tf.Tensor, x: tf.Tensor, added: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns what ``GatedLayer`` returns, at one position ``[batch, filters]``.

        Args:
          inputs: what the taps of the convolutions read, the newest last ``[batch, taps * filters]``.
          x: the newest of them ``[batch, filters]``.
          added: the offset and the condition ``[batch, 2 * filters]``.
        """
        first, second = tf.split(tf.matmul(inputs, self.kernel) + added, 2, 1)
        residual, skip = tf.split(tf.matmul(tf.tanh(first) * tf.sigmoid(second), self.outputs), 2, 1)
        return x + residual, skip


def as_matrix(kernel: tf.Tensor) -> tf.Tensor:
    """Returns a kernel ``[taps, inputs, outputs]`` as ``[taps * inputs, outputs]``."""
    return tf.reshape(kernel, [-1, kernel.shape[2]])


class GatedLayer(Module):
    """A layer with a dilated convolution each for the filter and the gate, which read one half of the channels each.

    Args:
      dilation: step between consecutive taps of the convolutions.
      settings: the settings of the network.
    """

    def __init__(self, dilation: int, settings: LayerSettings) -> None:
        super().__init__(name="gated_layer")
        size = settings.filters
        self.filter = CausalConvolution(size // 2, dilation, settings)
        self.gate = CausalConvolution(size // 2, dilation, settings)
        self.residual = pointwise(size, size, settings)
        self.skip = pointwise(size, size, settings)

    def __call__(self, x: tf.Tensor, condition: list[tf.Tensor], mask: tf.Tensor,
                 training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the inputs of the next layer, and what the layer adds to the output: ``[batch, time, filters]`` each.

        Args:
          x: ``[batch, time, filters]``.
          condition: what is added to the filter and to the gate, in the shape of ``x`` each; may be empty.
          mask: which positions belong to clips ``[batch, time]``.
          training: whether to use the statistics of the batch.
        """
        halves = tf.split(x, 2, -1)
        sides = [layer(half, mask, training, x.dtype)
                 for layer, half in zip((self.filter, self.gate), halves, strict=True)]
        if condition:
            sides = [side + one for side, one in zip(sides, condition, strict=True)]
        gated = tf.tanh(sides[0]) * tf.sigmoid(sides[1])
        return x + self.residual(gated), self.skip(gated)

    def folded(self) -> FoldedLayer:
        """Returns the layer as two products with matrices, with batch norm by moving statistics."""
        (first, first_offset), (second, second_offset) = self.filter.folded(), self.gate.folded()
        kernel = tf.concat([tf.concat([first, tf.zeros_like(first)], 1), tf.concat([tf.zeros_like(second), second], 1)],
                           2)
        return FoldedLayer(as_matrix(kernel), tf.concat([first_offset, second_offset], 0),
                           tf.concat([self.residual.kernel[0], self.skip.kernel[0]], 1))


class Upsampling(Module):
    """Transposed convolutions over time, with a leaky ReLU between them (as in Parallel WaveNet and ClariNet).

    The taps of each are twice its stride, so that an output depends on the input at its place and the next one. It is
    computed as a product with the two inputs, whose result has ``stride`` outputs.

    Args:
      channels: number of channels of inputs and outputs.
      strides: stride of each layer.
      settings: the settings of the network.
    """

    def __init__(self, channels: int, strides: Sequence[int], settings: LayerSettings) -> None:
        super().__init__(name="upsampling")
        self._channels, self._strides = channels, strides
        self.layers = [Convolution1D(channels, stride * channels, Window(2, padding="VALID"), settings.initializer,
                                     settings.regularizer, use_bias=True) for stride in strides]

    def __call__(self, x: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns ``[batch, time * product of the strides, channels]``.

        Args:
          x: ``[batch, time, channels]``.
          lengths: number of valid inputs ``[batch]``; the last one is repeated after them.
        """
        batch, time = tf.shape(x)[0], tf.shape(x)[1]
        last = tf.maximum(tf.cast(lengths, tf.int32), 1)[:, tf.newaxis] - 1
        x = tf.gather(x, tf.minimum(tf.range(time + len(self.layers)), last), axis=1, batch_dims=1)
        for number, layer in enumerate(self.layers):
            x = layer(tf.nn.leaky_relu(x, 0.4) if number else x)
            x = tf.reshape(x, [batch, -1, self._channels])
        return x[:, :time * math.prod(self._strides)]


def pointwise(in_channels: int, out_channels: int, settings: LayerSettings) -> Convolution1D:
    """Creates a convolution with one tap and without bias, which is a product with a matrix."""
    return Convolution1D(in_channels, out_channels, Window(1), settings.initializer, settings.regularizer)


class Hidden(NamedTuple):
    """What the layers compute.

    Attributes:
      inputs: the inputs of the first convolution and of each layer ``[batch, time, channels]``.
      total: the sum of the skip connections and of the last layer ``[batch, time, filters]``.
    """

    inputs: list[tf.Tensor]
    total: tf.Tensor


class WavenetEncoder(Encoder):
    """WaveNet (van den Oord et al. 2016, https://arxiv.org/abs/1609.03499), conditioned on a mel spectrogram.

    Samples are quantised by the mu-law or, with ``mixture_components``, evenly. Dilations double from layer to layer,
    and begin again at 1 in each block. As in NVIDIA's OpenSeq2Seq, filter and gate read half of the channels each, the
    convolutions are followed by batch norm, and all layers have the same condition, which stays the same for the
    samples of a frame, unless ``upsampling_strides`` are given.

    Attributes:
      samples: what is read and predicted.
      receptive_field: number of samples that the prediction of the next one may depend on, as the original counts it:
        without the ``kernel_size - 1`` samples that the first convolution adds.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Encoder.get_required_params(),
            "layer_type": Param(["conv1d"], doc="Kind of the convolutions.", on_change=FREE),
            "kernel_size": Param(int, doc="Number of taps of the convolutions.", minimum=2, maximum=100),
            "strides": Param([1], doc="Step of the convolutions.", on_change=FREE),
            "padding": Param(["VALID"], doc="Padding of the convolutions: the first outputs, whose inputs would begin "
                             "before the clip, are zeros.", on_change=FREE),
            "blocks": Param(int, doc="Number of blocks of layers.", minimum=1, maximum=100),
            "layers_per_block": Param(int, doc="Number of layers of a block.", minimum=1, maximum=16),
            "filters": Param(int, doc="Number of channels, a multiple of 2.", minimum=2, maximum=10**5),
            "quantization_channels": Param(int, doc="Number of levels of a sample.", minimum=2, maximum=2**16),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Encoder.get_optional_params(),
            "data_format": Param(["channels_last", "channels_first"], "channels_last", "Accepted for old configs; has "
                                 "no effect, because activations are always channels-last.", on_change=FREE),
            "bn_momentum": Param(float, 0.1, "Fraction of batch norm's old moving statistics kept at each step.",
                                 minimum=0.0, below=1.0),
            "bn_epsilon": Param(float, 1e-5, "Small number that batch norm adds to the variance.", above=0.0,
                                on_change=REFUSE),
            "mixture_components": Param((int, type(None)), None, "Number of logistic distributions whose mixture is "
                                        "the prediction of a sample, and quantization_channels is then that of evenly "
                                        "spaced levels, such as 65536; None: a probability for each level of the "
                                        "mu-law.", minimum=1, maximum=1000, on_change=REFUSE),
            "upsampling_strides": Param((list, type(None)), None, "Strides of transposed convolutions that turn the "
                                        "spectrogram into a condition for each sample; their product must be that of "
                                        "a frame, n_fft / 4. None: the samples of a frame have the same condition.",
                                        on_change=REFUSE),
            "local_conditioning": Param(bool, True, "Whether the network reads the spectrogram; if not, it learns how "
                                        "the voice sounds, not what it says.", on_change=REFUSE),
            "num_audio_features": Param((int, type(None)), None, "Number of mel filters, an even number; set from the "
                                        "data layer.", derived=True),
            "hop": Param(int, 1, "Number of samples of a frame; set from the data layer.", "samples", derived=True,
                         minimum=1),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "encoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params, size, levels = self.params, self.params["filters"], self.params["quantization_channels"]
        self._check_sizes()
        components = params["mixture_components"]
        self.samples = MuLaw(levels) if components is None else LogisticMixture(levels, components)
        settings = LayerSettings(size, params["kernel_size"], params["bn_momentum"], params["bn_epsilon"],
                                 self.make_initializer(), self.make_regularizer())
        self.preprocess = CausalConvolution(self.samples.inputs, 1, settings)
        features = (params["num_audio_features"] or 0) // 2 if params["local_conditioning"] else 0
        strides = params["upsampling_strides"] if features else None
        self.upsampling = Upsampling(2 * features, strides, settings) if strides else None
        self.filter_condition = pointwise(features, size, settings) if features else None
        self.gate_condition = pointwise(features, size, settings) if features else None
        dilations = [2 ** layer for layer in range(params["layers_per_block"])]
        self.blocks = [[GatedLayer(dilation, settings) for dilation in dilations] for _ in range(params["blocks"])]
        self.output_layers = [pointwise(size, size, settings), pointwise(size, self.samples.outputs, settings)]
        self.receptive_field = (params["kernel_size"] - 1) * sum(dilations) * params["blocks"] + 1

    @property
    def layers(self) -> list[GatedLayer]:
        """The layers of all blocks, from the first one up."""
        return [layer for block in self.blocks for layer in block]

    def _check_sizes(self) -> None:
        params, path, problems = self.params, self.params_path, []
        if params["filters"] % 2:
            problems.append(f"'{path}/filters' is {params['filters']}, but must be a multiple of 2: filter and gate "
                            "read half of the channels each.")
        features = params["num_audio_features"]
        if params["local_conditioning"] and (features is None or features % 2):
            problems.append(f"'{path}/num_audio_features' is {features}, but must be an even number: filter and gate "
                            "read half of the features each. Set it in data_layer_params.")
        strides, hop = params["upsampling_strides"], params["hop"]
        if strides is not None and not (all(type(stride) is int and stride > 0 for stride in strides)
                                        and math.prod(strides) == hop):
            problems.append(f"'{path}/upsampling_strides' is {strides}, but must be positive integers whose product is "
                            f"{hop}, the number of samples of a frame.")
        if problems:
            raise ConfigError(problems)

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Predicts each sample from those before it.

        Args:
          input_dict: a dict whose ``source_tensors`` are audio ``[batch, samples]`` from -1 to 1, its lengths
            ``[batch]``, spectrograms ``[batch, frames, features]``, whose first frame belongs to the first ``hop``
            samples, and their numbers of frames.

        Returns:
          A dict with ``logits`` ``[batch, samples - receptive_field, channels]`` for the samples from number
          ``receptive_field`` on, which have a full receptive field before them, and ``outputs_length`` ``[batch]``. The
          channels are the logits of the levels, or the parameters of the mixture; see ``parts.sample_values``.
        """
        audio, lengths, spectrogram = input_dict["source_tensors"][:3]
        dtype, count = self.dtype_of("convolution"), tf.shape(audio)[1] - 1
        condition = [self._by_sample(one)[:, :count] for one in self._condition(
            tf.cast(spectrogram, dtype), -(-lengths // self.params["hop"]))]
        samples = self.samples.of_audio(audio)[:, :-1]
        missing = tf.maximum(max(self._reaches) + 1 - count, 0)  # of clips that are too short for the longest window
        condition = [tf.pad(one, [[0, 0], [0, missing], [0, 0]]) for one in condition]
        hidden = self._hidden(tf.pad(samples, [[0, 0], [0, missing]]), condition,
                              tf.sequence_mask(lengths - 1, count + missing), self.training, dtype)
        logits = self._logits(hidden.total[:, self.receptive_field - 1:count])
        return {"logits": logits, "outputs_length": tf.maximum(lengths - self.receptive_field, 0)}

    def _hidden(self, samples: tf.Tensor, condition: list[tf.Tensor], mask: tf.Tensor, training: bool,
                dtype: tf.DType) -> Hidden:
        """Applies the layers to samples ``[batch, time]``; see ``GatedLayer`` for the other arguments."""
        inputs = samples if samples.dtype.is_integer else tf.cast(self.samples.read(samples), dtype)
        x, skips, read = self.preprocess(inputs, mask, training, dtype), list[tf.Tensor](), [inputs]
        for layer in self.layers:
            read.append(x)
            x, skip = layer(x, condition, mask, training)
            skips.append(skip)
        return Hidden(read, tf.add_n([*skips, x]))

    def _condition(self, spectrogram: tf.Tensor, lengths: tf.Tensor) -> list[tf.Tensor]:
        """Returns what is added to filter and gate, ``[batch, frames or samples, filters]`` each; [] without one.

        Args:
          spectrogram: ``[batch, frames, features]``.
          lengths: numbers of frames ``[batch]``.
        """
        if self.filter_condition is None or self.gate_condition is None:
            return []
        if self.upsampling is not None:
            spectrogram = self.upsampling(spectrogram, lengths)
        first, second = tf.split(spectrogram, 2, -1)
        return [self.filter_condition(first), self.gate_condition(second)]

    @property
    def _samples_per_condition(self) -> int:
        return 1 if self.upsampling is not None else self.params["hop"]

    def _by_sample(self, condition: tf.Tensor) -> tf.Tensor:
        return tf.repeat(condition, self._samples_per_condition, axis=1)

    def _logits(self, x: tf.Tensor) -> tf.Tensor:
        for layer in self.output_layers:
            x = layer(tf.nn.relu(x))
            if self.samples.dtype.is_floating:  # means need more digits than logits
                x = tf.cast(x, tf.float32)
        return x

    def sample(self, spectrogram: tf.Tensor, silence: tf.Tensor, temperature: float = 1.0, seed: int = 0,
               lengths: tf.Tensor | None = None, naive: bool = False) -> tf.Tensor:
        """Draws audio for spectrograms sample by sample, with the moving statistics of batch norm, in FP32.

        Each layer keeps the inputs that it will read again, so a sample costs one position of each layer (Le Paine et
        al. 2016, https://arxiv.org/abs/1611.09482). Before the clip, the network has read silence for its whole
        receptive field. Random numbers are the same for all clips of a batch.

        Args:
          spectrogram: ``[batch, frames, features]``.
          silence: a frame of silence ``[features]``.
          temperature: see ``parts.sample_values``.
          seed: seed of the random numbers.
          lengths: numbers of frames ``[batch]``; None: all.
          naive: whether to apply the network to the whole receptive field for each sample instead: the same samples,
            apart from rounding, but very slowly.

        Returns:
          float32 ``[batch, frames * hop]`` from -1 to 1.
        """
        hop, batch, frames = self.params["hop"], tf.shape(spectrogram)[0], tf.shape(spectrogram)[1]
        lengths = tf.fill([batch], frames) if lengths is None else tf.cast(lengths, tf.int32)
        context = -(-(self.receptive_field + self.preprocess.reach) // hop)  # frames of silence before the clip
        before = tf.broadcast_to(tf.cast(silence, tf.float32), [batch, context, silence.shape[0]])
        conditions = self._condition(tf.concat([before, tf.cast(spectrogram, tf.float32)], 1), context + lengths)
        quiet = self.samples.of_audio(tf.zeros([batch]))
        predicted, state = (self._naively if naive else self._with_cache)(quiet, conditions, context * hop)

        def drawn(position: tf.Tensor, sample: tf.Tensor, state: Any, audio: tf.TensorArray) -> Any:
            logits, state = predicted(position, sample, state)
            sample = self.samples.drawn(logits, temperature, [seed, position])
            return position + 1, sample, state, audio.write(position, sample)

        audio = tf.TensorArray(self.samples.dtype, frames * hop, element_shape=[None])
        *_, audio = tf.while_loop(lambda position, *_: position < frames * hop, drawn,
                                  (tf.constant(0), quiet, state, audio), parallel_iterations=1)
        return self.samples.audio(tf.transpose(audio.stack()))

    def _naively(self, quiet: tf.Tensor, conditions: list[tf.Tensor], context: int) -> tuple[Any, tf.Tensor]:
        """Returns a function that reads samples, and its first state, the samples before the clip ``[batch, time]``.

        Args:
          quiet: silent samples ``[batch]``.
          conditions: ``[batch, frames or samples, filters]`` each, of the silence before the clip, and of the clip.
          context: number of samples of this silence.
        """
        size = self.receptive_field + self.preprocess.reach

        def predicted(position: tf.Tensor, sample: tf.Tensor, earlier: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            samples = tf.concat([earlier[:, 1:], sample[:, tf.newaxis]], 1)
            places = (position + context - size + tf.range(size)) // self._samples_per_condition
            condition = [tf.gather(one, places, axis=1) for one in conditions]
            hidden = self._hidden(samples, condition, tf.ones_like(samples, tf.bool), False, tf.float32)
            return self._logits(hidden.total[:, -1]), tf.ensure_shape(samples, earlier.shape)

        return predicted, tf.repeat(quiet[:, tf.newaxis], size, axis=1)

    def _with_cache(self, quiet: tf.Tensor, conditions: list[tf.Tensor],
                    context: int) -> tuple[Any, list[tf.TensorArray]]:
        """Returns a function that reads samples, and its first state, what each layer keeps; see ``_naively``."""
        (kernel, offset), layers = of_weights(
            lambda: (self.preprocess.folded(), [layer.folded() for layer in self.layers]))
        folded = [(as_matrix(kernel), offset), *layers]
        offsets = tf.stack([layer.offset for layer in layers])[:, tf.newaxis]
        joined = tf.concat(conditions, 2) if conditions else None

        def predicted(position: tf.Tensor, sample: tf.Tensor, rings: Any) -> tuple[tf.Tensor, Any]:
            # A sample is predicted at the position of the one before it, with the condition of that position.
            place = (position + context - 1) // self._samples_per_condition
            added = offsets if joined is None else offsets + tf.gather(joined, place, axis=1)
            return self._step(position, sample, rings, tf.unstack(added), folded)

        return predicted, self._filled_rings(quiet, conditions, context)

    def _filled_rings(self, quiet: tf.Tensor, conditions: list[tf.Tensor], context: int) -> list[tf.TensorArray]:
        """Returns the inputs that each layer keeps ``[reach, batch, channels]`` after silence; see ``_naively``."""
        # Without upsampling, the silence is the same in all clips.
        rows = tf.shape(quiet)[0] if self.upsampling is not None else tf.minimum(tf.shape(quiet)[0], 1)
        samples = tf.repeat(quiet[:rows, tf.newaxis], context - 1, axis=1)
        kept = -(-context // self._samples_per_condition)
        condition = [self._by_sample(one[:rows, :kept])[:, :context - 1] for one in conditions]
        hidden = self._hidden(samples, condition, tf.ones_like(samples, tf.bool), False, tf.float32)
        values, rings = [self.samples.read(samples), *hidden.inputs[1:]], []
        for value, reach in zip(values, self._reaches, strict=True):
            shape = [reach, tf.shape(quiet)[0], value.shape[2]]
            value = tf.broadcast_to(tf.transpose(value[:, -reach:], [1, 0, 2]), shape)
            ring = tf.TensorArray(tf.float32, reach, clear_after_read=False, element_shape=[None, value.shape[2]])
            rings.append(ring.unstack(value))
        return rings

    @property
    def _reaches(self) -> list[int]:
        return [self.preprocess.reach, *[layer.filter.reach for layer in self.layers]]

    def _step(self, position: tf.Tensor, sample: tf.Tensor, rings: list[tf.TensorArray], added: list[tf.Tensor],
              folded: list[Any]) -> tuple[tf.Tensor, list[tf.TensorArray]]:
        """Reads samples ``[batch]``; returns logits of the next ones ``[batch, channels]`` and the new rings."""
        value, skips, new_rings = self.samples.read(sample), list[tf.Tensor](), []
        earlier = self.params["kernel_size"] - 1
        for number, (ring, reach) in enumerate(zip(rings, self._reaches, strict=True)):
            # The oldest input is where the newest one will be written.
            inputs = tf.concat([*[ring.read((position + reach // earlier * tap) % reach) for tap in range(earlier)],
                                value], 1)
            with tf.control_dependencies([inputs]):  # so that the ring need not be copied
                new_rings.append(ring.write(position % reach, value))
            if number:
                value, skip = folded[number](inputs, value, added[number - 1])
                skips.append(skip)
            else:
                kernel, offset = folded[0]
                value = tf.matmul(inputs, kernel) + offset
        return self._logits(tf.add_n([*skips, value])), new_rings
