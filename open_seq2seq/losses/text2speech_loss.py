"""Loss of speech synthesis: errors of the spectrograms and durations, and cross-entropy of the stop tokens."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.losses.guided_attention import guided_attention
from open_seq2seq.losses.loss import Loss, LossTerm, example_weights


class Text2SpeechLoss(Loss):
    """Mean errors of the spectrograms and mean cross-entropy of the stop tokens over all frames; errors of durations.

    ``decoder_output`` is that of ``Tacotron2Decoder`` or ``DurationDecoder``, and the ``target_tensors`` are
    spectrograms ``[batch, time, features]``, stop tokens ``[batch, time]``, lengths ``[batch]`` and, for
    ``DurationDecoder``, durations ``[batch, text]`` in frames. There is a term for the spectrogram before the postnet,
    one for the final spectrogram, one for the magnitudes, if any, and one for the stop tokens, or the mean squared
    error over all symbols of the logarithm of 1 + duration.
    """

    unit = "frame"

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Loss.get_optional_params(),
            "use_mask": Param(bool, True, "Whether to exclude padding from the loss. If False, padding counts as "
                              "silence after the end, so that the loss depends on how examples are batched."),
            "scale": Param((float, type(None)), None, "Factor of the whole loss; None is 1.", above=0.0),
            "stop_token_weight": Param(float, 1.0, "Weight of the cross-entropy of the stop tokens.", minimum=0.0),
            "duration_weight": Param(float, 1.0, "Weight of the error of the durations.", minimum=0.0),
            "mel_weight": Param(float, 1.0, "Weight of the errors of the spectrograms before and after the postnet.",
                                minimum=0.0),
            "mag_weight": Param(float, 1.0, "Weight of the error of the magnitudes.", minimum=0.0),
            "guided_attention_weight": Param(float, 0.0, "Weight of a penalty on attention that is far from the "
                                             "diagonal, which makes a model attend correctly sooner, above all with "
                                             "little data; 1 to 50 are usual.", minimum=0.0),
            "guided_attention_sigma": Param(float, 0.2, "Width of the diagonal for guided_attention_weight, as a share "
                                            "of the text.", above=0.0),
            "l1_norm": Param(bool, False, "Whether errors are absolute differences instead of squared ones."),
        }

    def _compute_loss(self, input_dict: dict[str, Any]) -> list[LossTerm]:
        decoded, params = input_dict["decoder_output"], self.params
        before, after, _, _, _, magnitude = decoded["outputs"]
        target, stops, lengths = input_dict["target_tensors"][:3]
        mels, bins = after.shape[-1], magnitude.shape[-1]
        time = tf.maximum(tf.shape(target)[1], tf.shape(after)[1])
        mask = tf.sequence_mask(lengths, time, tf.float32) if params["use_mask"] else tf.ones(
            [tf.shape(target)[0], time])
        mask *= example_weights(input_dict)[:, tf.newaxis]
        target = _padded(tf.cast(target, tf.float32), time)
        losses = {"decoder": (self._errors(before, target[..., :mels], time), params["mel_weight"]),
                  "postnet": (self._errors(after, target[..., :mels], time), params["mel_weight"])}
        if bins:
            errors = self._errors(magnitude, target[..., mels:mels + bins], time)
            losses["magnitude"] = (errors, params["mag_weight"])
        if "stop_token_prediction" in decoded:
            logits = _padded(decoded["stop_token_prediction"], time)[..., 0]
            stops = _padded(tf.cast(stops, tf.float32)[..., tf.newaxis], time, 1.0)[..., 0]
            losses["stop_token"] = (tf.nn.sigmoid_cross_entropy_with_logits(stops, logits),
                                    params["stop_token_weight"])
        scale, frames = params["scale"] or 1.0, tf.reduce_sum(mask)
        terms = [LossTerm(tf.reduce_sum(tf.where(mask > 0.0, values, 0.0)), frames, weight * scale, self.unit, name)
                 for name, (values, weight) in losses.items()]
        if "log_durations" in decoded:
            terms.append(self._durations(decoded, input_dict, scale))
        return terms + (self._guide(decoded, lengths, mask, scale) if params["guided_attention_weight"] else [])

    def _durations(self, decoded: dict[str, Any], input_dict: dict[str, Any], scale: float) -> LossTerm:
        """Returns the term of ``duration_weight``, the mean over symbols."""
        predicted, durations = decoded["log_durations"], tf.cast(input_dict["target_tensors"][3], tf.float32)
        mask = tf.sequence_mask(decoded["symbols"], tf.shape(predicted)[1], tf.float32)
        mask *= example_weights(input_dict)[:, tf.newaxis]
        errors = tf.square(predicted - tf.math.log1p(durations))
        return LossTerm(tf.reduce_sum(tf.where(mask > 0.0, errors, 0.0)), tf.reduce_sum(mask),
                        self.params["duration_weight"] * scale, "symbol", "duration")

    def _guide(self, decoded: dict[str, Any], lengths: tf.Tensor, mask: tf.Tensor, scale: float) -> list[LossTerm]:
        """Returns the term of ``guided_attention_weight``: the mean over frames of the attention off the diagonal."""
        far = guided_attention(decoded["outputs"][2], lengths, decoded["symbols"],
                               self.params["guided_attention_sigma"])
        return [LossTerm(tf.reduce_sum(far * tf.reduce_max(mask, 1)), tf.reduce_sum(mask),
                         self.params["guided_attention_weight"] * scale, self.unit, "guided_attention")]

    def _errors(self, predicted: tf.Tensor, target: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
        """Returns the mean error of each frame over the features, ``[batch, time]`` FP32."""
        difference = _padded(tf.cast(predicted, tf.float32), time) - target
        return tf.reduce_mean(tf.abs(difference) if self.params["l1_norm"] else tf.square(difference), -1)


def _padded(x: tf.Tensor, time: tf.Tensor, value: float = 0.0) -> tf.Tensor:
    return tf.pad(x, [[0, 0], [0, time - tf.shape(x)[1]], [0, 0]], constant_values=value)
