"""A decoder of spectrograms without attention, from durations of the symbols."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.merge import DROP
from open_seq2seq.config.params import FREE, REFUSE, Param, check_params
from open_seq2seq.decoders.spectrogram_decoder import SpectrogramDecoder
from open_seq2seq.parts.conv_blocks.block import BlockSettings, BlockShape, ConvBlock
from open_seq2seq.parts.conv_blocks.convolution import Window
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.rnn.layers import ResidualLayer, run_layers
from open_seq2seq.parts.tacotron import Dense, DurationPredictor, GaussianUpsampling, whole_frames
from open_seq2seq.utils.errors import ConfigError

# The parameters that only one type of decoder has.
_PARAMS_OF = {"recurrent": ("enable_prenet", "prenet_layers", "prenet_units", "prenet_activation",
                            "prenet_dropout_prob", "inference_seed", "decoder_cell_type", "zoneout_prob",
                            "reduction_factor"),
              "convolutional": ("decoder_kernel_size",)}


class DurationDecoder(SpectrogramDecoder):
    """A decoder that upsamples symbols to frames by their durations, as in Non-Attentive Tacotron.

    See Shen et al. 2020, https://arxiv.org/abs/2010.04301. The durations are those of the batch in training and
    evaluation, and predicted ones in inference. Then follow either the prenet and the recurrent layers of
    ``Tacotron2Decoder``, which also read the previous frame, or residual convolutions, which compute all frames at once
    (as in FastSpeech, Ren et al. 2019, https://arxiv.org/abs/1905.09263), and the postnet. Results do not depend on
    padding.

    ``target_tensors`` are those of ``Tacotron2Decoder``, followed by durations ``[batch, text]`` in frames, which add
    up to the lengths.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **SpectrogramDecoder.get_required_params(),
            "decoder_type": Param(["recurrent", "convolutional"], doc="Layers after the upsampling. The parameters of "
                                  "the prenet, decoder_cell_type, zoneout_prob and reduction_factor are only for "
                                  "recurrent ones, decoder_kernel_size for convolutional ones.", on_change=REFUSE),
            "decoder_cell_units": Param(int, doc="Number of units of each recurrent layer, or of channels of each "
                                        "convolution.", minimum=1),
            "decoder_layers": Param(int, doc="Number of recurrent layers or of convolutions.", minimum=1,
                                    maximum=1000),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **SpectrogramDecoder.get_optional_params(),
            "decoder_cell_type": Param((type, str), "LSTMCell", "Cell of the recurrent layers, as in core_cell.",
                                       names="cell"),
            "decoder_kernel_size": Param(int, 5, "Number of taps of the convolutions.", "frames", minimum=1,
                                         maximum=1000),
            "duration_layers": Param(int, 2, "Number of convolutions of the predictor of durations.", minimum=1,
                                     maximum=1000),
            "duration_units": Param(int, 256, "Number of channels of these convolutions.", minimum=1),
            "duration_kernel_size": Param(int, 3, "Number of taps of these convolutions.", "symbols", minimum=1,
                                          maximum=1000),
            "duration_dropout_prob": Param(float, 0.1, "Dropout rate after these convolutions.", minimum=0.0,
                                           below=1.0),
            "upsampling_sigma": Param((float, type(None)), None, "Standard deviation with which frames mix the symbols "
                                      "around them; None: learned for each symbol.", "frames", above=0.0,
                                      on_change=REFUSE),
            "max_frames_per_symbol": Param(float, 200.0, "In inference: maximum duration of a symbol.", "frames",
                                           above=0.0, on_change=FREE),
            "speed": Param(float, 1.0, "In inference: factor by which speech is faster; predicted durations are "
                           "divided by it.", above=0.0, maximum=100.0, on_change=FREE),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params = self.params
        initializer, regularizer = self.make_initializer(), self.make_regularizer()
        settings = BlockSettings(tf.nn.relu, "layer_norm", initializer=initializer, regularizer=regularizer)
        self.durations = DurationPredictor(
            self.memory_size, params["duration_units"], params["duration_layers"], params["duration_kernel_size"],
            params["duration_dropout_prob"], settings)
        self.upsampling = GaussianUpsampling(self.memory_size, params["upsampling_sigma"])
        # Traced functions read the variable, which is no weight, so that they serve all speeds.
        self._speed = SimpleNamespace(variable=tf.Variable(params["speed"], trainable=False, dtype=tf.float32))
        size, units, self.layers = self.upsampling.output_size, params["decoder_cell_units"], []
        if self._is_recurrent:
            size *= self._per_step
            self._make_prenet()
            self.layers = self._make_recurrent_layers(size)
            units += size
        else:
            self.input = Dense(size, units, initializer, regularizer)
            shape = BlockShape("conv1d", 1, [Window(params["decoder_kernel_size"])], units, params["dropout_prob"])
            self.blocks = [ConvBlock(units, shape, settings) for _ in range(params["decoder_layers"])]
        self.projection = Dense(units, self._per_step * self.num_features, initializer, regularizer)
        self._make_postnet()

    def _more_problems(self, names: Sequence[str]) -> list[str]:
        kind = self.params["decoder_type"]
        return [*super()._more_problems(names), *(
            f"'{self.params_path}/{name}' is only for decoder_type {wanted}, but it is {kind}: leave it out, or "
            f"set it to {DROP} if it is inherited."
            for wanted, params in _PARAMS_OF.items() if wanted != kind and self.mode == "train"
            for name in names if name in params)]

    @property
    def state_of_speech(self) -> Sequence[tf.Variable]:
        return [self._speed.variable]

    @contextlib.contextmanager
    def at_speed(self, speed: float) -> Iterator[None]:
        """Context manager within which speech is ``speed`` times as fast; functions are not traced again.

        Raises:
          ConfigError: the number is not allowed.
        """
        value = speed.item() if isinstance(speed, np.generic) else speed
        checked, problems = check_params({"speed": value}, {}, {"speed": self.get_optional_params()["speed"]},
                                         self.params_path)
        if problems:
            raise ConfigError(problems)
        self._speed.variable.assign(checked["speed"])
        try:
            yield
        finally:
            self._speed.variable.assign(self.params["speed"])

    @property
    def _is_recurrent(self) -> bool:
        return self.params["decoder_type"] == "recurrent"

    @property
    def _per_step(self) -> int:
        """Number of frames of a step."""
        return self.params["reduction_factor"] if self._is_recurrent else 1

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Predicts spectrograms; see ``Decoder.decode``.

        Args:
          input_dict: a dict with ``encoder_output`` and, for teacher forcing, ``target_tensors``; otherwise possibly
            ``speeds`` ``[batch]``.

        Returns:
          A dict with ``outputs`` as ``Tacotron2Decoder`` returns them, where the attention weights are those of the
          upsampling, and the stop probabilities are 1 at the last frame of each example; ``log_durations``, the
          predicted logarithms of 1 + duration ``[batch, text]`` FP32; ``durations`` ``[batch, text]`` FP32, in
          frames, those of the spectrograms; and ``symbols``, the lengths of the texts ``[batch]``.

        Raises:
          ConfigError: the targets have no durations.
        """
        encoded, targets = input_dict["encoder_output"], input_dict.get("target_tensors")
        x, symbols = encoded["outputs"], lengths_of(encoded)
        logarithms = self.durations(tf.cast(x, self.dtype_of("convolution")), symbols, self.training)
        if targets is None:
            durations = tf.minimum(tf.math.expm1(logarithms), self.params["max_frames_per_symbol"])
            durations = whole_frames(durations / self._speeds(input_dict), symbols)
            lengths = tf.cast(tf.reduce_sum(durations, 1), tf.int32)
            time = tf.reduce_max(tf.concat([lengths, [0]], 0))
        elif len(targets) < 4:
            raise ConfigError(["The data layer gives no durations: set 'data_layer_params/durations' to True, with "
                               "lists that have durations."])
        else:
            durations, lengths = tf.cast(targets[3], tf.float32), tf.cast(targets[2], tf.int32)
            time = tf.shape(targets[0])[1]
        frames, weights = self.upsampling(tf.cast(x, self.compute_dtype), durations, time)
        mask = tf.sequence_mask(lengths, time, tf.float32)[:, :, tf.newaxis]
        frames *= tf.cast(mask, frames.dtype)
        spectrogram = self._recurrent(frames, lengths, targets) if self._is_recurrent else \
            self._convolutional(frames, lengths)
        spectrogram, final, weights, magnitude = self._finished(spectrogram, weights, lengths, mask)
        stops = tf.one_hot(lengths - 1, time)[..., tf.newaxis]
        return {"outputs": [spectrogram, final, weights, stops, lengths, magnitude], "symbols": symbols,
                "log_durations": logarithms, "durations": durations, "alignments": weights[:, :, tf.newaxis]}

    def _speeds(self, input_dict: dict[str, Any]) -> tf.Tensor:
        """Returns by what the predicted durations are divided, ``[batch, 1]`` or ``[]``."""
        speeds = input_dict.get("speeds")
        if speeds is None:
            return tf.convert_to_tensor(self._speed.variable)
        return (self._speed.variable * tf.where(speeds > 0.0, speeds, 1.0))[:, tf.newaxis]

    def _convolutional(self, frames: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        """Returns spectrograms ``[batch, time, features]`` FP32 for ``frames`` ``[batch, time, channels]``."""
        mask = tf.sequence_mask(lengths, tf.shape(frames)[1])[:, :, tf.newaxis]
        x = tf.cast(self.input(frames), self.dtype_of("convolution"))
        x = tf.where(mask, x, tf.zeros([], x.dtype))  # the bias is not zero
        for block in self.blocks:
            x += block(x, lengths, training=self.training)[0]
        return tf.cast(self.projection(tf.cast(x, self.compute_dtype)), tf.float32)

    def _recurrent(self, frames: tf.Tensor, lengths: tf.Tensor, targets: Any) -> tf.Tensor:
        """Returns spectrograms ``[batch, time, features]`` FP32; each step reads the frame before it."""
        time, size = tf.shape(frames)[1], self._per_step * self.upsampling.output_size
        padded = tf.pad(frames, [[0, 0], [0, -time % self._per_step], [0, 0]])
        contexts = tf.reshape(tf.transpose(padded, [1, 0, 2]), [-1, self._per_step, tf.shape(frames)[0],
                                                                 self.upsampling.output_size])
        contexts = tf.reshape(tf.transpose(contexts, [0, 2, 1, 3]), [-1, tf.shape(frames)[0], size])
        contexts = tf.cast(contexts, self.dtype_of("recurrence"))
        if targets is None:
            joined = self._stepwise(contexts)
        else:
            x = tf.concat([self._previous_frames(targets[0], self._per_step, contexts.dtype), contexts], -1)
            joined = self._projected(run_layers(self.layers, x, -(-lengths // self._per_step), self.training), contexts)
        return tf.reshape(tf.transpose(joined, [1, 0, 2]), [tf.shape(frames)[0], -1, self.num_features])[:, :time]

    def _projected(self, outputs: tf.Tensor, contexts: tf.Tensor) -> tf.Tensor:
        """Returns the frames of steps ``[steps, batch, frames · features]`` FP32."""
        joined = tf.cast(tf.concat([outputs, contexts], -1), self.compute_dtype)
        return tf.cast(self.projection(joined), tf.float32)

    def _stepwise(self, contexts: tf.Tensor) -> tf.Tensor:
        """Returns the result of ``_projected`` for ``contexts`` ``[steps, batch, channels]``, without targets."""
        steps, batch = tf.shape(contexts)[0], tf.shape(contexts)[1]
        states = [layer.direction.initial_states(batch) for layer in self.layers]
        spectrogram = tf.TensorArray(tf.float32, steps, element_shape=[None, self._per_step * self.num_features])

        def body(step: tf.Tensor, frame: tf.Tensor, states: Any, spectrogram: Any) -> Any:
            x = frame[tf.newaxis]
            x = x if self.prenet is None else self.prenet(x, step[tf.newaxis], False)
            context = contexts[step][tf.newaxis]
            x, states = _advanced(self.layers, tf.concat([x, context], -1), states)
            frames = tf.ensure_shape(self._projected(x, context)[0], [None, self._per_step * self.num_features])
            return (step + 1, tf.cast(frames[:, -self.num_features:], frame.dtype), states,
                    spectrogram.write(step, frames))

        first = tf.zeros([batch, self.num_features], contexts.dtype)
        start = (tf.constant(0), first, states, spectrogram)
        return tf.while_loop(lambda step, *_: step < steps, body, start)[3].stack()


def _advanced(layers: list[ResidualLayer], x: tf.Tensor, states: Any) -> Any:
    """Applies recurrent layers to one step ``[1, batch, channels]``; returns the output and the new states."""
    after, lengths = [], tf.ones([tf.shape(x)[1]], tf.int32)
    for layer, state in zip(layers, states, strict=True):
        x, new = layer.with_final_states(x, lengths, states=state)
        after.append([tf.ensure_shape(one, old.shape) for one, old in zip(new, state, strict=True)])
    return x, after
