"""Loss of speech synthesis: errors of spectrograms and durations, cross-entropy of stop tokens, penalties of attention.

The penalties teach the attention to follow the text; each is summed over an example's steps.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import Param
from open_seq2seq.losses.loss import Loss, LossTerm, example_weights
from open_seq2seq.parts.ctc import ctc_loss
from open_seq2seq.parts.forward_pass import current_pass
from open_seq2seq.utils.errors import ConfigError

_ATTENTION_WEIGHTS = ("guided_attention_weight", "duration_attention_weight", "forward_sum_weight",
                      "backward_attention_weight")
_TINY = 1e-8
_BLANK = -1.0  # logit of the blank in the forward sum
_MARGIN = 0.01  # least progress of a step, in shares of the mean progress


class Text2SpeechLoss(Loss):
    """Mean errors of the spectrograms and mean cross-entropy of the stop tokens over all frames; errors of durations.

    ``decoder_output`` is that of ``Tacotron2Decoder``, ``CentaurDecoder`` or ``DurationDecoder``, and the
    ``target_tensors`` are spectrograms ``[batch, time, features]``, stop tokens ``[batch, time]``, lengths ``[batch]``
    and, for ``DurationDecoder``, durations ``[batch, text]`` in frames. There is a term for the spectrogram before the
    postnet, one for the final spectrogram, one for the magnitudes, if any, and one for the stop tokens, or the mean
    squared error over all symbols of the logarithm of 1 + duration.
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
            "duration_attention_weight": Param(float, 0.0, "Weight of the cross-entropy of the attention to the symbol "
                                               "that is spoken, for data layers with durations.", minimum=0.0),
            "attention_half_life": Param((float, type(None)), None, "Number of batches of all devices after which the "
                                         "two weights above are half as large; evaluation then leaves out their terms. "
                                         "None: they stay.", "batches", above=0.0),
            "forward_sum_weight": Param(float, 0.0, "Weight of the negative log probability that the attention passes "
                                        "each symbol once, under a prior near the diagonal.", minimum=0.0),
            "backward_attention_weight": Param(float, 0.0, "Weight of a penalty on steps in which the attention goes "
                                               "back.", minimum=0.0),
            "l1_norm": Param(bool, False, "Whether errors are absolute differences instead of squared ones."),
        }

    def _compute_loss(self, input_dict: dict[str, Any]) -> list[LossTerm]:
        decoded, params = input_dict["decoder_output"], self.params
        before, after, _, _, _, magnitude = decoded["outputs"][:6]
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
        return terms + self._attention_terms(input_dict, mask, scale)

    def _durations(self, decoded: dict[str, Any], input_dict: dict[str, Any], scale: float) -> LossTerm:
        """Returns the term of ``duration_weight``, the mean over symbols."""
        predicted, durations = decoded["log_durations"], tf.cast(input_dict["target_tensors"][3], tf.float32)
        mask = tf.sequence_mask(decoded["symbols"], tf.shape(predicted)[1], tf.float32)
        mask *= example_weights(input_dict)[:, tf.newaxis]
        errors = tf.square(predicted - tf.math.log1p(durations))
        return LossTerm(tf.reduce_sum(tf.where(mask > 0.0, errors, 0.0)), tf.reduce_sum(mask),
                        self.params["duration_weight"] * scale, "symbol", "duration")

    def _attention_terms(self, input_dict: dict[str, Any], mask: tf.Tensor, scale: float) -> list[LossTerm]:
        """Returns the terms that teach the attention: means over the frames, which ``mask`` has without padding."""
        decoded, params = input_dict["decoder_output"], self.params
        if not any(params[name] for name in _ATTENTION_WEIGHTS):
            return []
        weights, symbols, steps = decoded["outputs"][2], decoded["symbols"], input_dict["target_tensors"][2]
        factor, losses = self._decay(), {}
        if params["guided_attention_weight"] and factor is not None:
            far = guided_attention(weights, steps, symbols, params["guided_attention_sigma"])
            losses["guided_attention"] = (far * factor, params["guided_attention_weight"])
        if params["duration_attention_weight"] and factor is not None:
            away = attention_to_durations(weights, self._given_durations(input_dict), steps)
            losses["duration_attention"] = (away * factor, params["duration_attention_weight"])
        if params["forward_sum_weight"]:
            losses["forward_sum"] = (forward_sum(weights, steps, symbols), params["forward_sum_weight"])
        if params["backward_attention_weight"]:
            losses["backward_attention"] = (backward_attention(weights, steps, symbols),
                                            params["backward_attention_weight"])
        real, frames = tf.reduce_max(mask, 1), tf.reduce_sum(mask)
        return [LossTerm(tf.reduce_sum(values * real), frames, weight * scale, self.unit, name)
                for name, (values, weight) in losses.items()]

    def _decay(self) -> Any:
        """Returns the factor of decaying terms; None if they are left out, in evaluation."""
        half_life, batch = self.params["attention_half_life"], current_pass().micro_batch
        if half_life is None:
            return 1.0
        return None if batch is None else 0.5 ** (tf.cast(batch, tf.float32) / half_life)

    def _given_durations(self, input_dict: dict[str, Any]) -> tf.Tensor:
        if len(input_dict["target_tensors"]) < 4:
            raise ConfigError([f"'{self.params_path}/duration_attention_weight' needs the durations of the symbols: "
                               "set durations to True in data_layer_params, or set the weight to 0."])
        return input_dict["target_tensors"][3]

    def _errors(self, predicted: tf.Tensor, target: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
        """Returns the mean error of each frame over the features, ``[batch, time]`` FP32."""
        difference = _padded(tf.cast(predicted, tf.float32), time) - target
        return tf.reduce_mean(tf.abs(difference) if self.params["l1_norm"] else tf.square(difference), -1)


def _padded(x: tf.Tensor, time: tf.Tensor, value: float = 0.0) -> tf.Tensor:
    return tf.pad(x, [[0, 0], [0, time - tf.shape(x)[1]], [0, 0]], constant_values=value)


def guided_attention(alignments: tf.Tensor, steps: tf.Tensor, symbols: tf.Tensor, sigma: float) -> tf.Tensor:
    """Returns the attention of each example that is far from the diagonal, summed over its steps ``[batch]``.

    Step t of T and symbol n of N have the weight ``1 - exp(-(n / N - t / T)² / (2 sigma²))``, with the example's own
    numbers of steps and symbols (Tachibana et al. 2017, https://arxiv.org/abs/1710.08969, section 3.3).

    Args:
      alignments: attention weights ``[batch, steps, symbols]``.
      steps: number of steps of each example ``[batch]``.
      symbols: number of symbols of each example ``[batch]``.
      sigma: width of the diagonal, as a share of the text.
    """
    weights = tf.cast(alignments, tf.float32)
    shape = tf.shape(weights)
    t, n = (tf.cast(tf.range(size), tf.float32) for size in (shape[1], shape[2]))
    time = t / tf.cast(tf.maximum(steps, 1), tf.float32)[:, tf.newaxis]
    place = n / tf.cast(tf.maximum(symbols, 1), tf.float32)[:, tf.newaxis]
    far = 1.0 - tf.exp(-(place[:, tf.newaxis] - time[:, :, tf.newaxis]) ** 2 / (2.0 * sigma ** 2))
    inside = tf.sequence_mask(steps, shape[1], tf.float32)[:, :, tf.newaxis] \
        * tf.sequence_mask(symbols, shape[2], tf.float32)[:, tf.newaxis]
    return tf.reduce_sum(weights * far * inside, [1, 2])


def attention_to_durations(alignments: tf.Tensor, durations: tf.Tensor, steps: tf.Tensor) -> tf.Tensor:
    """Returns the negative logarithm of the weight of the symbol that is spoken, summed over the steps ``[batch]``.

    Args:
      alignments, steps: see ``guided_attention``.
      durations: number of frames of each symbol ``[batch, symbols]``.
    """
    weights = tf.cast(alignments, tf.float32)
    time, size = tf.shape(weights)[1], tf.shape(weights)[2]
    ends = tf.cumsum(tf.cast(durations, tf.int32), axis=1)
    spoken = tf.minimum(tf.searchsorted(ends, tf.tile(tf.range(time)[tf.newaxis], [tf.shape(ends)[0], 1]), "right"),
                        size - 1)
    losses = -tf.math.log(tf.gather(weights, spoken, batch_dims=2) + _TINY)
    return tf.reduce_sum(losses * tf.sequence_mask(steps, time, tf.float32), 1)


def backward_attention(alignments: tf.Tensor, steps: tf.Tensor, symbols: tf.Tensor) -> tf.Tensor:
    """Returns by how many symbols the mean position goes back, summed over the steps ``[batch]``.

    This is the regulariser of Regotron (Georgiou et al. 2022, https://arxiv.org/abs/2204.13437): progress of less than
    1 % of the mean progress is penalised, too.

    Args:
      alignments, steps, symbols: see ``guided_attention``.
    """
    weights = tf.cast(alignments, tf.float32)
    positions = tf.linalg.matvec(weights, tf.cast(tf.range(tf.shape(weights)[2]), tf.float32))
    margin = _MARGIN * tf.cast(symbols, tf.float32) / tf.cast(tf.maximum(steps, 1), tf.float32)
    back = tf.nn.relu(positions[:, :-1] - positions[:, 1:] + margin[:, tf.newaxis])
    return tf.reduce_sum(back * tf.sequence_mask(steps - 1, tf.shape(back)[1], tf.float32), 1)


def forward_sum(alignments: tf.Tensor, steps: tf.Tensor, symbols: tf.Tensor) -> tf.Tensor:
    """Returns the negative log probability of all monotonic alignments that pass each symbol ``[batch]``.

    This is the loss of One TTS Alignment (Badlani et al. 2021, https://arxiv.org/abs/2108.10447), with its static prior
    (``beta_binomial``). It is 0 for texts with more symbols than steps.

    Args:
      alignments, steps, symbols: see ``guided_attention``.
    """
    weights = tf.cast(alignments, tf.float32)
    batch, time, size = tf.unstack(tf.shape(weights))
    logits = tf.math.log(weights + _TINY) + beta_binomial(steps, symbols, time, size)
    logits = tf.where(tf.sequence_mask(symbols, size)[:, tf.newaxis], logits, -1e9)
    logits = tf.concat([logits, tf.fill([batch, time, 1], _BLANK)], 2)
    losses = ctc_loss(logits, tf.tile(tf.range(size)[tf.newaxis], [batch, 1]), symbols, steps)
    return tf.where(symbols <= steps, losses, 0.0)


def beta_binomial(steps: tf.Tensor, symbols: tf.Tensor, time: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Returns the log probabilities ``[batch, time, size]`` of the beta-binomial prior, near the diagonal the largest.

    At step t of T, counted from 1, the symbol has the distribution of N - 1 draws with the parameters t and T + 1 - t.

    Args:
      steps, symbols: see ``guided_attention``.
      time, size: numbers of steps and symbols with padding, whose values have no meaning.
    """
    t, k = tf.cast(tf.range(1, time + 1), tf.float32)[tf.newaxis, :, tf.newaxis], tf.cast(tf.range(size), tf.float32)
    most = tf.cast(tf.maximum(steps, 1), tf.float32)[:, tf.newaxis, tf.newaxis]
    n = tf.cast(tf.maximum(symbols, 1), tf.float32)[:, tf.newaxis, tf.newaxis] - 1.0
    a, k = tf.minimum(t, most), tf.minimum(k, n)
    b, log = most + 1.0 - a, tf.math.lgamma
    return (log(n + 1) - log(k + 1) - log(n - k + 1) + log(k + a) + log(n - k + b) - log(n + a + b)
            + log(a + b) - log(a) - log(b))
