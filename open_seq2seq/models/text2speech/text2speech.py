"""Speech synthesis, evaluated by how the attention follows the text, with sound files as results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.data.audio.synthesis_features import to_sound
from open_seq2seq.data.text2speech.text2speech import END, PAD, START, Text2SpeechDataLayer
from open_seq2seq.decoders.endings import DURATIONS, ENDINGS
from open_seq2seq.losses.loss import LossTerm
from open_seq2seq.metrics.speech import coverage, diagonality, monotonicity, spoken_attention
from open_seq2seq.models.encoder_decoder import decoded_freely
from open_seq2seq.models.model import Model
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.models.serving import Answer, ServingFunction, Tensors
from open_seq2seq.models.text2speech.evaluation import Measures, judge_params, speaker_summary, summary
from open_seq2seq.models.text2speech.speech import Speech, SpeechWriter, joined, picture, timings_of
from open_seq2seq.models.text2speech.vocoder import SoundModel, Text2SpeechVocoder, check_vocoder
from open_seq2seq.utils.errors import ConfigError, NoGraphForm, UserError
from open_seq2seq.utils.shipped import TOY


class Text2Speech(SoundModel):
    """Base of models for speech synthesis.

    Evaluation computes the loss with teacher forcing, then speaks each text freely and measures the attention and, if
    asked for, the sound.
    Inference writes sound files; see ``SpeechWriter``.
    """

    object_name = "frames"
    interactive_hint = "Type a text to speak"
    hub_task = "text-to-speech"
    data_layer: Text2SpeechDataLayer
    vocoder: Text2SpeechVocoder | None = None

    def connect(self) -> None:
        super().connect()
        if self.data_layer.speakers.are_several and not getattr(self.encoder, "speakers", None):
            raise ConfigError(["'data_layer_params/speakers' names several speakers, but "
                               f"{type(self.encoder).__name__} does not tell them apart: use Tacotron2Encoder or "
                               "CentaurEncoder."])
        if not hasattr(self.decoder, "at_speed"):
            self.data_layer.refuse_speeds(type(self.decoder).__name__)

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **SoundModel.get_optional_params(),
            "save_to_tensorboard": Param(bool, True, "Whether training also shows the alignment, the spectrograms and "
                                         "the sound of a sample, in TensorBoard and in the report.", on_change=FREE),
            **judge_params(),
            "vocoder": Param((str, type(None)), None, "In inference and in the mode eval, log directory of a "
                             "Text2SpeechVocoder, trained with the same features, that computes the sound; None: the "
                             "method of Griffin and Lim. Relative paths begin at the working directory.",
                             on_change=FREE),
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
            "num_speakers": max(1, len(layer.speakers.names)),
        }

    @classmethod
    def needed_models(cls, params: Mapping[str, Any]) -> dict[str, str]:
        return {"vocoder": params["vocoder"]} if params.get("vocoder") is not None else {}

    def part_problems(self) -> list[str]:
        """Returns a sentence if the vocoder does not exist, also in training, which does not need it."""
        vocoder = self.params["vocoder"]
        if vocoder is None or vocoder.startswith(TOY) or Path(vocoder).expanduser().exists():
            return super().part_problems()
        return [*super().part_problems(), f"'vocoder' is {vocoder}, which does not exist, seen from {Path.cwd()}: give "
                "the log directory of a trained Text2SpeechVocoder, or leave vocoder out."]

    def use(self, name: str, other: Model) -> None:
        check_vocoder(other, self.data_layer.settings, self.params["vocoder"])
        super().use(name, other)
        if self._judge is not None:
            self._judge.copies = "vocoder"

    def num_objects(self, batch: dict[str, Any]) -> int:
        """Counts the frames of the spectrograms, without padding of the batch."""
        tensors = batch["target_tensors"][2] if batch.get("target_tensors") else batch["source_tensors"][-1]
        return int(np.asarray(tensors).sum())

    def prediction_tensors(self, decoded: dict[str, Any]) -> list[tf.Tensor]:
        _, final, alignments, _, lengths, magnitudes = decoded["outputs"][:6]
        final, rows = tf.cast(final, tf.float32), tf.shape(lengths)[0]
        durations = decoded.get("durations", tf.zeros([rows, 0]))
        endings = decoded.get("endings", tf.fill([rows], ENDINGS.index(DURATIONS)))
        tensors = [alignments, lengths, decoded["symbols"], endings, durations, final]
        if self.mode == "eval" and self._judge is None:
            return tensors
        columns = final
        if self.data_layer.settings.output_type == "both":
            columns = tf.concat([final, tf.cast(magnitudes, tf.float32)], -1)
        return [*tensors, *self._sound(columns, lengths)]

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        """Speaks the texts of a batch.

        Returns:
          ``[alignments [batch, frames, text], lengths [batch] in frames, lengths of the texts [batch], what ended each
          as an index of ENDINGS [batch], durations of the symbols in frames [batch, text] or without columns,
          spectrogram [batch, frames, features]]``; in inference, and in evaluation of the sound, followed by ``[sound
          [batch, samples]``, lengths in samples ``[batch]]``.
        """
        return self.prediction_tensors(decoded_freely(self, batch, ("ids", "speeds")))

    def _sound(self, columns: tf.Tensor, lengths: tf.Tensor) -> list[tf.Tensor]:
        """Returns the sound ``[batch, samples]`` of spectrograms of these lengths, and its lengths in samples.

        It is computed by the model that the parameter ``vocoder`` names, which ``run.session`` loads, or else by the
        method of Griffin and Lim.
        """
        settings = self.data_layer.settings
        if self.vocoder is not None:
            sound = self.vocoder.sound_of(columns, lengths, settings)
        else:
            sound = to_sound(columns, lengths, settings, self.params["griffin_lim_iterations"])
        return [sound, tf.maximum(tf.cast(lengths, tf.int32) - 1, 0) * settings.hop]

    def evaluation_outputs(self, batch: dict[str, Any], terms: list[LossTerm],
                           decoded: dict[str, Any]) -> list[tf.Tensor]:
        spectrogram, _, frames = batch["target_tensors"][:3]
        copies = [] if self._judge is None else self._sound(spectrogram, frames)
        return [decoded["outputs"][2], frames, *self.predict(batch), *copies]

    def evaluate(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[Measures]:
        forced, frames, free, lengths, symbols, endings, durations = output_values[:7]
        measures = []
        for row, example in enumerate(np.asarray(input_values["ids"]).tolist()):
            size, sound = symbols[row], None
            spoken = spoken_attention(free[row, :lengths[row], :size],
                                      self._is_spoken(input_values, row, size, durations))
            if self._judge is not None:
                speech, samples, copy, copied = (values[row] for values in output_values[-4:])
                recording = self.data_layer.recording(example)
                sound = self._judge.measures(speech[:samples], copy[:min(copied, len(recording))], recording,
                                             self.data_layer.text(example))
            taught = spoken_attention(forced[row, :frames[row], :size], self._is_spoken(input_values, row, size))
            measures.append(Measures(example, diagonality(taught), diagonality(spoken), monotonicity(spoken),
                                     coverage(spoken), float(lengths[row]) / float(frames[row]),
                                     ENDINGS[endings[row]], sound, self._speaker(input_values, row)))
        return measures

    def _speaker(self, batch: dict[str, Any], row: int) -> str:
        """Returns the name of the speaker of a text of a batch; "" for a model of one voice."""
        speakers = self.data_layer.speakers
        return speakers.names[batch["speakers"][row]] if speakers.are_several else ""

    def _is_spoken(self, batch: dict[str, Any], row: int, size: int, durations: np.ndarray | None = None) -> np.ndarray:
        """Returns which symbols of a text are spoken ``[text]``.

        Args:
          batch: the batch.
          row: number of the text in the batch.
          size: number of its symbols.
          durations: predicted durations ``[batch, text]``; if None or without columns, those of the batch, if it has
            any. Symbols without duration are not spoken; without durations, special ones.
        """
        if (durations is None or not durations.shape[1]) and len(batch["target_tensors"]) > 3:
            durations = batch["target_tensors"][3]
        if durations is not None and durations.shape[1]:
            return np.asarray(durations)[row, :size] > 0
        names = self.data_layer.names_of(batch["source_tensors"][0][row, :size])
        return np.array([bool(name) for name in names], bool)

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        rows = [row for batch in results_per_batch for row in batch]
        of = "Validation " if self.validates else ""
        metrics = summary(rows, of)
        if self._judge is not None:
            metrics |= self._judge.summary([row.sound for row in rows], self._scores, of)
        if self.data_layer.speakers.are_several:
            metrics |= speaker_summary(rows, self._judge, of)
        return metrics

    def worst_examples(self, results_per_batch: list[Any], count: int) -> list[dict[str, str]]:
        rows = sorted((row for batch in results_per_batch for row in batch), key=lambda row: row.free)
        return [{"example": self.data_layer.describe_example(row.example), "diagonality": f"{row.free:.2f}",
                 "text": self.data_layer.text(row.example), "ended by": row.ending,
                 **({"speaker": row.speaker} if row.speaker else {}),
                 **({"heard": row.sound.heard["speech"].text} if row.sound and row.sound.heard else {})}
                for row in rows[:count]]

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        ids, size = batch["source_tensors"][0][0], batch["source_tensors"][1][0]
        target, length = batch["target_tensors"][0][0], batch["target_tensors"][2][0]
        alignment = outputs[2][0, :length, :size]
        reporter.texts({"sample_text": self.data_layer.text_of(ids[:size])})
        spoken = spoken_attention(alignment, self._is_spoken(batch, 0, size))
        reporter.scalar("sample_diagonality", diagonality(spoken))
        if not self.params["save_to_tensorboard"]:
            return
        mels = outputs[1].shape[-1]
        reporter.image("alignment", picture(alignment))
        reporter.image("target", picture(target[:length, :mels]))
        reporter.image("prediction", picture(outputs[1][0, :length]))
        reporter.sound("sample_speech", self._sample_sound(outputs, length), self.data_layer.settings.sample_freq)

    def _sample_sound(self, outputs: list[np.ndarray], length: int) -> np.ndarray:
        """Returns the sound ``[samples]`` of the first prediction of a batch."""
        columns = outputs[1][0, :length]
        if self.data_layer.settings.output_type == "both":
            columns = np.concatenate([columns, outputs[5][0, :length]], -1)
        return self._sound(tf.constant(columns[np.newaxis]), tf.constant([length]))[0].numpy()[0]

    def infer(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[tuple[int, Speech]]:
        """Returns (example, speech) for each text of the batch."""
        settings, results = self.data_layer.settings, []
        for row, example in enumerate(np.asarray(input_values["ids"]).tolist()):
            alignment, frames, symbols, ending, durations, final, sound, samples = (
                values[row] for values in output_values)
            names = self.data_layer.names_of(input_values["source_tensors"][0][row, :symbols])
            if not any(names):  # a text without anything to speak
                frames = samples = 0
                if ENDINGS[ending] != DURATIONS:
                    ending = 0  # the model has not failed to stop
            alignment = alignment[:frames, :symbols]
            if not len(durations):
                durations = np.bincount(alignment.argmax(1), minlength=symbols)
            timings = timings_of(names, durations[:symbols], settings.hop / settings.sample_freq,
                                 float(samples) / settings.sample_freq)
            results.append((example, Speech(sound[:samples], settings.sample_freq, final[:frames], alignment,
                                            ENDINGS[ending], timings, self._speaker(input_values, row))))
        return results

    def divided(self, given: Any) -> list[Any]:
        """Returns the sentences of a text, which are spoken one by one."""
        return [sentence for sentence, _ in self.data_layer.divided(given)]

    def joined(self, given: Any, results: list[Any]) -> Speech:
        return self._joined(results, [pause for _, pause in self.data_layer.divided(given)])

    def _joined(self, results: list[Speech], pauses: list[float]) -> Speech:
        settings = self.data_layer.settings
        return joined(results, pauses, settings.padding, settings.hop)

    def serving_functions(self) -> list[ServingFunction]:
        return speaking(self)

    def open_results(self, output_file: str) -> ResultWriter:
        pauses, has_speakers = self.data_layer.pauses, self.data_layer.speakers.are_several
        if pauses is None:  # texts that arrive one by one, whose sentences have been joined
            return SpeechWriter(output_file, self.data_layer.settings.sample_freq, lambda example: example,
                                lambda _, results: results[0], has_speakers)
        return SpeechWriter(output_file, self.data_layer.settings.sample_freq, lambda example: pauses[example][0],
                            lambda examples, results: self._joined(results, [pauses[one][1] for one in examples]),
                            has_speakers)


class Text2SpeechTacotron(Text2Speech):
    """Tacotron 2 (Shen et al. 2018, https://arxiv.org/abs/1712.05884), optionally with global style tokens.

    See ``Tacotron2Encoder`` and ``Tacotron2Decoder``.
    """


class Text2SpeechDurationModel(Text2Speech):
    """A model without attention and stop token: it predicts the durations of the symbols, then the spectrogram.

    See ``DurationDecoder`` (Non-Attentive Tacotron, Shen et al. 2020, https://arxiv.org/abs/2010.04301). The data layer
    needs ``durations``.
    """


class Text2SpeechCentaur(Text2Speech):
    """Centaur, the convolutional model of speech synthesis of NVIDIA's OpenSeq2Seq.

    See ``CentaurEncoder`` and ``CentaurDecoder``. Samples have a picture of the alignment of each head of each block.
    """

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        super().report_sample(batch, outputs, reporter)
        if not self.params["save_to_tensorboard"]:
            return
        size, length = batch["source_tensors"][1][0], batch["target_tensors"][2][0]
        heads = self.decoder.params["attention_heads"]
        for number, one in enumerate(outputs[6][0, :length, :, :size].transpose(1, 0, 2)):
            suffix = f"_{number % heads}" if heads > 1 else ""
            reporter.image(f"alignment_{number // heads}{suffix}", picture(one))


def speaking(model: Any) -> list[ServingFunction]:
    """Returns the function ``synthesize``, from texts, which has no graph form, and ``sound``, from ids of symbols.

    Args:
      model: a ``Text2Speech`` built for ``interactive_infer``.

    Raises:
      UserError: the model reads style recordings.
    """
    layer = model.data_layer
    more = {"speeds": tf.TensorSpec([None], tf.float32)} if hasattr(model.decoder, "at_speed") else {}
    more |= {"speakers": tf.TensorSpec([None], tf.int32)} if layer.speakers.are_several else {}
    if layer.params["style_input"] is not None:
        raise UserError("'data_layer_params/style_input' is set, but an export reads no style recordings: this model "
                        "cannot be exported.")

    def sound(inputs: Tensors) -> Tensors:
        symbols, lengths = inputs["symbols"], inputs["symbol_lengths"]
        is_spoken = tf.reduce_any((symbols > END) & tf.sequence_mask(lengths, tf.shape(symbols)[1]), 1)
        _, frames, *_, spectrogram, audio, samples = model.predict({
            "source_tensors": [symbols, tf.maximum(lengths, 1)],  # networks need a symbol
            **{name: inputs[name] for name in more}})
        return {"sound": audio, "sound_lengths": tf.where(is_spoken, samples, 0),
                "spectrogram": spectrogram, "spectrogram_lengths": tf.where(is_spoken, frames, 0)}

    def feed(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        batch = layer.make_interactive_batch(inputs)
        symbols, lengths = batch["source_tensors"]
        return {"symbols": symbols, "symbol_lengths": lengths, **{name: batch[name] for name in more}}

    def answers(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
        rows = zip(outputs["sound_lengths"], outputs["spectrogram"], outputs["spectrogram_lengths"], strict=True)
        return [_answer(samples, spectrogram[:frames]) for samples, spectrogram, frames in rows]

    def nothing(inputs: Tensors) -> Tensors:
        raise NotImplementedError("The function synthesize has no graph form.")

    def refused() -> Sequence[Any]:
        raise NoGraphForm(_front_end(layer))

    rate = layer.settings.sample_freq
    inputs = {"symbols": tf.TensorSpec([None, None], tf.int32), "symbol_lengths": tf.TensorSpec([None], tf.int32)}
    outputs = {"sound": f"sound of {rate} Hz, from -1 to 1 [batch, samples], float32",
               "sound_lengths": "number of samples [batch], int32",
               "spectrogram": "features of the model [batch, frames, features], float32",
               "spectrogram_lengths": "number of frames [batch], int32"}
    return [
        ServingFunction("synthesize", nothing, {"texts": tf.TensorSpec([None], tf.string)}, outputs, False, feed,
                        answers, _expected, refused),
        ServingFunction("sound", sound, {**inputs, **more}, outputs, True, feed, answers, _expected,
                        lambda: model.decoder.state_of_speech)]


def _front_end(layer: Any) -> str:
    """Returns why texts are not read, and what is read instead."""
    special = (f"between {START} and {END}, then at least one zero, up to a multiple of {layer.params['pad_to']}"
               if layer.params["pad_EOS"] else f"or only {PAD} for a text without symbols")
    speakers = f"; speakers has their numbers: {dict(enumerate(layer.speakers.names))}"
    return ("sentences, numbers and pronunciations are read by Python; the input symbols of sound has the line of each "
            f"symbol in the file of the vocabulary, counted from {END + 1}, {special}"
            f"{speakers if layer.speakers.are_several else ''}")


def _answer(samples: int, spectrogram: np.ndarray) -> Answer:
    """Returns what an export is judged by: the method of Griffin and Lim multiplies the rounding errors of sounds."""
    return Answer((f"{samples} samples",), spectrogram.ravel())


def _expected(result: Any) -> Answer:
    return _answer(len(result.samples), result.spectrogram)
