"""WaveNet as a vocoder: recordings or spectrograms in, sound out."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.decoding.vocoder import joined_folds, overlapping_folds
from open_seq2seq.encoders.wavenet_encoder import WavenetEncoder
from open_seq2seq.losses.loss import LossTerm
from open_seq2seq.models.text2speech.vocoder import SpectrogramReader
from open_seq2seq.utils.errors import ConfigError


class Text2SpeechWavenet(SpectrogramReader):
    """WaveNet (van den Oord et al. 2016, https://arxiv.org/abs/1609.03499), which turns mel spectrograms into sound.

    Evaluation computes the loss.
    """

    encoder: WavenetEncoder

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **SpectrogramReader.get_optional_params(),
            "sampling_temperature": Param(float, 1.0, "In inference, divisor of the logits from which samples are "
                                          "drawn; 0 always takes the likeliest level, as NVIDIA's OpenSeq2Seq does.",
                                          minimum=0.0, maximum=100.0, on_change=FREE),
            "sampling_seed": Param(int, 0, "Seed of the random numbers of inference.", minimum=0, maximum=2**31 - 1,
                                   on_change=FREE),
            "naive_sampling": Param(bool, False, "In inference, compute the whole receptive field for each sample, as "
                                    "wavenet_naive_infer of NVIDIA's OpenSeq2Seq does: the same samples, hundreds of "
                                    "times as slowly. To check the fast way.", on_change=FREE),
            "fold_frames": Param((int, type(None)), None, "In inference, longer clips are divided into parts of this "
                                 "length, which are computed side by side and cross-faded: much faster, and a little "
                                 "less exact at the joints. None: clips are computed as a whole.", "frames", minimum=8,
                                 maximum=10**6, on_change=FREE),
        }

    def derived_params(self, part: str) -> dict[str, Any]:
        settings = self.data_layer.settings
        return {"num_audio_features": settings.num_columns, "hop": settings.hop,
                "batch_size": self.params["batch_size_per_gpu"],
                **({"samples": self.encoder.samples} if part == "loss" else {})}

    def connect(self) -> None:
        """Refuses pieces of clips in which nothing can be learned.

        Raises:
          ConfigError: they are not longer than the receptive field.
        """
        super().connect()
        layer, field = self.data_layer.params, self.encoder.receptive_field
        if self.mode == "train" and layer["segment_frames"] is not None:
            samples = (layer["segment_frames"] + layer["context_frames"]) * self.data_layer.settings.hop
            if samples <= field:
                raise ConfigError([
                    f"A piece of 'data_layer_params/segment_frames' and context_frames has {samples:,} samples, of "
                    f"which none has the {field:,} samples of the receptive field before it: raise context_frames."])

    @property
    def predicts_in_evaluation(self) -> bool:
        return False  # drawing a sample costs as much as a step of training

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        """Draws the sound of spectrograms: ``[sound [batch, samples], its lengths, spectrograms, lengths in frames]``.

        The sound is a frame shorter than the spectrogram, whose last frame is centred at its end.
        """
        spectrogram, lengths = batch["source_tensors"][-2:]
        hop, size = self.data_layer.settings.hop, self.params["fold_frames"]
        silence = tf.constant(self.data_layer.settings.padding)
        if size is None:
            sound = self._drawn(spectrogram, silence, lengths)
        else:
            sound = joined_folds(self._drawn(overlapping_folds(spectrogram, silence, size), silence),
                                 tf.shape(spectrogram), size, hop)
        samples = tf.maximum(tf.cast(lengths, tf.int32) - 1, 0) * hop
        return [tf.where(tf.sequence_mask(samples, tf.shape(sound)[1]), sound, 0.0), samples, spectrogram, lengths]

    def _drawn(self, spectrogram: tf.Tensor, silence: tf.Tensor, lengths: tf.Tensor | None = None) -> tf.Tensor:
        return self.encoder.sample(spectrogram, silence, self.params["sampling_temperature"],
                                   self.params["sampling_seed"], lengths, self.params["naive_sampling"])

    def evaluation_outputs(self, batch: dict[str, Any], terms: list[LossTerm],
                           decoded: dict[str, Any]) -> list[tf.Tensor]:
        return []
