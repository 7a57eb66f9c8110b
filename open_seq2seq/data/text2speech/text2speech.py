"""The data layer for speech synthesis: texts, and the spectrograms of recordings of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.files import ASSET, LIST
from open_seq2seq.config.params import FREE, REFUSE, Param
from open_seq2seq.data.audio.audio_files import AudioError
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.data.fields import Field
from open_seq2seq.data.speech2text.recordings import Problem
from open_seq2seq.data.static_shapes import with_empty_row
from open_seq2seq.data.text2speech.clip_layer import (
    RATES,
    ClipDataLayer,
    Recorded,
    clip_params,
    padded,
    spectrogram_params,
)
from open_seq2seq.data.text2speech.clips import UNUSED, Clip, frames_of, mismatch, read_clips
from open_seq2seq.data.text2speech.front_end import sentences, spoken_at
from open_seq2seq.data.text2speech.symbols import CharacterSymbols, EspeakSymbols, PhonemeSymbols, Symbols
from open_seq2seq.parts.speakers import Speakers
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import shown
from open_seq2seq.utils.errors import ConfigError, DataError
from open_seq2seq.utils.given_files import one_text

PAD, START, END = 0, 1, 2
"""Ids of the special symbols ``<p>``, ``<s>`` and ``</s>``."""
_SPECIAL = 3
_SHOWN = 10  # maximum number of guessed words that are printed


class Text2SpeechDataLayer(ClipDataLayer):
    """Texts and the spectrograms of clips in which they are spoken, from lists in the layout of LJSpeech.

    A batch has ``source_tensors`` ``[ids [batch, text], lengths [batch]]`` in symbols and, except in inference,
    ``target_tensors`` ``[spectrogram [batch, frames, features], stop [batch, frames], lengths [batch]]`` in frames.
    In inference, batches also have ``speeds`` ``[batch]``, those that texts give, such as ``[speed 0.8]``.
    With ``output_type`` both, the features are those of mel followed by magnitude. ``stop`` is 1 from the first frame
    of padding. With ``style_input``, ``source_tensors`` also have ``[mel [batch, frames, mels], lengths [batch]]`` of
    a style recording. With ``durations``, ``target_tensors`` also have the number of frames of each symbol ``[batch,
    text]``, which add up to the length of the spectrogram; its padding belongs to ``</s>``. With several ``speakers``,
    batches also have ``speakers`` ``[batch]``, their numbers. Texts are converted to lower case, unless the vocabulary
    has upper-case letters.

    Attributes:
      vocabulary: the symbols of ``vocab_file``.
      speakers: the names of the speakers.
      pauses: for each example, the number of the text of which it is a sentence, and the seconds of silence after it;
        None without lists.

    Raises:
      ConfigError: parameters contradict each other.
      DataError: a list or recording is missing or cannot be used, or no clips are left.
    """

    reads_lines = True

    def __init__(self, params: Mapping[str, Any], model: Any = None, name: str = "data_layer",
                 mode: str | None = None) -> None:
        super().__init__(params, model, name, mode)
        self.vocabulary = self._make_vocabulary()
        self.speakers = Speakers(self.params["speakers"], f"{self.params_path}/speakers")
        if self.params["speaker"] is not None and (problem := self.speakers.problem(self.params["speaker"])):
            raise ConfigError([f"'{self.params_path}/speaker': {problem}"])
        self.pauses: list[tuple[int, float]] | None = None
        self._ids: list[np.ndarray] = []
        self._speeds = np.ones([0], np.float32)
        self._speaker_numbers = np.zeros([0], np.int32)
        self._of_one_speed = ""
        self._open_lists()

    def _make_vocabulary(self) -> Symbols:
        path, language = self.params["vocab_file"], self.params["espeak_language"]
        if self.params["symbols"] == "phonemes":
            if language is not None:
                raise ConfigError([f"'{self.params_path}/espeak_language' has no meaning with symbols phonemes: leave "
                                   "it out, or set symbols to characters."])
            return PhonemeSymbols(path, self.params["pronunciations"])
        return CharacterSymbols(path) if language is None else EspeakSymbols(path, language)

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            "dataset": Param(list(RATES), doc="Layout and defaults of the recordings. LJ: 22,050 Hz, n_fft 1024. "
                             "MAILABS: 16,000 Hz, n_fft 800.", on_change=REFUSE),
            "num_audio_features": Param((int, dict), doc="Number of features per frame, or a dict with mel and "
                                        "magnitude, which output_type both needs.", minimum=1, maximum=10**5,
                                        on_change={"": REFUSE}),
            "output_type": Param(["magnitude", "mel", "both"], doc="Spectrogram that the model learns.",
                                 on_change=REFUSE),
            "vocab_file": Param(str, doc="File with one character or phoneme per line; their ids begin at 3.",
                                file=ASSET),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **DataLayer.get_optional_params(), **clip_params(),
            "dataset_files": Param(list, [], "Lists with lines name|text, name|text|normalised text, or aligned: "
                                   "name|text|symbols|seconds; in inference, the name is that of a style recording or "
                                   "UNUSED.", file=LIST),
            "speakers": Param(list, [], "Names of the speakers, if there are several: the second column of the lists "
                              "then names the speaker of each clip.", on_change=REFUSE),
            "speaker": Param((str, type(None)), None, "In inference: speaker of the texts that name none; by default "
                             "the first one. [speaker NAME] in a text names that of what follows.", on_change=FREE),
            "symbols": Param(["characters", "phonemes"], "characters", "What the model reads: the characters of texts, "
                             "or phonemes, from the third column of aligned lists or from pronunciations.",
                             on_change=REFUSE),
            "pronunciations": Param((str, type(None)), None, "For phonemes: file with lines such as hello HH AH L OW. "
                                    "Words that are not in it are guessed.", file=ASSET, on_change=FREE),
            "espeak_language": Param((str, type(None)), None, "For characters: language, such as en-us, in which "
                                     "espeak-ng turns texts into characters of the International Phonetic Alphabet, "
                                     "which vocab_file lists; needs the extra espeak.", on_change=REFUSE),
            "durations": Param(bool, False, "Whether batches of training and evaluation also have the number of frames "
                               "of each symbol, from aligned lists.", on_change=FREE),
            "plain_text": Param(bool, False, "Whether lines without | are texts to speak; set by --infer_files.",
                                derived=True, on_change=FREE),
            "sentence_pause": Param((float, type(None)), 0.3, "In inference, the silence between the sentences of a "
                                    "text, which are spoken one by one; [pause 0.4] in a text sets it there. None: "
                                    "texts are spoken as a whole.", "seconds", minimum=0.0, maximum=60.0,
                                    on_change=FREE),
            "style_input": Param([None, "wav"], None, "wav: sources also contain the mel spectrogram of a style "
                                 "recording; in training, that of the clip itself. Not needed with the encoder's "
                                 "style_weights.", on_change=FREE),
            "pad_EOS": Param(bool, True, "Whether texts begin with <s> and end with </s>, and texts and spectrograms "
                             "are padded to a multiple of pad_to, with at least one frame of padding.",
                             on_change=REFUSE),
            "pad_to": Param(int, 8, "With pad_EOS, multiple for the numbers of symbols and frames.", "frames",
                            minimum=1, maximum=10**4, on_change=REFUSE),
            "pad_value": Param((float, type(None)), None, "Value of padding frames; by default, that of silence: the "
                               "logarithm of data_min.", on_change=REFUSE),
            "n_samples_train": Param((int, type(None)), None, "Number of clips of training to keep, those with the "
                                     "shortest texts.", "clips", minimum=1),
            "n_samples_eval": Param((int, type(None)), None, "Number of clips of evaluation to keep, those with the "
                                    "shortest texts.", "clips", minimum=1),
            **spectrogram_params(),
        }

    @property
    def _reads_recordings(self) -> bool:
        return self._has_targets or self.params["style_input"] is not None

    @property
    def _has_durations(self) -> bool:
        return self._has_targets and self.params["durations"]

    def _read_lists(self) -> None:
        """Reads the lists and the headers of the recordings, and leaves out the clips that cannot be used."""
        params = self.params
        clips = read_clips(params["dataset_files"], params["dataset_location"], params["plain_text"],
                           bool(self.speakers.names))
        pauses = [(number, 0.0) for number in range(len(clips))]
        if not self._has_targets:
            parts = [(replace(clip, text=text), (number, pause)) for number, clip in enumerate(clips)
                     for text, pause in ([(clip.text, 0.0)] if self._is_listed(clip) else self.divided(clip.text))]
            clips, pauses = [clip for clip, _ in parts], [pause for _, pause in parts]
        problems: dict[int, Problem] = {}
        ids = [self._encoded(number, clip, problems) for number, clip in enumerate(clips)]
        frames, rates = np.zeros([2, len(clips)], np.int64)
        if self._reads_recordings:
            frames, rates = self._read_frames(clips, problems)
        self._report(problems)
        rows = [row for row in range(len(clips)) if row not in problems]
        if self._has_targets:
            rows, count = self._within_durations(rows, frames), self.params[f"n_samples_{self.mode}"]
            if count is not None:
                rows = sorted(sorted(rows, key=lambda row: len(ids[row]))[:count])
        self._check_left(rows, problems)
        self._clips, self._ids = [clips[row] for row in rows], [ids[row] for row in rows]
        self._frames, self._rates = frames[rows], rates[rows]
        self.pauses = [pauses[row] for row in rows]
        self._speeds = np.asarray([spoken_at(clip.text).speed for clip in self._clips], np.float32)
        self._speaker_numbers = np.asarray([self._speaker_number(clip) for clip in self._clips], np.int32)

    def refuse_speeds(self, decoder: str) -> None:
        """Makes texts with a speed an error, for a decoder of this name, which has only one.

        Raises:
          DataError: a text of the lists has one.
        """
        self._of_one_speed = decoder
        if not self._has_targets:
            self._check_speeds(self._speeds)

    def _check_speeds(self, speeds: np.ndarray) -> None:
        if self._of_one_speed and (speeds != 1.0).any():
            raise DataError(f"A text has [speed {speeds[speeds != 1.0][0]:g}], but {self._of_one_speed} predicts no "
                            "durations, so its speed cannot be set: leave it out, or train a model that predicts them.")

    def _speaker_number(self, clip: Clip) -> int:
        """Returns the number of the speaker of a clip; in inference, a text can name another than its line.

        Raises:
          DataError: in inference, there is no such speaker.
        """
        listed = "" if clip.speaker == UNUSED and not self._has_targets else clip.speaker
        try:
            return self._number_of(listed if self._has_targets else spoken_at(clip.text).speaker or listed)
        except DataError as error:
            raise DataError(f"{clip.place}: {error}") from error

    def _number_of(self, name: str) -> int:
        """Returns the number of a speaker by name; without a name, that of the parameter ``speaker``."""
        name = name or self.params["speaker"] or ""
        return self.speakers.number(name) if name else 0

    def divided(self, given: Any) -> list[tuple[Any, float]]:
        """Returns the sentences of a text or of a pair (text, path), each with the seconds of silence after it.

        Raises:
          DataError: the input is neither.
        """
        text, *style = given if isinstance(given, (tuple, list)) and len(given) == 2 else (given,)
        if not isinstance(text, str):
            raise DataError(f"A text to speak must be a string, got a value of type {type(text).__name__}.")
        if self.params["sentence_pause"] is None:
            return [(given, 0.0)]
        return [((one.text, *style) if style else one.text, one.pause)
                for one in sentences(text, self.params["sentence_pause"])]

    def _encoded(self, number: int, clip: Clip, problems: dict[int, Problem]) -> np.ndarray:
        """Returns the ids of a clip's text; in training and evaluation, unknown symbols are a problem."""
        symbols = self._symbols(clip)
        if self._has_targets and not symbols:
            problems[number] = Problem(clip.place, clip.name, "empty text", "has an empty text")
        elif self._has_targets and self.speakers.names and clip.speaker not in self.speakers.names:
            problems[number] = Problem(clip.place, clip.name, "unknown speakers", f"has the speaker "
                                       f"{clip.speaker!r:.60}, but the speakers are {self.speakers.listed}")
        elif self._has_targets and (unknown := self.vocabulary.unknown(symbols)):
            problems[number] = Problem(clip.place, clip.name, "unknown symbols", f"has "
                                       f"{self.vocabulary.describe(unknown)} ({self.params['vocab_file']})")
        return self._padded_ids(symbols)

    def _symbols(self, clip: Clip) -> list[str]:
        """Returns the symbols that the model reads, from the third column of aligned lists where they are needed."""
        if self._has_durations and not clip.symbols:
            raise DataError(f"{clip.place}: the line has no durations, but durations is True: write aligned lists of "
                            "name|text|symbols|seconds, or set it to False.")
        if self._is_listed(clip):
            return self.vocabulary.listed(clip.symbols)
        return self.vocabulary.split(clip.text if self._has_targets else spoken_at(clip.text).text)

    def _is_listed(self, clip: Clip) -> bool:
        """Returns whether the model reads the symbols in the list instead of the text."""
        return bool(clip.symbols) and (self._has_durations or self.params["symbols"] == "phonemes")

    def _padded_ids(self, symbols: Sequence[str]) -> np.ndarray:
        """Returns ids ``[text]`` with the special ones, leaving out symbols that are not in the vocabulary."""
        ids = np.asarray(self.vocabulary.ids(symbols), np.int32) + _SPECIAL
        if not self.params["pad_EOS"]:
            return ids if len(ids) else np.asarray([PAD], np.int32)  # networks need a symbol
        ids = np.concatenate([[START], ids, [END]]).astype(np.int32)
        return np.pad(ids, (0, self.params["pad_to"] - len(ids) % self.params["pad_to"]))

    def _read_frames(self, clips: Sequence[Clip], problems: dict[int, Problem]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the number of frames of each recording before trimming, and its rate in Hz; 0 if it has none."""
        samples, rates = self._read_headers(clips, problems)
        frames = np.zeros_like(samples)
        for row, clip in enumerate(clips):
            if not clip.path and not self._has_targets:
                continue
            frames[row] = self._padded_frames(self.settings.frames(int(samples[row])))
            if self._has_durations and row not in problems:
                detail = mismatch(clip.seconds, samples[row] / self.settings.sample_freq, self._frame_seconds)
                if detail:
                    problems[row] = Problem(clip.place, clip.name, "durations of another length", detail)
        return frames, rates

    def _padded_frames(self, frames: int) -> int:
        if not self.params["pad_EOS"]:
            return frames
        return frames + self.params["pad_to"] - (frames + 1) % self.params["pad_to"] + 1

    @property
    def lengths(self) -> np.ndarray:
        """Numbers of symbols and, where read, of frames before trimming ``[num_examples, groups of arrays]``."""
        sides = int(self.params["style_input"] is not None) + int(self._has_targets)
        symbols = np.asarray([len(ids) for ids in self._ids], np.int64)
        return np.stack([symbols, *[self._frames] * sides], 1)

    @property
    def fields(self) -> dict[str, Any]:
        lengths = Field(tf.int32, (None,))
        source = [Field(tf.int32, (None, None), 1, 1), lengths]
        if self.params["style_input"] is not None:
            source += [Field(tf.float32, (None, None, self.settings.mel_columns), 1, 3), lengths]
        fields: dict[str, Any] = {"source_tensors": source, "ids": Field(tf.int64, (None,))}
        if self._has_targets:
            columns = self.settings.num_columns
            fields["target_tensors"] = [Field(tf.float32, (None, None, columns), 1, 2),
                                        Field(tf.float32, (None, None), 1, 2), lengths]
            if self._has_durations:
                fields["target_tensors"].append(Field(tf.int32, (None, None), 1, "source_tensors/1"))
        else:
            fields["speeds"] = Field(tf.float32, (None,))
        if self.speakers.are_several:
            fields["speakers"] = Field(tf.int32, (None,))
        return fields

    def make_batch(self, examples: np.ndarray) -> dict[str, Any]:
        """Returns the padded batch of the clips with these numbers ``[batch]``.

        Raises:
          DataError: a recording cannot be used; with ``on_bad_example: skip``, only if those of all clips are bad.
        """
        examples = np.asarray(examples, np.int64)
        recorded: list[Recorded] = []
        if self._reads_recordings:
            good, recorded = self._recorded_of(examples)
            examples = examples[good]
        batch = self._batch([self._ids[example] for example in examples], [one.spectrogram for one in recorded])
        if self._has_durations:
            rows = [self._durations_of(int(example), one) for example, one in zip(examples, recorded, strict=True)]
            batch["target_tensors"].append(padded(rows, np.zeros([], np.int32))[0])
        if not self._has_targets:
            batch["speeds"] = self._speeds[examples]
        if self.speakers.are_several:
            batch["speakers"] = self._speaker_numbers[examples]
        batch["ids"] = examples
        return batch if len(examples) else with_empty_row(batch, self.fields)

    def _durations_of(self, example: int, recorded: Recorded) -> np.ndarray:
        """Returns the number of frames of each id ``[text]`` of a clip."""
        frames = len(recorded.spectrogram)
        durations = frames_of(self._clips[example].seconds, frames, self._frame_seconds, recorded.start)
        if not self.params["pad_EOS"]:
            return durations
        durations = np.concatenate([[0], durations, [self._padded_frames(frames) - frames]])
        return np.pad(durations, (0, len(self._ids[example]) - len(durations)))

    def _batch(self, ids: Sequence[np.ndarray], spectrograms: Sequence[np.ndarray]) -> dict[str, Any]:
        """Returns the arrays of a batch from ids ``[text]`` and spectrograms ``[frames, features]`` of each clip."""
        batch: dict[str, Any] = {"source_tensors": padded(ids, np.zeros([], np.int32))}
        if self.params["style_input"] is not None:
            mels = [values[:, :self.settings.mel_columns] for values in spectrograms]
            batch["source_tensors"] += self._padded(mels, self._padding[:self.settings.mel_columns])[::2]
        if self._has_targets:
            batch["target_tensors"] = self._padded(spectrograms, self._padding)
        return batch

    @property
    def _padding(self) -> np.ndarray:
        """The values of a frame of padding ``[features]``."""
        value = self.params["pad_value"]
        return self.settings.padding if value is None else np.full_like(self.settings.padding, value)

    def _padded(self, spectrograms: Sequence[np.ndarray], padding: np.ndarray) -> list[np.ndarray]:
        """Returns padded spectrograms ``[batch, frames, features]``, stop targets and lengths."""
        lengths = np.asarray([self._padded_frames(len(values)) for values in spectrograms], np.int32)
        longest = lengths.max(initial=0)
        values = np.tile(padding.astype(np.float32), [len(spectrograms), longest, 1])
        stop = np.ones([len(spectrograms), longest], np.float32)
        for row, one in enumerate(spectrograms):
            values[row, :len(one)] = one
            stop[row, :len(one) if self.params["pad_EOS"] else len(one) - 1] = 0.0
        return [values, stop, lengths]

    def make_interactive_batch(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """Returns a batch of texts or, with ``style_input``, of pairs (text, path of the style recording).

        Raises:
          DataError: an input is not a text, or names an unknown speaker, or its style recording cannot be used.
        """
        texts, spectrograms, speeds, speakers = [], [], [], []
        for given in inputs:
            text, style = given if isinstance(given, (tuple, list)) and len(given) == 2 else (given, None)
            if not isinstance(text, str):
                raise DataError(f"A text to speak must be a string, got a value of type {type(text).__name__}.")
            if self.params["style_input"] is not None:
                spectrograms.append(self._style(style))
            spoken = spoken_at(text)
            speeds.append(spoken.speed)
            speakers.append(self._number_of(spoken.speaker))
            symbols = self.vocabulary.split(spoken.text)
            if unknown := self.vocabulary.unknown(symbols):
                deco_print(f"WARNING: left out are {self.vocabulary.describe(unknown)}.")
            texts.append(self._padded_ids(symbols))
        for line in self._guesses():
            deco_print(line)
        self._check_speeds(np.asarray(speeds))
        batch = {**self._batch(texts, spectrograms), "speeds": np.asarray(speeds, np.float32),
                 "ids": np.arange(len(texts))}
        return {**batch, "speakers": np.asarray(speakers, np.int32)} if self.speakers.are_several else batch

    def _style(self, path: Any) -> np.ndarray:
        if not isinstance(path, (str, os.PathLike)):
            raise DataError("The model needs a style recording for each text: give pairs (text, path of a recording).")
        try:
            return self._computed(os.fspath(path)).spectrogram
        except AudioError as error:
            raise DataError(f"The style recording {path} {error.detail}.") from error

    def by_speaker(self, given: Any, speaker: str) -> Any:
        """Returns a text, or a pair (text, path), that says by whom it is spoken.

        Raises:
          DataError: there is no such speaker.
        """
        self.speakers.number(speaker)
        text, *style = given if isinstance(given, (tuple, list)) and len(given) == 2 else (given,)
        text = f"[speaker {speaker}] {text}" if isinstance(text, str) else text
        return (text, *style) if style else text

    def interactive_examples(self, count: int) -> list[Any]:
        """Returns sentences of the texts of the data set."""
        return [sentence for clip in self._clips[:count] for sentence, _ in self.divided(clip.text)][:count]

    def interactive_lengths(self, inputs: Sequence[Any]) -> np.ndarray:
        return np.asarray([len(given[0] if isinstance(given, (tuple, list)) else given) for given in inputs], np.int64)

    def examine(self) -> list[str]:
        return super().examine() if self._has_targets else [f"{self.num_examples:,} texts"]

    def text(self, example: int) -> str:
        """Returns the text of a clip: that which the model reads, or with phonemes that of the list."""
        text = self._clips[example].text
        if self.params["symbols"] == "phonemes" or self.params["espeak_language"] is not None:
            return text
        return self.vocabulary.join(self.vocabulary.split(text))

    def names_of(self, ids: np.ndarray) -> list[str]:
        """Returns the name of each id of ``ids`` ``[text]``; "" for special symbols."""
        return ["" if number < _SPECIAL else self.vocabulary.labels[number - _SPECIAL] for number in ids]

    def text_of(self, ids: np.ndarray) -> str:
        """Returns the symbols of ids ``[text]`` as a text, without special symbols."""
        return self.vocabulary.join(self.vocabulary.labels[number - _SPECIAL] for number in ids[ids >= _SPECIAL])

    @property
    def vocab_size(self) -> int:
        """Number of ids: the special symbols and those of the vocabulary."""
        return self.vocabulary.size + _SPECIAL

    def remarks(self) -> list[str]:
        """Returns lines about guessed words, symbols left out, speakers without clips, and recordings of low rates."""
        clips = [] if self._has_targets else self._clips
        unknown = self.vocabulary.unknown(symbol for clip in clips for symbol in self._symbols(clip))
        lines = self._guesses()
        if unknown:
            lines.append(f"WARNING: left out {self.vocabulary.describe(unknown)} ({self.params['vocab_file']}).")
        silent = [name for number, name in enumerate(self.speakers.names) if number not in self._speaker_numbers]
        if silent and self.mode == "train":
            lines.append(f"WARNING: training has no clips of {shown(', '.join(silent))}, so their voices are not "
                         "learned.")
        return lines + self._low_rates()

    def _guesses(self) -> list[str]:
        """Returns a line about guessed pronunciations that no line has been about yet."""
        guesses = [f"{word} {phonemes}" for word, phonemes in self.vocabulary.guesses.items()]
        self.vocabulary.guesses.clear()
        more = f" and {len(guesses) - _SHOWN} more" if len(guesses) > _SHOWN else ""
        return [f"WARNING: words without pronunciation are guessed: {shown(', '.join(guesses[:_SHOWN]))}{more}; add "
                "them to pronunciations, or write phonemes in the text, as [[ HH AH L OW ]]."] if guesses else []

    @classmethod
    def params_for_files(cls, files: Sequence[str]) -> dict[str, Any]:
        """Returns the parameters that make inference speak the lines of the given text files.

        Args:
          files: text files with one text per line, or lists; ``-`` is stdin.

        Raises:
          UserError: a file does not exist, or stdin is empty or a device.
        """
        return {"dataset_files": [one_text(files)], "plain_text": True}
