"""Vocoders, which turn mel spectrograms into sound, and the base of all models whose results are sounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.data.audio.synthesis_features import SpectrogramSettings, to_sound, within_range
from open_seq2seq.data.text2speech.wavenet import WavenetDataLayer
from open_seq2seq.decoding.vocoder import joined_folds, overlapping_folds
from open_seq2seq.encoders.vocos_encoder import VocosEncoder
from open_seq2seq.encoders.wavenet_encoder import WavenetEncoder
from open_seq2seq.losses.loss import LossTerm
from open_seq2seq.metrics.speech import log_spectral_distance, spectral_signature
from open_seq2seq.models.encoder_decoder import EncoderDecoderModel, encoder_input, loss_of
from open_seq2seq.models.part import Part
from open_seq2seq.models.reporter import Reporter, SignedScores
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.models.text2speech.evaluation import SoundJudge, SoundMeasures, judge_params
from open_seq2seq.models.text2speech.speech import SPECTROGRAM, Speech, SpeechWriter, free_name
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, UserError
from open_seq2seq.utils.sound_files import encoded

_ITERATIONS = 60  # of Griffin and Lim's method, with which the vocoder is compared


class SoundModel(EncoderDecoderModel):
    """Base of models whose results are sounds.

    If a model declares ``evaluation.judge_params`` and they ask for it, ``_judge`` measures the sounds of evaluation.
    """

    verb = "synthesize"
    data_layer: Any

    def __init__(self, params: Mapping[str, Any], mode: str = "train") -> None:
        super().__init__(params, mode)
        self._scores = SignedScores()
        self._judge: SoundJudge | None = None

    def connect(self) -> None:
        super().connect()
        measures, recognizer = self.params.get("sound_measures", False), self.params.get("recognizer")
        if self.mode == "eval" and (measures or recognizer):
            self._judge = SoundJudge(self.data_layer.settings.sample_freq, measures, recognizer)

    def report_evaluation(self, results_per_batch: list[Any], reporter: Reporter) -> None:
        """Writes the scores of the sound with their signatures."""
        self._scores.write(reporter)

    def answer(self, result: Any) -> str:
        return f"{result.seconds:.2f} seconds of sound"

    def prompt_answer(self, result: Any) -> str:
        """Writes the sound to the first free file ``speech-1.wav``, ``speech-2.wav``, … of the current folder.

        Returns:
          The path, and the duration.
        """
        path = free_name()
        disk.write_new(path, encoded(result.samples, result.rate))
        return f"{path.resolve()}: {self.answer(result)}"


class Copied(NamedTuple):
    """How the sound that is computed from the spectrogram of a recording differs from the recording.

    Attributes:
      example: index of the example.
      distance: log-spectral distance in dB.
      other: that of the sound by Griffin and Lim's method.
      sound: further measures, if asked for; the speech is the vocoder's sound, and the copy that of Griffin and Lim.
    """

    example: int
    distance: float
    other: float
    sound: SoundMeasures | None


class SpectrogramReader(SoundModel):
    """Base of models that read recordings or mel spectrograms.

    Inference reads the spectrograms of recordings, or files ``.npy`` that a model of speech synthesis with the same
    features has written; see ``SpeechWriter``. ``predict`` returns ``[sound [batch, samples], its lengths,
    spectrograms, lengths in frames]``.
    """

    object_name = "samples"
    interactive_hint = "Type the path of a recording or of a spectrogram"
    data_layer: WavenetDataLayer

    def num_objects(self, batch: dict[str, Any]) -> int:
        """Counts the samples of the clips, without padding of the batch."""
        frames = np.asarray(batch["source_tensors"][-1])
        return int(frames.sum()) * self.data_layer.settings.hop

    def infer(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[tuple[int, Speech]]:
        """Returns (example, speech) for each spectrogram of the batch."""
        rate = self.data_layer.settings.sample_freq
        return [(example, Speech(sound[:samples], rate, spectrogram[:frames],
                                 np.zeros([frames, 0]), SPECTROGRAM, []))
                for example, sound, samples, spectrogram, frames in zip(
                    np.asarray(input_values["ids"]).tolist(), *output_values, strict=True)]

    def open_results(self, output_file: str) -> ResultWriter:
        return SpeechWriter(output_file, self.data_layer.settings.sample_freq, lambda example: example,
                            lambda _, results: results[0])


class Text2SpeechVocoder(SpectrogramReader):
    """A vocoder that computes magnitudes and phases of all frames at once, and their inverse Fourier transform.

    See ``VocosEncoder``. Evaluation compares its sound, and that of Griffin and Lim's method, with the recordings.
    """

    encoder: VocosEncoder

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**SpectrogramReader.get_optional_params(), **judge_params()}

    @staticmethod
    def get_parts() -> dict[str, Part]:
        return {name: part for name, part in EncoderDecoderModel.get_parts().items() if name != "decoder"}

    def derived_params(self, part: str) -> dict[str, Any]:
        return {"settings": self.data_layer.settings}

    def loss_terms(self, batch: dict[str, Any], training: bool) -> tuple[list[LossTerm], dict[str, Any]]:
        encoded = self.encoder.encode(encoder_input(batch), training)
        terms = loss_of(self, encoded, batch["target_tensors"], batch["ids"])
        return terms, {**encoded, "outputs": [encoded["sound"]]}

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        spectrogram, lengths = batch["source_tensors"][-2:]
        return [*self._cut(self.encoder.encode(encoder_input(batch), False)["sound"], lengths), spectrogram, lengths]

    def _cut(self, sound: tf.Tensor, lengths: tf.Tensor) -> list[tf.Tensor]:
        """Returns sound from -1 to 1 ``[batch, samples]``, and its lengths, of spectrograms with these lengths."""
        return [within_range(sound), tf.maximum(tf.cast(lengths, tf.int32) - 1, 0) * self.data_layer.settings.hop]

    def sound_of(self, columns: tf.Tensor, lengths: tf.Tensor, settings: SpectrogramSettings) -> tf.Tensor:
        """Returns the sound of the spectrograms of another model, whose settings fit; see ``check_vocoder``.

        Args:
          columns: spectrograms ``[batch, frames, columns]``.
          lengths: numbers of frames ``[batch]``.
          settings: the settings of these spectrograms.

        Returns:
          float32 ``[batch, (frames - 1) * hop]``, 0 after the ``(length - 1) * hop`` samples of each example.
        """
        own = self.data_layer.settings
        mel = tf.cast(columns[:, :, :settings.mel_columns], tf.float32) * settings.std_dev + settings.mean
        given = {"source_tensors": [(mel - own.mean) / own.std_dev, lengths], "are_predicted": True}
        return within_range(self.encoder.encode(given, False)["sound"])

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        samples = max(int(batch["source_tensors"][-1][0]) - 1, 0) * self.data_layer.settings.hop
        reporter.sound("sample_speech", outputs[0][0, :samples], self.data_layer.settings.sample_freq)

    def evaluation_outputs(self, batch: dict[str, Any], terms: list[LossTerm],
                           decoded: dict[str, Any]) -> list[tf.Tensor]:
        columns, lengths = batch["source_tensors"][-2:]
        copies = to_sound(columns, lengths, self.data_layer.settings, _ITERATIONS)
        return [*self._cut(decoded["sound"], lengths), copies]

    def evaluate(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[Copied]:
        rate, rows = self.data_layer.settings.sample_freq, []
        begin = self.data_layer.params["context_frames"] * self.data_layer.settings.hop  # before is only padding
        for example, sound, samples, copy in zip(np.asarray(input_values["ids"]).tolist(), *output_values, strict=True):
            recording = self.data_layer.recording(example)
            sounds = sound[begin:samples], copy[begin:samples]
            text = self.data_layer.text(example)
            measures = None if self._judge is None else self._judge.measures(*sounds, recording, text)
            distance, of_copy = (log_spectral_distance(one, recording, rate) for one in sounds)
            rows.append(Copied(example, distance, of_copy, measures))
        return rows

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        rows, of = [row for batch in results_per_batch for row in batch], "Validation " if self.validates else ""
        name, rate = "log-spectral distance", self.data_layer.settings.sample_freq
        distance, other = (float(np.mean([row[place] for row in rows])) for place in (1, 2))
        signed = self._scores.signed(name, distance, spectral_signature(rate))
        deco_print(f"{of}{name}: {distance:.3f} dB; Griffin-Lim copies: {other:.3f} dB{signed}", offset=1)
        metrics = {f"Eval {name}": distance, f"Eval {name} of copies": other}
        if self._judge is not None:
            metrics |= self._judge.summary([row.sound for row in rows], self._scores, of)
        return metrics

    def worst_examples(self, results_per_batch: list[Any], count: int) -> list[dict[str, str]]:
        rows = sorted((row for batch in results_per_batch for row in batch), key=lambda row: -row.distance)
        return [{"example": self.data_layer.describe_example(row.example), "distance": f"{row.distance:.2f} dB"}
                for row in rows[:count]]


def check_vocoder(vocoder: Any, settings: SpectrogramSettings, logdir: str) -> None:
    """Raises UserError unless a model is a vocoder for spectrograms with these settings.

    Args:
      vocoder: the model.
      settings: the settings of the spectrograms.
      logdir: the log directory of the vocoder, for messages.
    """
    if not isinstance(vocoder, Text2SpeechVocoder):
        raise UserError(f"'vocoder' is {logdir}, a {type(vocoder).__name__}: give the log directory of a "
                        "Text2SpeechVocoder.")
    if not settings.mel_columns:
        raise UserError("'vocoder' needs mel spectrograms, but 'data_layer_params/output_type' is magnitude: leave out "
                        "vocoder.")
    if differences := vocoder.data_layer.settings.differences(settings):
        raise UserError(f"The vocoder {logdir} has been trained with other features than this model "
                        f"({', '.join(differences)}): train it with those of the model's data layer, or leave out "
                        "vocoder.")


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
