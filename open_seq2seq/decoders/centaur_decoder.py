"""The decoder of Centaur: spectrograms by causal convolutions, with attention to the symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.decoders.decoder import limits_by_factor
from open_seq2seq.decoders.endings import Guards, ending_params
from open_seq2seq.decoders.spectrogram_decoder import FramesDecoder
from open_seq2seq.parts.activations import resolve_activation
from open_seq2seq.parts.attention_record import record_attention
from open_seq2seq.parts.centaur import (
    AttentionBlock,
    Columns,
    Convolve,
    ResidualConvolution,
    Source,
    check_residual_layers,
)
from open_seq2seq.parts.conv_blocks.block import BlockSettings
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.tacotron import Dense, Prenet
from open_seq2seq.parts.transformer.normalization import LayerNorm
from open_seq2seq.parts.transformer.position import MASKED, padding_bias, position_signal

_OF_BLOCKS = "self_attention_conv_params"


class Predicted(NamedTuple):
    """What the network predicts for steps.

    Attributes:
      frames: frames without magnitudes ``[batch, steps, reduction_factor · num_features]``.
      stops: logits of stop tokens ``[batch, steps, reduction_factor]``.
      magnitudes: ``[batch, steps, reduction_factor · num_bins]``.
      weights: attention weights of each block ``[batch, heads, steps, text]``.
    """

    frames: tf.Tensor
    stops: tf.Tensor
    magnitudes: tf.Tensor
    weights: list[tf.Tensor]


class CentaurDecoder(FramesDecoder):
    """The decoder of Centaur, the convolutional model of speech synthesis of NVIDIA's OpenSeq2Seq.

    Each step reads the frames of the step before it, after a small network (the prenet), and predicts
    ``reduction_factor`` frames. Blocks of a causal convolution, an attention to the symbols and a dense layer follow,
    then causal convolutions, from which mel features and stop tokens are computed, and with output_type both further
    ones, from which magnitudes are computed. In inference, each layer keeps the inputs that it will read again, so that
    a step costs one column of each layer.

    ``target_tensors`` are those of ``Tacotron2Decoder``.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        layers = ("each a dict with kernel_size and stride (lists with one number; the stride has to be 1), "
                  "num_channels (hidden_size), padding (VALID), is_causal (True) and activation_fn (relu)")
        return {
            **FramesDecoder.get_required_params(),
            "prenet_layers": Param(int, doc="Number of dense layers through which frames pass first.", minimum=1,
                                   maximum=1000),
            "prenet_hidden_size": Param(int, doc="Number of units of these layers.", minimum=1),
            "hidden_size": Param(int, doc="Number of channels of the network.", minimum=1),
            "conv_layers": Param(list, doc=f"Convolutions after the blocks with attention, {layers}. May be empty.",
                                 on_change=REFUSE),
            "mag_conv_layers": Param(list, doc="Convolutions before the magnitudes, as in conv_layers; empty unless "
                                     "output_type is both.", on_change=REFUSE),
            "attention_dropout": Param(float, doc="Dropout rate of the attention weights.", minimum=0.0, below=1.0),
            "layer_postprocess_dropout": Param(float, doc="Dropout rate after the attention and after the dense layer "
                                               "of each block.", minimum=0.0, below=1.0),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **FramesDecoder.get_optional_params(),
            **_prenet_params(),
            **_attention_params(),
            **ending_params(),
            "cnn_dropout_prob": Param(float, 0.5, "Dropout rate after each convolution after the blocks.", minimum=0.0,
                                      below=1.0),
            "bn_momentum": Param(float, 0.95, "Fraction of batch norm's old moving statistics kept at each step.",
                                 minimum=0.0, below=1.0),
            "bn_epsilon": Param(float, 1e-5, "Small number that batch norm adds to the variance.", above=0.0,
                                on_change=REFUSE),
            "reduction_factor": Param(int, 1, "Number of frames that each step predicts.", "frames", minimum=1,
                                      maximum=1000, on_change=REFUSE),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params, size, per_step = self.params, self.params["hidden_size"], self.params["reduction_factor"]
        made = (self.make_initializer(), self.make_regularizer())
        activation = resolve_activation(params["prenet_activation_fn"], f"{self.params_path}/prenet_activation_fn")
        self.prenet = Prenet((self.num_features + self.num_bins) * per_step, params["prenet_hidden_size"],
                             params["prenet_layers"], activation, params["prenet_dropout"], params["inference_seed"],
                             *made, drops_always=params["prenet_use_inference_dropout"])
        self.input_projection = Dense(params["prenet_hidden_size"], size, *made, False)
        self.blocks = [self._make_block(*made) for _ in range(params["attention_layers"])]
        self.output_norm = LayerNorm(size)
        self.convolutions = self._make_convolutions("conv_layers", params["cnn_dropout_prob"])
        self.stop_token = Dense(size, per_step, *made)
        self.projection = Dense(size, self.num_features * per_step, *made)
        self.magnitude_convolutions = self._make_convolutions("mag_conv_layers", params["cnn_dropout_prob"])
        self.magnitude_projection = Dense(size, self.num_bins * per_step, *made) if self.num_bins else None

    def _make_block(self, initializer: Any, regularizer: Any) -> AttentionBlock:
        params = self.params
        layers = self._make_convolutions(_OF_BLOCKS, params["attention_cnn_dropout_prob"])
        rates = (params["attention_dropout"], params["layer_postprocess_dropout"])
        return AttentionBlock(params["hidden_size"], self.memory_size, params["attention_heads"],
                              layers[0] if layers else None, rates, initializer, regularizer)

    def _make_convolutions(self, name: str, dropout_rate: float) -> list[ResidualConvolution]:
        settings = BlockSettings(None, "batch_norm", self.params["bn_momentum"], self.params["bn_epsilon"],
                                 self.make_initializer(), self.make_regularizer())
        return [ResidualConvolution(layer, dropout_rate, settings, f"{self.params_path}/{name}/{number}")
                for number, layer in enumerate(self._layers[name])]

    def _more_problems(self, names: Sequence[str]) -> list[str]:
        """Returns the problems in the sizes, and keeps the checked convolutions."""
        params, path, problems = self.params, self.params_path, []
        self._layers: dict[str, list[dict[str, Any]]] = {}
        for name in ("conv_layers", "mag_conv_layers", _OF_BLOCKS):
            entries = params[name] if name != _OF_BLOCKS else [] if params[name] is None else [params[name]]
            self._layers[name], faults = check_residual_layers(entries, f"{path}/{name}", params["hidden_size"], True)
            problems += [fault.replace(f"{_OF_BLOCKS}/0", _OF_BLOCKS) for fault in faults]
        if params["hidden_size"] % params["attention_heads"]:
            problems.append(f"'{path}/attention_heads' is {params['attention_heads']} but has to divide hidden_size, "
                            f"which is {params['hidden_size']}.")
        if params["mag_conv_layers"] and params["output_type"] != "both":
            problems.append(f"'{path}/mag_conv_layers' has to be [], because output_type is {params['output_type']}: "
                            "only both has magnitudes beside mel features.")
        return problems + self._window_problems()

    def _window_problems(self) -> list[str]:
        params, path = self.params, self.params_path
        window, back, layers = params["window_size"], params["back_step_size"] or 0, params["force_layers"]
        last = params["attention_layers"] - 1
        problems = [f"'{path}/force_layers' is {layers}, but has to be a list of different numbers of blocks, from 0 "
                    f"to {last}."] if layers is not None and (
            not layers or any(isinstance(one, bool) or not isinstance(one, int) or not 0 <= one <= last
                              for one in layers) or len(set(layers)) < len(layers)) else []
        if window is not None and back >= window:
            problems.append(f"'{path}/back_step_size' is {back}, but has to be below window_size, which is {window}: "
                            "otherwise the attention cannot go on.")
        return problems

    @property
    def _forced(self) -> list[int]:
        """The numbers of the blocks whose attention has the window, in inference; see ``force_layers``."""
        layers = self.params["force_layers"]
        return list(range(len(self.blocks))) if layers is None else sorted(layers)

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Predicts spectrograms; see ``Decoder.decode``.

        Args:
          input_dict: a dict with ``encoder_output`` and, for teacher forcing, ``target_tensors``.

        Returns:
          A dict as ``Tacotron2Decoder`` returns it, where both spectrograms are the same, and the attention weights are
          the mean of those of the heads of the blocks in ``force_layers``. ``alignments`` are those of all heads of all
          blocks, one block after the other.
        """
        encoded, targets = input_dict["encoder_output"], input_dict.get("target_tensors")
        if targets is not None:
            predicted, lengths, time = self._teacher_force(encoded, targets[0], targets[2])
            return self._result(predicted, lengths, time, lengths_of(encoded))
        predicted, guards = self._search(encoded)
        time = tf.reduce_max(tf.concat([guards.ends, [0]], 0))
        return {**self._result(predicted, guards.ends, time, lengths_of(encoded)), "endings": guards.endings}

    def _teacher_force(self, encoded: Mapping[str, Any], targets: tf.Tensor,
                       lengths: tf.Tensor) -> tuple[Predicted, tf.Tensor, tf.Tensor]:
        """Returns predictions for all steps, each of which reads the targets before it; lengths; number of frames."""
        per_step, dtype, convolution = self.params["reduction_factor"], self.compute_dtype, self.dtype_of("convolution")
        time, size = tf.shape(targets)[1], self.num_features + self.num_bins
        padded = tf.pad(targets[..., :size], [[0, 0], [0, -time % per_step], [0, 0]])
        steps = tf.reshape(padded, [tf.shape(targets)[0], -1, per_step * size])
        earlier = tf.cast(tf.pad(steps, [[0, 0], [1, 0], [0, 0]])[:, :-1], dtype)
        lengths, mask = tf.cast(lengths, tf.int32), _mask(encoded)
        sources = self._sources(encoded, dtype)

        def convolve(layer: ResidualConvolution, x: tf.Tensor) -> tf.Tensor:
            return layer.added(x, -(-lengths // per_step), self.training, convolution)

        x = self._read(earlier, tf.range(tf.shape(earlier)[1]))
        biases = [padding_bias(mask)] * len(self.blocks)
        return self._predicted(x, sources, biases, convolve), lengths, time

    def _sources(self, encoded: Mapping[str, Any], dtype: tf.DType) -> list[Source]:
        """Returns what the attention of each block reads."""
        outputs = encoded["outputs"]
        symbols = tf.cast(outputs, tf.float32) + position_signal(tf.range(tf.shape(outputs)[1]), self.memory_size)
        return [block.source(tf.cast(symbols, dtype), self.training) for block in self.blocks]

    def _read(self, frames: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
        """Returns the input of the first block ``[batch, steps, hidden]``.

        Args:
          frames: the frames of the step before each step ``[batch, steps, reduction_factor · features]``.
          steps: numbers of the steps ``[steps]``.
        """
        x = self.prenet(tf.transpose(frames, [1, 0, 2]), steps, self.training)
        x = self.input_projection(tf.transpose(x, [1, 0, 2]))
        return x + tf.cast(position_signal(steps, self.params["hidden_size"]), x.dtype)

    def _predicted(self, x: tf.Tensor, sources: Sequence[Source], biases: Sequence[tf.Tensor],
                   convolve: Convolve) -> Predicted:
        """Returns the predictions for steps.

        Args:
          x: the result of ``_read``.
          sources: what the attention of each block reads.
          biases: for each block, which symbols its attention may look at; see ``AttentionBlock.__call__``.
          convolve: applies a convolution.
        """
        weights = []
        for block, source, bias in zip(self.blocks, sources, biases, strict=True):
            x, one = block(x, source, bias, convolve, self.training)
            weights.append(one)
        x = self.output_norm(x)
        for layer in self.convolutions:
            x = convolve(layer, x)
        frames, stops, magnitudes = self.projection(x), self.stop_token(x), x[..., :0]
        if self.magnitude_projection is not None:
            for layer in self.magnitude_convolutions:
                x = convolve(layer, x)
            magnitudes = self.magnitude_projection(x)
        return Predicted(frames, tf.cast(stops, tf.float32), magnitudes, weights)

    def _search(self, encoded: Mapping[str, Any]) -> tuple[Predicted, Guards]:
        """Returns predictions, each step of which reads the frames that were predicted before, and what ended them."""
        per_step, dtype, lengths = self.params["reduction_factor"], self.dtype_of("recurrence"), lengths_of(encoded)
        batch, mask = tf.shape(lengths)[0], _mask(encoded)
        sources, layers = self._sources(encoded, dtype), self._cached_layers
        folded = [layer.folded(dtype) for layer in layers]
        limits = limits_by_factor(lengths, self.params["max_frames_per_symbol"])
        most = (tf.reduce_max(tf.concat([limits, [0]], 0)) + per_step - 1) // per_step
        size, heads = self.num_features + self.num_bins, self.params["attention_heads"]
        arrays = tuple(tf.TensorArray(tf.float32, most, element_shape=[None, *shape]) for shape in (
            [per_step * self.num_features], [per_step], [per_step * self.num_bins], [len(self.blocks) * heads, None]))

        def body(step: tf.Tensor, before: tf.Tensor, kept: Any, peaks: Any, guards: Guards, arrays: Any) -> Any:
            columns = Columns(kept, folded)
            one = self._predicted(self._read(before[:, tf.newaxis], step[tf.newaxis]), sources,
                                  self._biases(mask, peaks), columns)
            frames = self._joined_features(one)[:, 0]
            weights = tf.concat(one.weights, 1)[:, :, 0]
            guards = self._guarded(guards, step, one, before, frames, lengths)
            values = (tf.cast(one.frames[:, 0], tf.float32), one.stops[:, 0], tf.cast(one.magnitudes[:, 0], tf.float32),
                      weights)
            arrays = tuple(array.write(step, value) for array, value in zip(arrays, values, strict=True))
            inputs = [tf.ensure_shape(one, old.shape) for one, old in zip(columns.kept, kept, strict=True)]
            return (step + 1, tf.ensure_shape(frames, before.shape), inputs,
                    tf.ensure_shape(tf.argmax(weights, -1, tf.int32), peaks.shape), guards, arrays)

        start = (tf.constant(0), tf.zeros([batch, per_step * size], dtype),
                 [tf.zeros([batch, layer.reach, self.params["hidden_size"]], dtype) for layer in layers],
                 tf.zeros([batch, len(self.blocks) * heads], tf.int32), Guards.before_speech(limits), arrays)
        steps, *_, guards, arrays = tf.while_loop(
            lambda step, *state: tf.reduce_any(step * per_step < state[-2].ends), body, start)
        frames, stops, magnitudes, weights = (array.gather(tf.range(steps)) for array in arrays)
        frames, stops, magnitudes = (tf.transpose(one, [1, 0, 2]) for one in (frames, stops, magnitudes))
        of_blocks = tf.split(tf.transpose(weights, [1, 2, 0, 3]), len(self.blocks), 1)
        return Predicted(frames, stops, magnitudes, of_blocks), guards

    @property
    def _cached_layers(self) -> list[ResidualConvolution]:
        """All convolutions in the order in which they are applied."""
        of_blocks = [block.convolution for block in self.blocks if block.convolution is not None]
        return [*of_blocks, *self.convolutions, *self.magnitude_convolutions]

    def _biases(self, mask: tf.Tensor, peaks: tf.Tensor) -> list[tf.Tensor]:
        """Returns for each block which symbols its attention may look at, FP32 ``[batch, 1 or heads, 1, text]``.

        Args:
          mask: True at symbols ``[batch, text]``.
          peaks: positions of the largest weights in the step before, for all heads of all blocks ``[batch, heads]``.
        """
        window, anywhere = self.params["window_size"], padding_bias(mask)
        if window is None:
            return [anywhere] * len(self.blocks)
        first = peaks[..., tf.newaxis] - (self.params["back_step_size"] or 0)
        positions = tf.range(tf.shape(mask)[1])
        near = mask[:, tf.newaxis] & (positions >= first) & (positions < first + window)
        windows = tf.split(tf.where(near, 0.0, MASKED)[:, :, tf.newaxis], len(self.blocks), 1)
        return [windows[number] if number in self._forced else anywhere for number in range(len(self.blocks))]

    def _joined_features(self, predicted: Predicted) -> tf.Tensor:
        """Returns frames with their magnitudes ``[batch, steps, reduction_factor · features]``, in their own dtype."""
        per_step, shape = self.params["reduction_factor"], tf.shape(predicted.frames)
        parts = [tf.reshape(values, [shape[0], shape[1], per_step, size]) for values, size in (
            (predicted.frames, self.num_features), (predicted.magnitudes, self.num_bins))]
        return tf.reshape(tf.concat(parts, -1), [shape[0], shape[1], per_step * (self.num_features + self.num_bins)])

    def _guarded(self, guards: Guards, step: tf.Tensor, predicted: Predicted, before: tf.Tensor, frames: tf.Tensor,
                 lengths: tf.Tensor) -> Guards:
        """Returns the guards after a step; ``before`` and ``frames`` are the frames of the last step and of this one.

        Magnitudes do not count in the comparison of frames, since they may have another scale than mel features.
        """
        per_step, size = self.params["reduction_factor"], self.num_features + self.num_bins
        last, these = (tf.cast(tf.reshape(values, [-1, per_step, size])[..., :self.num_features], tf.float32)
                       for values in (before, frames))
        peak = tf.argmax(self._forced_mean(predicted.weights)[:, 0], -1, tf.int32)
        return guards.after(step * per_step, predicted.stops[:, 0], peak, lengths, last[:, -1], these,
                            self.params["most_end_frames"], self.params["most_repeated_frames"])

    def _forced_mean(self, weights: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the mean weights ``[batch, steps, text]`` of the blocks in ``force_layers``."""
        return tf.reduce_mean(tf.concat([weights[number] for number in self._forced], 1), 1)

    def _result(self, predicted: Predicted, lengths: tf.Tensor, time: tf.Tensor, symbols: tf.Tensor) -> dict[str, Any]:
        """Returns the result of ``_decode``."""
        batch, per_step = tf.shape(lengths)[0], self.params["reduction_factor"]
        mask = tf.sequence_mask(lengths, time, tf.float32)[:, :, tf.newaxis]

        def by_frame(values: tf.Tensor, size: int) -> tf.Tensor:
            frames = tf.reshape(tf.cast(values, tf.float32), [batch, tf.shape(values)[1] * per_step, size])
            return frames[:, :time]

        frames, magnitudes = (by_frame(values, size) * mask for values, size in (
            (predicted.frames, self.num_features), (predicted.magnitudes, self.num_bins)))
        stops = by_frame(predicted.stops, 1)
        for one in predicted.weights:
            record_attention(one)
        alignments = tf.transpose(tf.concat(predicted.weights, 1), [0, 2, 1, 3])
        alignments = tf.repeat(alignments, per_step, axis=1)[:, :time] * mask[..., tf.newaxis]
        weights = tf.repeat(self._forced_mean(predicted.weights), per_step, axis=1)[:, :time] * mask
        return {"outputs": [frames, frames, weights, tf.sigmoid(stops) * mask, lengths, magnitudes, alignments],
                "stop_token_prediction": stops, "alignments": alignments, "symbols": symbols}


def _mask(encoded: Mapping[str, Any]) -> tf.Tensor:
    """Returns which positions have symbols ``[batch, text]``."""
    return tf.sequence_mask(lengths_of(encoded), tf.shape(encoded["outputs"])[1])


def _prenet_params() -> dict[str, Any]:
    return {
        "prenet_activation_fn": Param((callable, str, type(None)), "relu", "Activation of the prenet's layers.",
                                      names="activation", on_change=REFUSE),
        "prenet_dropout": Param(float, 0.5, "Dropout rate after the prenet's layers.", minimum=0.0, below=1.0),
        "prenet_use_inference_dropout": Param(bool, False, "Whether this dropout is also applied outside of training, "
                                              "alike in all examples.", on_change=FREE),
        "inference_seed": Param(int, 0, "Seed of this dropout outside of training.", minimum=0, maximum=2**43 - 1,
                                on_change=FREE),
    }


def _attention_params() -> dict[str, Any]:
    return {
        "attention_layers": Param(int, 4, "Number of blocks with attention.", minimum=1, maximum=1000),
        "attention_heads": Param(int, 1, "Number of heads of the attention; must divide hidden_size.", minimum=1,
                                 on_change=REFUSE),
        "self_attention_conv_params": Param((dict, type(None)), None, "Convolution of each block, a dict as in "
                                            "conv_layers; None: none.", on_change=REFUSE),
        "attention_cnn_dropout_prob": Param(float, 0.5, "Dropout rate after the convolution of each block.",
                                            minimum=0.0, below=1.0),
        "window_size": Param((int, type(None)), None, "In inference: number of symbols that the attention may look at, "
                             "from the one with the largest weight in the previous step on. None: all.", "symbols",
                             minimum=1, on_change=FREE),
        "back_step_size": Param((int, type(None)), None, "Number of symbols by which this window begins earlier; None "
                                "is 0.", "symbols", minimum=0, on_change=FREE),
        "force_layers": Param((list, tuple, type(None)), None, "Numbers of the blocks whose attention has the window, "
                              "and whose mean is the alignment that is measured and that the loss teaches. None: "
                              "all."),
    }
