"""Speech recognition with CTC or attention, evaluated by word and character error rates, and its files of results."""

from __future__ import annotations

import csv
import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, Param
from open_seq2seq.data.data_layer import INPUTS
from open_seq2seq.data.speech2text.alphabet import NORMALIZATION
from open_seq2seq.data.speech2text.speech2text import Speech2TextDataLayer
from open_seq2seq.decoders.fully_connected import FullyConnectedCTCDecoder
from open_seq2seq.decoding.ctc import CtcDecoder, Symbols, Transcript, Word, words_of
from open_seq2seq.decoding.ctc.frames import Alignment, says_nothing
from open_seq2seq.decoding.ctc.logits_file import LogitsFile, is_pickle
from open_seq2seq.decoding.n_best import HEADER, Candidate, best_choices, rows_of
from open_seq2seq.encoders.speech_encoder import time_windows_of
from open_seq2seq.metrics.wer import count_errors, error_rates, report
from open_seq2seq.models.encoder_decoder import EncoderDecoderModel
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.models.serving import ServingFunction
from open_seq2seq.models.speech2text.serving import recognizing
from open_seq2seq.models.speech2text.subtitles import (
    CSV,
    FORMATS,
    TIMED_FORMATS,
    SpokenWord,
    formatted,
    joined_words,
    text_of,
)
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, DataError, UserError
from open_seq2seq.utils.output_file import beside, passes_through

_CHOICES = 4  # choices of windows' hypotheses per hypothesis of a recording, because some are joined to the same text


class Recognition(NamedTuple):
    """The result of one utterance.

    Attributes:
      text: the transcript; empty if only the logits are wanted.
      words: the words with times and confidences; None if attention decodes, or nobody wants them: the mode ``infer``
        computes them for ``write_word_times``, for formats with times, and for long recordings.
      logits: ``[time, vocabulary]``; None unless the decoder's parameter ``infer_logits_to_pickle`` is True.
      n_best: the best hypotheses, best first; None without prefix beam search. Those of a long recording are made of
        hypotheses of its windows, and their scores are sums.
      n_best_words: the words of each hypothesis, from which those of a long recording are made; None for whole ones.
    """

    text: str
    words: list[SpokenWord] | None = None
    logits: np.ndarray | None = None
    n_best: list[Transcript] | list[Candidate] | None = None
    n_best_words: list[list[SpokenWord]] | None = None


class Speech2Text(EncoderDecoderModel):
    """Speech recognition with CTC or attention, evaluated by WER and CER; results are written as CSV.

    A ``FullyConnectedCTCDecoder`` decodes greedily in the graph. If its parameter ``use_language_model`` is True, its
    logits are decoded by prefix beam search instead. With a ``JointCTCAttentionDecoder``, the results are those of its
    attention decoder or, if ``use_language_model`` in its ``ctc_decoder_params`` is True, those of a prefix beam search
    over the logits of its CTC decoder.
    """

    object_name = "audio frames"
    interactive_hint = "Type the name of a recording"
    verb = "transcribe"
    hub_task = "automatic-speech-recognition"
    data_layer: Speech2TextDataLayer
    _search: CtcDecoder | None = None
    _warned = False

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **EncoderDecoderModel.get_optional_params(),
            "worst_utterances": Param(int, 3, "Number of utterances with the most errors that evaluation lists.",
                                      "utterances", minimum=0, on_change=FREE),
            "write_word_times": Param(bool, False, "Whether inference with CTC also writes <output>.words.csv, with "
                                      "the start, end (seconds) and confidence of each word.", on_change=FREE),
            "transcript_format": Param(list(FORMATS), CSV, "Format in which inference writes transcripts: a table "
                                       "of all recordings, or for each of them subtitles or JSON.", on_change=FREE),
            "window_seconds": Param(int, 60, "With CTC, inference reads recordings longer than this in windows of this "
                                    "length, which overlap by a quarter; 0 reads all of them whole.", "seconds",
                                    minimum=0, on_change=FREE),
        }

    def derived_params(self, part: str) -> dict[str, Any]:
        layer, alphabet = self.data_layer, self.data_layer.alphabet
        autoregressive = alphabet.start_id is not None
        derived: dict[str, Any] = {
            "num_audio_features": layer.params["num_audio_features"],
            "tgt_vocab_size": alphabet.size if autoregressive else alphabet.size + 1,
            "batch_size": self.params["batch_size_per_gpu"],
        }
        if autoregressive:
            derived.update(GO_SYMBOL=alphabet.start_id, END_SYMBOL=alphabet.end_id)
        return derived

    def connect(self) -> None:
        self._check_fit()
        # CTC, alone or joint with attention, cannot output more symbols than the encoder has outputs, so examples
        # with longer labels are handled as bad ones. Attention alone, whose alphabet has <S>, can.
        if self.data_layer.alphabet.start_id is None or self._ctc is not self.decoder:
            windows = time_windows_of(self.encoder)
            self.data_layer.require_steps_for_labels(windows.time_stride, windows.output_lengths)
        if self._searches:
            self._search = self._ctc.beam_decoder(self.data_layer.alphabet.labels)
        if self._dumps_logits or self._lists_n_best:
            self._check_names()
        if self._dumps_logits and self.params["write_word_times"]:
            deco_print("Logits are written, so write_word_times has no effect.")
        elif self.mode == "infer" and self.params["transcript_format"] != CSV and (
                self.params["write_word_times"] or self._has_n_best):
            deco_print(f"The transcript_format is {self.params['transcript_format']}, so no separate files with n-best "
                       "lists or times of words are written.")
        if self.mode == "infer" and self._window_seconds:
            self.data_layer.read_in_windows(self._window_seconds)

    def _check_fit(self) -> None:
        """Raises ConfigError if the decoder does not fit the data layer's targets, or cannot give word times."""
        if isinstance(self.decoder, FullyConnectedCTCDecoder) and self.data_layer.alphabet.start_id is not None:
            raise ConfigError(["'data_layer_params/autoregressive' is True, but then the blank of "
                               f"{type(self.decoder).__name__} would be </S>: set it to False for CTC."])
        if self.mode != "infer" or self._dumps_logits or self._gives_times:
            return
        how = "for joint CTC and attention, set use_language_model in ctc_decoder_params to True."
        if self.params["write_word_times"]:
            raise ConfigError([f"'write_word_times' is True, but attention gives no times: set it to False or, {how}"])
        if self.params["transcript_format"] in TIMED_FORMATS:
            raise ConfigError([f"The transcript_format {self.params['transcript_format']} needs the times of words, "
                               f"which attention does not give: use json or, {how}"])

    def _check_names(self) -> None:
        """Raises DataError if two recordings have the same name, because output files identify recordings by name."""
        names = Counter(self.data_layer.file_name(example) for example in range(self.data_layer.num_examples))
        name, count = names.most_common(1)[0]
        if count > 1:
            raise DataError(f"{count} recordings are named {name}, so logits and n-best lists could not distinguish "
                            "them: process one list at a time, or use names with folders in the lists.")

    @property
    def _ctc(self) -> Any:
        """The CTC decoder: in joint CTC and attention, a part of the decoder; otherwise the decoder itself."""
        return getattr(self.decoder, "ctc", self.decoder)

    @property
    def beam_search(self) -> CtcDecoder | None:
        """The prefix beam search of evaluation and inference; None for greedy decoding."""
        return self._search

    @property
    def has_ctc_results(self) -> bool:
        """Whether results are those of CTC, not of attention."""
        return isinstance(self.decoder, FullyConnectedCTCDecoder) or self._searches

    def serving_functions(self) -> list[ServingFunction]:
        return recognizing(self)

    @property
    def _dumps_logits(self) -> bool:
        return self.mode == "infer" and bool(self._ctc.params.get("infer_logits_to_pickle"))

    @property
    def _searches(self) -> bool:
        return self.mode != "train" and bool(self._ctc.params.get("use_language_model")) and not self._dumps_logits

    @property
    def _lists_n_best(self) -> bool:
        return self.mode == "infer" and self._has_n_best and self.params["transcript_format"] == CSV

    @property
    def _has_n_best(self) -> bool:
        return self._search is not None and self._search.params["n_best"] > 1

    def _with_features(self, batch: dict[str, Any], training: bool) -> dict[str, Any]:
        return {**batch, "source_tensors": self.data_layer.features(batch, training)}

    def loss_terms(self, batch: dict[str, Any], training: bool) -> Any:
        return super().loss_terms(self._with_features(batch, training), training)

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        return super().predict(self._with_features(batch, False))

    def prediction_tensors(self, decoded: dict[str, Any]) -> list[tf.Tensor]:
        """Returns the tensors that ``infer`` converts to transcripts.

        For prefix beam search and for files of logits, these are the logits ``[batch, time, vocabulary]`` and their
        lengths ``[batch]``, otherwise the decoder's ``outputs``.
        """
        if self._searches or self._dumps_logits:
            decoded = decoded.get("ctc_output", decoded)
            return [decoded["logits"], lengths_of(decoded, "the decoder")]
        return list(decoded["outputs"])

    def num_objects(self, batch: dict[str, Any]) -> int:
        """Counts the frames of the features, without padding."""
        lengths = np.asarray(batch["source_tensors"][1])
        if len(self.data_layer.input_signature["source_tensors"][0].shape) == 2:  # samples, with the backend tf
            lengths = np.where(lengths > 0, self.data_layer.settings.num_frames(lengths), 0)
        return int(lengths.sum())

    @property
    def step_seconds(self) -> float:
        """Time from one output of the encoder to the next, in seconds."""
        return self.data_layer.settings.frame_seconds * time_windows_of(self.encoder).time_stride

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        ids, length = (tensor[0] for tensor in batch["target_tensors"][:2])
        target = self.data_layer.ids_to_text(ids[:length])
        prediction = self.data_layer.ids_to_text(_row(outputs, 0))
        reporter.scalar("sample_WER", count_errors(target.split(), prediction.split()).rate)
        reporter.texts({"sample_target": target, "sample_prediction": prediction})

    def evaluate(self, input_values: dict[str, Any], output_values: list[np.ndarray],
                 ) -> list[tuple[int, str, str, str]]:
        """Returns (example, file, reference, hypothesis) for each utterance of the batch."""
        layer = self.data_layer
        return [(example, layer.file_name(example), layer.reference_text(example), recognition.text)
                for example, recognition in self.infer(input_values, output_values)]

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        rows = sorted(row for batch in results_per_batch for row in batch)
        _, names, references, hypotheses = zip(*rows, strict=True)
        rates = error_rates(references, hypotheses, names, self.params["worst_utterances"])
        for line in report(rates):
            of = "Validation " if self.validates and line.startswith(("WER", "CER")) else ""
            deco_print(of + line, offset=1)
        if rates.wer >= 1.0 and training_step is not None:
            deco_print("A WER of 100 % is normal at first: the loss falls before it, and then the CER.", offset=1)
        return {"Eval WER": rates.wer, "Eval CER": rates.cer}

    def worst_examples(self, results_per_batch: list[Any], count: int) -> list[dict[str, str]]:
        rows = sorted(row for batch in results_per_batch for row in batch)
        if not rows:
            return []
        _, names, references, hypotheses = zip(*rows, strict=True)
        return [{"example": one.name, "WER": f"{one.words.rate:.0%}", "target": one.reference,
                 "prediction": one.hypothesis} for one in error_rates(references, hypotheses, names, count).worst]

    def infer(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> list[tuple[int, Recognition]]:
        """Returns (example, recognition) for each utterance of the batch."""
        examples = np.asarray(input_values["ids"]).tolist()
        return list(zip(examples, self._recognitions(output_values, examples, input_values.get(INPUTS)), strict=True))

    def divided(self, given: Any) -> list[Any]:
        """Returns the overlapping windows of a recording that is longer than ``window_seconds``."""
        return [window for window, _ in self.data_layer.windows(given, self._window_seconds)]

    def joined(self, given: Any, results: list[Recognition]) -> Recognition:
        if len(results) == 1:
            return results[0]
        return self._joined(results, [start for _, start in self.data_layer.windows(given, self._window_seconds)])

    def _joined(self, results: list[Recognition], starts: list[float]) -> Recognition:
        words = joined_words([result.words or () for result in results], starts, self._window_seconds)
        return Recognition(text_of(words), words, None, self._joined_lists(results, starts))

    def _joined_lists(self, results: list[Recognition], starts: list[float]) -> list[Candidate] | None:
        """Returns the best hypotheses of a recording, with the hypotheses of its windows; None without them."""
        if self._search is None:
            return None
        lists = [result.n_best or [] for result in results]
        candidates: dict[str, Candidate] = {}
        count = self._search.params["n_best"]
        for ranks in best_choices(lists, _CHOICES * count):
            if len(candidates) == count:
                break
            words = [(result.n_best_words or [result.words or []])[rank]
                     for result, rank in zip(results, ranks, strict=True)]
            text = text_of(joined_words(words, starts, self._window_seconds))
            chosen = [hypotheses[rank] for hypotheses, rank in zip(lists, ranks, strict=True)]
            score, acoustic, lm = (sum(getattr(one, name) for one in chosen) for name in ("score", "acoustic", "lm"))
            candidates.setdefault(text, Candidate(text, score, acoustic, lm))
        return list(candidates.values())

    def answer(self, result: Any) -> str:
        return result.text

    def formatted(self, result: Any, format: str, name: str | None = None) -> str:
        """Returns a recognition as the content of a file ``srt``, ``vtt`` or ``json``; see ``subtitles.formatted``."""
        return formatted(result, format, name)

    def open_results(self, output_file: str) -> ResultWriter:
        layer = self.data_layer
        writer: TranscriptWriter | SubtitleWriter
        if self._dumps_logits:
            return DumpWriter(output_file, layer.file_name, layer.alphabet.labels, self.step_seconds,
                              {name: layer.params[name] for name in NORMALIZATION})
        if self.params["transcript_format"] == CSV:
            writer = TranscriptWriter(output_file, layer.file_name, self.params["write_word_times"],
                                      self._lists_n_best)
        else:
            writer = SubtitleWriter(output_file, layer.file_name, self.params["transcript_format"],
                                    layer.window_of(layer.num_examples - 1)[0] + 1)
        writer.join_windows(lambda example: layer.window_of(example)[0], lambda examples, results: self._joined(
            results, [layer.window_of(example)[1] for example in examples]))
        return writer

    def _recognitions(self, values: list[np.ndarray], examples: list[int],
                      inputs: list[Any] | None) -> list[Recognition]:
        """Converts the outputs of ``predict`` to recognitions; ``inputs`` are those of interactive inference."""
        if self._dumps_logits:
            return [Recognition("", None, logits[:length]) for logits, length in zip(*values, strict=True)]
        if self._search is not None:
            are_windows = self.data_layer.are_windows(examples, inputs)
            return [self._searched(self._search, logits[:length], is_window)
                    for logits, length, is_window in zip(*values, are_windows, strict=True)]
        return [Recognition(self.data_layer.ids_to_text(_row(values, row)), self._greedy_words(values, row))
                for row in range(len(values[0]))]

    def _searched(self, search: CtcDecoder, logits: np.ndarray, is_window: bool) -> Recognition:
        if not self._warned and says_nothing(logits).any():
            self._warned = True
            deco_print("Some logits are NaN or infinite, so the model may have diverged: such frames are decoded as "
                       "blanks.")
        hypotheses = search.decode(logits)
        if not self._wants_times:
            return Recognition(hypotheses[0].text, None, None, hypotheses)
        timed = hypotheses if is_window else hypotheses[:1]
        words = [self._in_seconds(search.words(logits, hypothesis)) for hypothesis in timed]
        return Recognition(hypotheses[0].text, words[0], None, hypotheses, words if words[1:] else None)

    @property
    def _gives_times(self) -> bool:
        """Whether times of words can be computed: with CTC, not with attention."""
        return not self._dumps_logits and (self._searches or self.decoder.tells_times)

    @property
    def _wants_times(self) -> bool:
        if self.mode == "interactive_infer":
            return self._gives_times
        return self.mode == "infer" and (self.params["write_word_times"] or self.data_layer.has_windows
                                         or self.params["transcript_format"] != CSV and self._gives_times)

    @property
    def _window_seconds(self) -> int:
        return self.params["window_seconds"] if self._gives_times else 0

    @functools.cached_property
    def _symbols(self) -> Symbols:
        return Symbols(self.data_layer.alphabet.labels)

    def _greedy_words(self, values: list[np.ndarray], row: int) -> list[SpokenWord] | None:
        if not self._wants_times:
            return None
        ids, lengths, starts, ends, confidences = values
        length = lengths[row]
        times = Alignment(starts[row, :length], ends[row, :length], confidences[row, :length])
        return self._in_seconds(words_of(self._symbols, ids[row, :length].tolist(), times))

    def _in_seconds(self, words: list[Word]) -> list[SpokenWord]:
        step = self.step_seconds
        return [SpokenWord(word.text, word.start * step, word.end * step, word.confidence, word.has_space)
                for word in words]


def _row(outputs: list[np.ndarray], row: int) -> np.ndarray:
    """Returns the ids ``[time]`` of one utterance, cut to its length if the decoder returns lengths."""
    return outputs[0][row, :outputs[1][row]] if len(outputs) > 1 else outputs[0][row]


_SHOWN = 10  # number of transcripts that are also printed
_SUFFIX = re.compile(r"(?<=.)\.[^\W\d]\w*(?=(@[\d.]+)?$)")  # before the offset of a segment, if there is one


class _RecordingsWriter(ResultWriter):
    """Base class of writers that write each result with the name of its recording."""

    def __init__(self, output_file: str, name_of: Callable[[int], str]) -> None:
        super().__init__()
        self._output, self._name_of = output_file, name_of
        self._count = 0
        self._recording_of: Callable[[int], int] = int
        self._join: Callable[[list[int], list[Any]], Any] | None = None
        self._windows: list[tuple[int, Any]] = []  # of the recording whose next window is awaited

    def join_windows(self, recording_of: Callable[[int], int], join: Callable[[list[int], list[Any]], Any]) -> None:
        """Makes the writer join the results of examples that are windows of one recording.

        Args:
          recording_of: function from an example to the number of its recording, which never falls.
          join: function from the examples of a recording and their results to the result of the recording.
        """
        self._recording_of, self._join = recording_of, join

    def write(self, example: int, result: Any) -> None:
        if self._windows and self._recording_of(self._windows[-1][0]) != self._recording_of(example):
            self._write_recording()
        self._windows.append((example, result))
        if self._join is None:
            self._write_recording()

    def _write_recording(self) -> None:
        examples, results = [example for example, _ in self._windows], [result for _, result in self._windows]
        self._windows = []
        self._count += 1
        result = self._join(examples, results) if self._join is not None and results[1:] else results[0]
        self._write(self._name_of(examples[0]), result)

    def _write(self, name: str, result: Any) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        if self._windows:
            self._write_recording()
        if not self._count:
            raise DataError("No recording could be used: there is nothing to write.")


class TranscriptWriter(_RecordingsWriter):
    """Writes transcripts as CSV (columns wav_filename and predicted_transcript), and prints the first ones at the end.

    Args:
      output_file: path of the CSV file.
      name_of: function that returns the name of an example's recording.
      words: whether to write ``<output>.words.csv``, with each word's start and end in seconds and its confidence.
      lists: whether to write ``<output>.n_best.tsv``, with the best hypotheses; see ``decoding.n_best``.
    """

    def __init__(self, output_file: str, name_of: Callable[[int], str], words: bool, lists: bool) -> None:
        super().__init__(output_file, name_of)
        self._with_words, self._with_lists = words, lists
        self._first: list[tuple[str, str]] = []

    def begin(self) -> None:
        self._texts = self._table(self._output, ("wav_filename", "predicted_transcript"))
        if self._with_words:
            self._words = self._table(beside(self._output, ".words.csv"),
                                      ("wav_filename", "word", "start_time", "end_time", "confidence"))
        if self._with_lists:
            self._lists = self._table(beside(self._output, ".n_best.tsv"), HEADER, "\t")

    def _table(self, path: str, header: Sequence[str], delimiter: str = ",") -> Any:
        writer = csv.writer(self.outputs.open(path, newline=""), delimiter=delimiter, lineterminator="\n")
        writer.writerow(header)
        return writer

    def _write(self, name: str, result: Any) -> None:
        self._texts.writerow((name, result.text))
        if self._with_words:
            self._words.writerows((name, word.text, f"{word.start:.3f}", f"{word.end:.3f}", f"{word.confidence:.4f}")
                                  for word in result.words or ())
        if self._with_lists:
            self._lists.writerows(rows_of(name, result.n_best or ()))
        if len(self._first) < _SHOWN:
            self._first.append((name, result.text))

    def finish(self) -> None:
        super().finish()
        for name, text in self._first:
            deco_print(f"{name}: {text}", offset=1)


class SubtitleWriter(_RecordingsWriter):
    """Writes a file for each recording; see ``subtitles.formatted``.

    If the output is a stream such as stdout, or a file whose name ends with the format, it becomes one file, which
    holds one recording, or with ``json`` a line for each. Otherwise it becomes a folder of files.

    Args:
      output_file: path of the file or folder.
      name_of: function that returns the name of an example's recording.
      format: ``srt``, ``vtt`` or ``json``.
      count: number of recordings.

    Raises:
      UserError: there are several recordings for one file of subtitles.
    """

    def __init__(self, output_file: str, name_of: Callable[[int], str], format: str, count: int) -> None:
        super().__init__(output_file, name_of)
        self._format = format
        self._is_file = passes_through(output_file) or Path(output_file).suffix.lower() == f".{format}"
        self._taken: set[str] = set()
        if self._is_file and count > 1 and format in TIMED_FORMATS:
            raise UserError(f"One file of subtitles is for one recording, but there are {count:,}: give the name of a "
                            f"folder for the results, without .{format}.")

    def begin(self) -> None:
        if self._is_file:
            self._file = self.outputs.open(self._output)
        else:
            self._folder = self.outputs.folder(self._output)

    def _write(self, name: str, result: Any) -> None:
        content = formatted(result, self._format, name)
        if self._is_file:
            self._file.write(content)
            return
        stem = _SUFFIX.sub("", Path(name).name)
        names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
        unique = next(one for one in names if one not in self._taken)
        self._taken.add(unique)
        disk.write_new(self._folder / f"{unique}.{self._format}", content)


class DumpWriter(_RecordingsWriter):
    """Writes logits; see ``decoding.ctc.logits_file``.

    Args:
      output_file: path of the file; with the suffix ``.pickle`` or ``.pkl``, a pickled dict is written, otherwise an
        ``.npz`` archive.
      name_of: function that returns the name of an example's recording, which must be unique.
      labels: the alphabet without the blank.
      step_seconds: time between two frames of the logits, in seconds.
      normalization: the data layer's parameters for normalising transcripts.
    """

    def __init__(self, output_file: str, name_of: Callable[[int], str], labels: Sequence[str], step_seconds: float,
                 normalization: Mapping[str, Any]) -> None:
        super().__init__(output_file, name_of)
        self._described = labels, step_seconds, normalization

    def begin(self) -> None:
        self._dump = LogitsFile(self.outputs.open(self._output, "wb"), is_pickle(self._output))

    def _write(self, name: str, result: Any) -> None:
        self._dump.write(name, result.logits)

    def finish(self) -> None:
        super().finish()
        self._dump.finish(*self._described)
