"""Vocoders, which turn mel spectrograms into sound: what they have in common, and the one at the rate of frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.static_shapes import without_empty_rows
from open_seq2seq.data.text2speech.wavenet import WavenetDataLayer
from open_seq2seq.encoders.vocos_encoder import VocosEncoder
from open_seq2seq.losses.loss import LossTerm
from open_seq2seq.models.encoder_decoder import EncoderDecoderModel, encoder_input
from open_seq2seq.models.part import Part
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.models.text2speech.speech import SPECTROGRAM, Speech, SpeechWriter, free_name
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import ConfigError
from open_seq2seq.utils.sound_files import encoded


class SoundModel(EncoderDecoderModel):
    """Base of models that read recordings or mel spectrograms, and whose results are sound files.

    Inference reads the spectrograms of recordings, or files ``.npy`` that a model of speech synthesis with the same
    features has written; see ``SpeechWriter``. ``predict`` returns ``[sound [batch, samples], its lengths, spectrograms,
    lengths in frames]``.
    """

    object_name = "samples"
    interactive_hint = "Type the path of a recording or of a spectrogram"
    verb = "synthesize"
    data_layer: WavenetDataLayer

    def num_objects(self, batch: dict[str, Any]) -> int:
        """Counts the samples of the clips, without padding of the batch."""
        frames = np.asarray(batch["source_tensors"][-1])
        return int(frames.sum()) * self.data_layer.settings.hop

    def infer(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[tuple[int, Speech]]:
        """Returns (example, speech) for each spectrogram of the batch."""
        batch, outputs = without_empty_rows(input_values, output_values)
        rate = self.data_layer.settings.sample_freq
        return [(example, Speech(sound[:samples], rate, spectrogram[:frames],
                                 np.zeros([frames, 0]), SPECTROGRAM, []))
                for example, sound, samples, spectrogram, frames in zip(
                    np.asarray(batch["ids"]).tolist(), *outputs, strict=True)]

    def answer(self, result: Any) -> str:
        return f"{result.seconds:.2f} seconds of sound"

    def prompt_answer(self, result: Any) -> str:
        """Writes the sound to the first free file ``speech-1.wav``, ``speech-2.wav``, …; returns path and duration."""
        path = free_name()
        disk.write_new(path, encoded(result.samples, result.rate))
        return f"{Path(path).resolve()}: {self.answer(result)}"

    def open_results(self, output_file: str) -> ResultWriter:
        return SpeechWriter(output_file, self.data_layer.settings.sample_freq, lambda example: example,
                            lambda _, results: results[0])


class Text2SpeechVocoder(SoundModel):
    """A vocoder that computes magnitudes and phases of all frames at once, and their inverse Fourier transform.

    See ``VocosEncoder``.
    """

    encoder: VocosEncoder

    @staticmethod
    def get_parts() -> dict[str, Part]:
        return {name: part for name, part in EncoderDecoderModel.get_parts().items() if name != "decoder"}

    def derived_params(self, part: str) -> dict[str, Any]:
        return {"settings": self.data_layer.settings}

    def loss_terms(self, batch: dict[str, Any], training: bool) -> tuple[list[LossTerm], dict[str, Any]]:
        encoded = self.encoder.encode(encoder_input(batch), training)
        if self.params["loss"] is None:
            raise ConfigError(["'loss' is missing: training and evaluation need one."])
        terms = self.loss.compute_loss(
            {"decoder_output": encoded, "target_tensors": batch["target_tensors"], "ids": batch["ids"]})
        return terms, {**encoded, "outputs": [encoded["sound"]]}

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        spectrogram, lengths = batch["source_tensors"][-2:]
        sound = self.encoder.encode(encoder_input(batch), False)["sound"]
        samples = tf.maximum(tf.cast(lengths, tf.int32) - 1, 0) * self.data_layer.settings.hop
        return [sound, samples, spectrogram, lengths]

    def evaluation_outputs(self, batch: dict[str, Any], terms: list[LossTerm],
                           decoded: dict[str, Any]) -> list[tf.Tensor]:
        return []

    @property
    def predicts_in_evaluation(self) -> bool:
        return False
