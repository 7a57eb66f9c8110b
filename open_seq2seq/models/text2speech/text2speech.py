"""Speech synthesis, evaluated by how the attention follows the text, with sound files as results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.data.audio.synthesis_features import to_sound
from open_seq2seq.data.static_shapes import without_empty_rows
from open_seq2seq.data.text2speech.text2speech import Text2SpeechDataLayer
from open_seq2seq.losses.loss import LossTerm
from open_seq2seq.metrics.alignment import coverage, diagonality, monotonicity
from open_seq2seq.models.encoder_decoder import EncoderDecoderModel
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.models.text2speech.sound_files import SpeechWriter, picture
from open_seq2seq.utils.console import deco_print

_STOP = 0.5  # probability from which the stop token ends an utterance


class Speech(NamedTuple):
    """The sound of one text.

    Attributes:
      samples: float32 ``[samples]`` from -1 to 1.
      rate: sampling rate in Hz.
      spectrogram: the features of the data layer ``[frames, features]``; with output_type both, those of mel.
      alignment: attention weights ``[frames, text]``.
      stopped: whether the model ended the utterance; if not, it was cut at the maximum length.
    """

    samples: np.ndarray
    rate: int
    spectrogram: np.ndarray
    alignment: np.ndarray
    stopped: bool

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return len(self.samples) / self.rate


class AlignmentMeasures(NamedTuple):
    """Measures of the speech of one text: its own, and those of the attention given the recording's frames.

    Attributes:
      example: index of the example.
      forced: diagonality of the attention with teacher forcing.
      free: diagonality of the attention of free-running speech.
      monotonicity: of free-running speech.
      coverage: of free-running speech.
      duration_ratio: number of frames, divided by that of the recording.
      stopped: whether the model ended the utterance.
    """

    example: int
    forced: float
    free: float
    monotonicity: float
    coverage: float
    duration_ratio: float
    stopped: bool


class Text2Speech(EncoderDecoderModel):
    """Base of models for speech synthesis.

    Evaluation computes the loss with teacher forcing, then speaks each text freely and measures the attention.
    Inference writes sound files; see ``SpeechWriter``.
    """

    object_name = "frames"
    interactive_hint = "Type a text to speak"
    verb = "synthesize"
    data_layer: Text2SpeechDataLayer

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **EncoderDecoderModel.get_optional_params(),
            "save_to_tensorboard": Param(bool, True, "Whether training also shows pictures of the alignment and the "
                                         "spectrograms of a sample, in TensorBoard.", on_change=FREE),
            "griffin_lim_iterations": Param(int, 60, "Number of iterations in which the phases of the spectrogram are "
                                            "estimated.", minimum=0, maximum=10**4, on_change=FREE),
        }

    def derived_params(self, part: str) -> dict[str, Any]:
        layer = self.data_layer
        return {
            "src_vocab_size": layer.vocab_size,
            "num_audio_features": layer.settings.features,
            "output_type": layer.params["output_type"],
            "exp_mag": layer.settings.exp_mag,
            "batch_size": self.params["batch_size_per_gpu"],
        }

    def num_objects(self, batch: dict[str, Any]) -> int:
        """Counts the frames of the spectrograms, without padding of the batch."""
        tensors = batch.get("target_tensors") or batch["source_tensors"]
        return int(np.asarray(tensors[-1]).sum())

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        """Speaks the texts of a batch.

        Returns:
          ``[spectrogram [batch, frames, features], alignments [batch, frames, text], lengths [batch] in frames, lengths
          of the texts [batch], stop probabilities [batch, frames]]``; in inference followed by ``[sound [batch,
          samples]``, lengths in samples ``[batch]]``.
        """
        outputs = super().predict(batch)
        _, final, alignments, stop, lengths, magnitudes = outputs
        final = tf.cast(final, tf.float32)
        tensors = [final, alignments, lengths, batch["source_tensors"][1], stop[..., 0]]
        if self.mode == "eval":
            return tensors
        settings = self.data_layer.settings
        columns = tf.concat([final, tf.cast(magnitudes, tf.float32)], -1) if settings.output_type == "both" else final
        sound = to_sound(columns, lengths, settings, self.params["griffin_lim_iterations"])
        return [*tensors, sound, tf.maximum(lengths - 1, 0) * settings.hop]

    def evaluation_outputs(self, batch: dict[str, Any], terms: list[LossTerm],
                           decoded: dict[str, Any]) -> list[tf.Tensor]:
        return [*self.predict(batch), decoded["outputs"][2], batch["target_tensors"][2]]

    def evaluate(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[AlignmentMeasures]:
        batch, outputs = without_empty_rows(input_values, output_values)
        _, free, lengths, symbols, stop, forced, frames = outputs[-7:]
        measures = []
        for row, example in enumerate(np.asarray(batch["ids"]).tolist()):
            size = symbols[row]
            own = free[row, :lengths[row], :size]
            measures.append(AlignmentMeasures(
                example, diagonality(forced[row, :frames[row], :size]), diagonality(own),
                monotonicity(own), coverage(own), float(lengths[row]) / float(frames[row]),
                bool(stop[row, lengths[row] - 1] > _STOP)))
        return measures

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        rows = [row for batch in results_per_batch for row in batch]
        metrics = {
            "Eval diagonality": np.mean([row.free for row in rows]),
            "Eval diagonality with teacher forcing": np.mean([row.forced for row in rows]),
            "Eval monotonicity": np.mean([row.monotonicity for row in rows]),
            "Eval coverage": np.mean([row.coverage for row in rows]),
            "Eval duration ratio": np.mean([row.duration_ratio for row in rows]),
            "Eval not stopped": np.mean([not row.stopped for row in rows]),
        }
        of = "Validation " if self.validates else ""
        for name, value in metrics.items():
            deco_print(f"{of}{name.removeprefix('Eval ')}: {value:.4f}", offset=1)
        return {name: float(value) for name, value in metrics.items()}

    def worst_examples(self, results_per_batch: list[Any], count: int) -> list[dict[str, str]]:
        rows = sorted((row for batch in results_per_batch for row in batch), key=lambda row: row.free)
        return [{"example": self.data_layer.describe_example(row.example), "diagonality": f"{row.free:.2f}",
                 "text": self.data_layer.text(row.example), "stopped": "yes" if row.stopped else "no"}
                for row in rows[:count]]

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        ids, size = batch["source_tensors"][0][0], batch["source_tensors"][1][0]
        target, length = batch["target_tensors"][0][0], batch["target_tensors"][2][0]
        alignment = outputs[2][0, :length, :size]
        reporter.texts({"sample_text": self.data_layer.text_of(ids[:size])})
        reporter.scalar("sample_diagonality", diagonality(alignment))
        if not self.params["save_to_tensorboard"]:
            return
        mels = outputs[1].shape[-1]
        reporter.image("alignment", picture(alignment))
        reporter.image("target", picture(target[:length, :mels]))
        reporter.image("prediction", picture(outputs[1][0, :length]))

    def infer(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[tuple[int, Speech]]:
        """Returns (example, speech) for each text of the batch."""
        batch, outputs = without_empty_rows(input_values, output_values)
        rate, results = self.data_layer.settings.sample_freq, []
        for row, example in enumerate(np.asarray(batch["ids"]).tolist()):
            final, alignment, frames, symbols, stop, sound, samples = (values[row] for values in outputs)
            results.append((example, Speech(
                sound[:samples], rate, final[:frames], alignment[:frames, :symbols],
                bool(stop[frames - 1] > _STOP))))
        return results

    def answer(self, result: Any) -> str:
        return f"{result.seconds:.2f} seconds of speech"

    def open_results(self, output_file: str) -> ResultWriter:
        return SpeechWriter(output_file, self.data_layer.settings.sample_freq)


class Text2SpeechTacotron(Text2Speech):
    """Tacotron 2 (Shen et al. 2018, https://arxiv.org/abs/1712.05884), optionally with global style tokens.

    See ``Tacotron2Encoder`` and ``Tacotron2Decoder``.
    """
