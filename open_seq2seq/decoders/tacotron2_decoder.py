"""The decoder of Tacotron 2: spectrograms frame by frame, with attention to the symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.decoders.decoder import limits_by_factor
from open_seq2seq.decoders.endings import Guards, ending_params
from open_seq2seq.decoders.spectrogram_decoder import SpectrogramDecoder
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.rnn.attention import DynamicConvolutionAttention, GlobalAttention, LocationAttention, Memory
from open_seq2seq.parts.rnn.attentive import AttentiveStack
from open_seq2seq.parts.rnn.core_cells import old_layer_params
from open_seq2seq.parts.tacotron import Dense, ReductionSchedule, reduction_problems, unpadded_lengths


class Tacotron2Decoder(SpectrogramDecoder):
    """The decoder of Tacotron 2 (Shen et al. 2018, https://arxiv.org/abs/1712.05884).

    At each step, recurrent layers read the previous frame, after a small network (the prenet), and the context of the
    previous step, and attend to the symbols. Frames and stop tokens are linear functions of the output of the layers
    and the new context. Convolutions over the whole spectrogram correct it (the postnet). Random elements of the prenet
    are dropped in inference, too: the same in all examples, so that a text sounds the same in any batch.

    ``target_tensors`` are spectrograms ``[batch, time, features]``, stop tokens ``[batch, time]`` and lengths
    ``[batch]``; with output_type both, the features are mel features followed by magnitudes. Without them, each
    spectrogram ends with the first frame whose stop probability is above 0.5.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **SpectrogramDecoder.get_required_params(),
            "attention_layer_size": Param(int, doc="Size of the space in which keys and queries of the attention are "
                                          "compared.", minimum=1),
            "attention_type": Param(["bahdanau", "location", "dynamic_convolution"], doc="Kind of attention: bahdanau "
                                    "is additive; location also depends on the positions that previous steps attended "
                                    "to, dynamic_convolution only on those of the previous step, from which it goes "
                                    "on.", on_change=REFUSE),
            "decoder_cell_units": Param(int, doc="Number of units of each recurrent layer.", minimum=1),
            "decoder_cell_type": Param((type, str), doc="Cell of the recurrent layers, as in core_cell.",
                                       names="cell"),
            "decoder_layers": Param(int, doc="Number of recurrent layers.", minimum=1, maximum=1000),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        old = old_layer_params()
        return {
            **SpectrogramDecoder.get_optional_params(),
            "bahdanau_normalize": Param(bool, False, "Whether the vector of the scores of bahdanau attention has a "
                                        "learned norm."),
            "attention_bias": Param(bool, False, "Whether location attention has a bias inside the tanh."),
            "attention_window": Param((int, type(None)), None, "In inference: the attention is restricted to the "
                                      "positions from 1 before the position with the largest weight in the previous "
                                      "step to this number after it. None: no restriction.", "symbols", minimum=1,
                                      on_change=FREE),
            "reduction_factor": Param((int, list), 1, "Number of frames that each step of the recurrent layers "
                                      "predicts; or pairs of an update and the number from there on, such as [[0, 6], "
                                      "[2000, 2]]. Inference uses the number of the checkpoint.", "frames",
                                      minimum=0, maximum=10**9),
            "postnet_data_format": Param(["channels_last", "channels_first"], "channels_last", "Accepted for old "
                                         "configs; has no effect, because activations are always channels-last.",
                                         on_change=FREE),
            "mask_decoder_sequence": Param(bool, True, "Whether frames after the end of an example are zeros, and are "
                                           "excluded from the statistics of batch norm. If False, results depend on "
                                           "the other examples in the batch.", on_change=REFUSE),
            "stop_token_input": Param(["spectrogram", "decoder"], "spectrogram", "What stop tokens are computed from: "
                                      "the predicted frames, as in NVIDIA's OpenSeq2Seq, or the output of the "
                                      "recurrent layers and the context, as in the paper.", on_change=REFUSE),
            **ending_params(),
            "parallel_iterations": Param(int, 32, "Accepted for old configs; has no effect.", on_change=FREE),
            "time_major": old["time_major"],
            "use_swap_memory": old["use_swap_memory"],
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params = self.params
        initializer, regularizer = self.make_initializer(), self.make_regularizer()
        self._make_prenet()
        self.stack = self._make_stack(initializer, regularizer)
        size, frames = params["decoder_cell_units"] + self.memory_size, params["reduction_factor"]
        self.reduction = None if isinstance(frames, int) else ReductionSchedule(frames)
        frames = frames if self.reduction is None else self.reduction.largest
        self.projection = Dense(size, frames * self.num_features, initializer, regularizer)
        from_frames = params["stop_token_input"] == "spectrogram"
        self.stop_token = Dense(frames * self.num_features if from_frames else size, frames, initializer, regularizer)
        self._make_postnet(params["mask_decoder_sequence"])

    def _more_problems(self, names: Sequence[str]) -> list[str]:
        params = self.params
        problems = super()._more_problems(names)
        problems += reduction_problems(params["reduction_factor"], f"{self.params_path}/reduction_factor")
        if not params["bahdanau_normalize"] or params["attention_type"] == "bahdanau":
            return problems
        return [*problems, f"'{self.params_path}/bahdanau_normalize' has no meaning with attention_type "
                f"{params['attention_type']}: leave it out."]

    def _make_stack(self, initializer: Any, regularizer: Any) -> AttentiveStack:
        params, units, memory_size = self.params, self.params["decoder_cell_units"], self.memory_size
        layers = self._make_recurrent_layers(memory_size)
        attention: GlobalAttention
        if params["attention_type"] == "location":
            attention = LocationAttention(memory_size, units, params["attention_layer_size"], params["attention_bias"],
                                          initializer=initializer, regularizer=regularizer)
        elif params["attention_type"] == "dynamic_convolution":
            attention = DynamicConvolutionAttention(units, params["attention_layer_size"], initializer, regularizer)
        else:
            attention = GlobalAttention("bahdanau", memory_size, units, params["attention_layer_size"],
                                        params["bahdanau_normalize"], initializer, regularizer)
        return AttentiveStack(layers, attention, params["decoder_layers"], memory_size)

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Predicts spectrograms; see ``Decoder.decode``.

        Args:
          input_dict: a dict with ``encoder_output`` and, for teacher forcing, ``target_tensors``.

        Returns:
          A dict with ``outputs``: the spectrogram without the postnet and the final one ``[batch, time, features]``,
          the attention weights ``[batch, time, text]``, the stop probabilities ``[batch, time, 1]``, the lengths
          ``[batch]`` int32, and the magnitudes ``[batch, time, bins]`` (no bins unless output_type is both), FP32;
          ``stop_token_prediction``, logits ``[batch, time, 1]`` FP32; and ``symbols``, the lengths of the texts
          ``[batch]``. Without targets, also ``endings``, what ended each text, as an index of
          ``decoders.endings.ENDINGS`` ``[batch]``.
        """
        encoded, targets = input_dict["encoder_output"], input_dict.get("target_tensors")
        source = tf.cast(encoded["outputs"], self.dtype_of("recurrence"))
        memory = self.stack.memory(source, lengths_of(encoded))
        if targets is None:
            lengths, ids = lengths_of(encoded), encoded.get("encoder_input")
            *searched, endings = self._search(memory, lengths, lengths if ids is None else unpadded_lengths(
                ids, lengths))
            return {**self._result(*searched), "symbols": lengths_of(encoded), "endings": endings}
        result = self._teacher_force(targets[0], targets[2], memory)
        return {**self._result(*result), "symbols": lengths_of(encoded)}

    def _teacher_force(self, targets: tf.Tensor, lengths: tf.Tensor,
                       memory: Memory) -> tuple[tf.Tensor, ...]:
        """Returns spectrograms, stop logits, attention weights and lengths; each step reads the target before it."""
        time, frames = tf.shape(targets)[1], self._frames_per_step()
        x = self._previous_frames(targets, frames, memory.values.dtype)
        outputs, contexts, weights = self.stack.fed(x, memory, self.training, [None] * len(self.stack.layers), True)
        spectrograms, stops = self._projected(tf.transpose(tf.concat([outputs, contexts], -1), [1, 0, 2]), frames)
        weights = tf.repeat(tf.transpose(weights, [1, 0, 2]), frames, axis=1)
        return spectrograms[:, :time], stops[:, :time], weights[:, :time], tf.cast(lengths, tf.int32)

    def _frames_per_step(self) -> int | tf.Tensor:
        """Returns the number of frames of a step; with a schedule, it is an int32 tensor ``[]``."""
        path = f"{self.params_path}/reduction_factor"
        return self.params["reduction_factor"] if self.reduction is None else self.reduction.frames(path)

    def _projected(self, joined: tf.Tensor, per_step: int | tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns frames ``[batch, frames, features]`` and stop logits ``[batch, frames, 1]`` FP32.

        ``joined`` are outputs of the layers and contexts, ``[batch, steps, channels]``. With a schedule, the layers
        compute the largest number of frames of a step, and the first ``per_step`` of them are used.
        """
        joined = tf.cast(joined, self.compute_dtype)
        frames = self.projection(joined)
        if self.reduction is not None:
            used = tf.range(frames.shape[-1]) < per_step * self.num_features
            frames = tf.where(used, frames, tf.zeros([], frames.dtype))
        stops = self.stop_token(frames if self.params["stop_token_input"] == "spectrogram" else joined)
        if self.reduction is not None:
            frames, stops = frames[..., :per_step * self.num_features], stops[..., :per_step]
        batch = tf.shape(joined)[0]
        return (tf.cast(tf.reshape(frames, [batch, -1, self.num_features]), tf.float32),
                tf.cast(tf.reshape(stops, [batch, -1, 1]), tf.float32))

    def _search(self, memory: Memory, lengths: tf.Tensor, unpadded: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns spectrograms, stop logits, attention weights, lengths and what ended each text.

        Each step reads the frame before it. The lengths ``[batch]`` of the texts are those with and without the symbols
        of padding at the end.
        """
        per_step, batch = self._frames_per_step(), tf.shape(lengths)[0]
        static = None if self.reduction else per_step
        limits = limits_by_factor(lengths, self.params["max_frames_per_symbol"])
        most = (tf.reduce_max(tf.concat([limits, [0]], 0)) + per_step - 1) // per_step
        size = self.num_features if self.prenet is None else self.params["prenet_units"]
        state, advance = self.stack.fed_stepper(size, memory)
        arrays = tuple(tf.TensorArray(tf.float32, most, element_shape=shape) for shape in (
            [None, static, self.num_features], [None, static, 1], [None, None]))

        def body(step: tf.Tensor, state: Any, frame: tf.Tensor, guards: Guards, peak: tf.Tensor, arrays: Any) -> Any:
            x = frame if self.prenet is None else self.prenet(frame[tf.newaxis], step[tf.newaxis], False)[0]
            output, weights, state = advance(x, state, self._window(memory.mask, peak))
            frames, stops = self._projected(tf.concat([output, state.context], -1)[:, tf.newaxis], per_step)
            peak = tf.argmax(weights, -1, tf.int32)
            guards = guards.after(step * per_step, stops[..., 0], peak, unpadded, tf.cast(frame, tf.float32), frames,
                                  self.params["most_end_frames"], self.params["most_repeated_frames"])
            arrays = tuple(array.write(step, value)
                           for array, value in zip(arrays, (frames, stops, weights), strict=True))
            return step + 1, state, tf.cast(frames[:, -1], frame.dtype), guards, peak, arrays

        first = tf.zeros([batch, self.num_features], memory.values.dtype)
        start = (tf.constant(0), state, first, Guards.before_speech(limits), tf.zeros([batch], tf.int32), arrays)
        steps, *_, guards, _, arrays = tf.while_loop(
            lambda step, _, __, guards, *___: tf.reduce_any(step * per_step < guards.ends), body, start)
        return *self._joined(steps, per_step, guards.ends, arrays), guards.endings

    def _joined(self, steps: tf.Tensor, per_step: int | tf.Tensor, ends: tf.Tensor,
                arrays: Any) -> tuple[tf.Tensor, ...]:
        frames, stops, weights = (array.gather(tf.range(steps)) for array in arrays)
        time = tf.reduce_max(tf.concat([ends, [0]], 0))
        batch = tf.shape(ends)[0]
        spectrograms = tf.reshape(tf.transpose(frames, [1, 0, 2, 3]), [batch, steps * per_step, self.num_features])
        stops = tf.reshape(tf.transpose(stops, [1, 0, 2, 3]), [batch, steps * per_step, 1])
        weights = tf.repeat(tf.transpose(weights, [1, 0, 2]), per_step, axis=1)
        return spectrograms[:, :time], stops[:, :time], weights[:, :time], ends

    def _window(self, mask: tf.Tensor, peak: tf.Tensor) -> tf.Tensor:
        """Returns where the attention may look, ``[batch, text]``, after its largest weight was at ``peak``."""
        window, positions = self.params["attention_window"], tf.range(tf.shape(mask)[1])
        if window is None:
            return mask
        peak = peak[:, tf.newaxis]
        return mask & (positions >= peak - 1) & (positions <= peak + window)

    def _result(self, spectrogram: tf.Tensor, stops: tf.Tensor, weights: tf.Tensor,
                lengths: tf.Tensor) -> dict[str, Any]:
        """Applies the postnet; returns the result of ``_decode``."""
        mask = tf.sequence_mask(lengths, tf.shape(spectrogram)[1], tf.float32)[:, :, tf.newaxis]
        mask = mask if self.params["mask_decoder_sequence"] else tf.ones_like(mask)
        spectrogram, final, weights, magnitude = self._finished(spectrogram, weights, lengths, mask)
        return {"outputs": [spectrogram, final, weights, tf.sigmoid(stops) * mask, lengths, magnitude],
                "stop_token_prediction": stops, "alignments": weights[:, :, tf.newaxis]}
