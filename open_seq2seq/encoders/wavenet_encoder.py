"""WaveNet: the next sample of a clip from the samples before it and a spectrogram."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.parts.precision import of_weights
from open_seq2seq.parts.wavenet import CausalConvolution, GatedLayer, LayerSettings, mu_law_audio, mu_law_ids, pointwise
from open_seq2seq.utils.errors import ConfigError


class WavenetEncoder(Encoder):
    """WaveNet (van den Oord et al. 2016, https://arxiv.org/abs/1609.03499), conditioned on a mel spectrogram.

    Samples are quantised by the mu-law. Dilations double from layer to layer, and begin again at 1 in each block. As in
    NVIDIA's OpenSeq2Seq, filter and gate read half of the channels each, the convolutions are followed by batch norm,
    and all layers have the same condition, which stays the same for the samples of a frame.

    Attributes:
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
        settings = LayerSettings(size, params["kernel_size"], params["bn_momentum"], params["bn_epsilon"],
                                 self.make_initializer(), self.make_regularizer())
        self.preprocess = CausalConvolution(levels, 1, settings)
        features = (params["num_audio_features"] or 0) // 2 if params["local_conditioning"] else 0
        self.filter_condition = pointwise(features, size, settings) if features else None
        self.gate_condition = pointwise(features, size, settings) if features else None
        dilations = [2 ** layer for layer in range(params["layers_per_block"])]
        self.blocks = [[GatedLayer(dilation, settings) for dilation in dilations] for _ in range(params["blocks"])]
        self.output_layers = [pointwise(size, size, settings), pointwise(size, levels, settings)]
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
        if problems:
            raise ConfigError(problems)

    def _encode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Predicts each sample from those before it.

        Args:
          input_dict: a dict whose ``source_tensors`` are audio ``[batch, samples]`` from -1 to 1, its lengths
            ``[batch]``, spectrograms ``[batch, frames, features]``, whose first frame belongs to the first ``hop``
            samples, and their numbers of frames.

        Returns:
          A dict with ``logits`` ``[batch, samples - receptive_field, quantization_channels]`` for the samples from
          number ``receptive_field`` on, which have a full receptive field before them, and ``outputs_length``
          ``[batch]``.
        """
        audio, lengths, spectrogram = input_dict["source_tensors"][:3]
        dtype, count = self.dtype_of("convolution"), tf.shape(audio)[1] - 1
        ids = mu_law_ids(audio, self.params["quantization_channels"])[:, :-1]
        mask = tf.sequence_mask(lengths - 1, count)
        condition = [tf.repeat(one, self.params["hop"], axis=1)[:, :count]
                     for one in self._condition(tf.cast(spectrogram, dtype))]
        x, total = self.preprocess(ids, mask, self.training, dtype), None
        for layer in self.layers:
            x, skip = layer(x, condition, mask, self.training)
            total = skip if total is None else total + skip
        logits = self._logits((total + x)[:, self.receptive_field - 1:])
        return {"logits": logits, "outputs_length": tf.maximum(lengths - self.receptive_field, 0)}

    def _condition(self, spectrogram: tf.Tensor) -> list[tf.Tensor]:
        """Returns what is added to filter and gate, from ``[…, features]``: ``[…, filters]`` each; [] without one."""
        if self.filter_condition is None or self.gate_condition is None:
            return []
        first, second = tf.split(spectrogram, 2, -1)
        return [self.filter_condition(first), self.gate_condition(second)]

    def _logits(self, x: tf.Tensor) -> tf.Tensor:
        for layer in self.output_layers:
            x = layer(tf.nn.relu(x))
        return x

    def sample(self, spectrogram: tf.Tensor, silence: tf.Tensor, temperature: float = 1.0, seed: int = 0) -> tf.Tensor:
        """Draws audio for spectrograms sample by sample, with the moving statistics of batch norm, in FP32.

        Each layer keeps the inputs that it will read again, so a sample costs one position of each layer (Le Paine et
        al. 2016, https://arxiv.org/abs/1611.09482). Before the clip, the network has read silence for its whole
        receptive field. Random numbers are the same for all clips of a batch.

        Args:
          spectrogram: ``[batch, frames, features]``.
          silence: a frame of silence ``[features]``.
          temperature: divisor of the logits; 0 chooses the likeliest level.
          seed: seed of the random numbers.

        Returns:
          float32 ``[batch, frames * hop]`` from -1 to 1.
        """
        hop, levels = self.params["hop"], self.params["quantization_channels"]
        batch, frames = tf.shape(spectrogram)[0], tf.shape(spectrogram)[1]
        quiet = mu_law_ids(tf.zeros([batch]), levels)
        start = tf.broadcast_to(tf.cast(silence, tf.float32), [batch, 1, silence.shape[0]])
        conditions = self._condition(tf.concat([start, tf.cast(spectrogram, tf.float32)], 1))
        folded = of_weights(lambda: [self.preprocess.folded(), *[(layer.filter.folded(), layer.gate.folded())
                                                                 for layer in self.layers]])
        rings = self._filled_rings(quiet, [one[:, 0] for one in conditions], folded)

        def drawn(position: tf.Tensor, ids: tf.Tensor, rings: list[tf.TensorArray],
                  audio: tf.TensorArray) -> tuple[tf.Tensor, tf.Tensor, list[tf.TensorArray], tf.TensorArray]:
            # A sample is predicted at the position of the one before it, with the frame of that position.
            condition = [tf.gather(one, (position + hop - 1) // hop, axis=1) for one in conditions]
            logits, rings = self._step(position, ids, rings, condition, folded)
            ids = chosen(logits, temperature, [seed, position])
            return position + 1, ids, rings, audio.write(position, ids)

        audio = tf.TensorArray(tf.int32, frames * hop, element_shape=[None])
        *_, audio = tf.while_loop(lambda position, *_: position < frames * hop, drawn,
                                  (tf.constant(0), quiet, rings, audio), parallel_iterations=1)
        return mu_law_audio(tf.transpose(audio.stack()), levels)

    def _filled_rings(self, ids: tf.Tensor, condition: list[tf.Tensor], folded: list[Any]) -> list[tf.TensorArray]:
        """Returns the inputs that each layer keeps ``[reach, batch, channels]`` after having read the same for long."""
        taps = self.params["kernel_size"]
        value, rings = tf.one_hot(ids, self.params["quantization_channels"]), []
        for number, reach in enumerate(self._reaches):
            ring = tf.TensorArray(tf.float32, reach, clear_after_read=False, element_shape=value.shape)
            rings.append(ring.unstack(tf.repeat(value[tf.newaxis], reach, axis=0)))
            value, _ = self._output(number, tf.repeat(value[tf.newaxis], taps, axis=0), condition, folded)
        return rings

    @property
    def _reaches(self) -> list[int]:
        return [self.preprocess.reach, *[layer.filter.reach for layer in self.layers]]

    def _output(self, number: int, taps: tf.Tensor, condition: list[tf.Tensor],
                folded: list[Any]) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Returns the output of a layer at one position ``[batch, filters]``, and its skip connection, if it has one.

        Layer 0 is the first convolution. ``taps`` are its inputs ``[taps, batch, channels]``.
        """
        if number:
            return self.layers[number - 1].step(taps, folded[number], condition)
        kernel, offset = folded[0]
        return tf.einsum("kbi,kio->bo", taps, kernel) + offset, None

    def _step(self, position: tf.Tensor, ids: tf.Tensor, rings: list[tf.TensorArray], condition: list[tf.Tensor],
              folded: list[Any]) -> tuple[tf.Tensor, list[tf.TensorArray]]:
        """Reads a sample ``ids`` ``[batch]``; returns logits of the next one ``[batch, levels]`` and the new rings."""
        value, total, new_rings = tf.one_hot(ids, self.params["quantization_channels"]), 0.0, []
        earlier = self.params["kernel_size"] - 1
        for number, (ring, reach) in enumerate(zip(rings, self._reaches, strict=True)):
            # The oldest input is where the newest one will be written.
            taps = tf.stack([*[ring.read((position + reach // earlier * tap) % reach) for tap in range(earlier)],
                             value])
            with tf.control_dependencies([taps]):  # so that the ring need not be copied
                new_rings.append(ring.write(position % reach, value))
            value, skip = self._output(number, taps, condition, folded)
            total = total if skip is None else total + skip
        return self._logits(total + value), new_rings


def chosen(logits: tf.Tensor, temperature: float, seed: Any) -> tf.Tensor:
    """Returns a level for each row of ``logits`` ``[batch, levels]``, drawn with the same random numbers (Gumbel)."""
    if temperature > 0:
        draws = tf.random.stateless_uniform(logits.shape[1:], seed, minval=1e-20)
        logits = logits / temperature - tf.math.log(-tf.math.log(draws))
    return tf.argmax(logits, -1, tf.int32)
