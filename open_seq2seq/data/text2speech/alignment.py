"""Alignments of recordings: which word and which phoneme is spoken when.

They are made here, or read from files that other programs made: TextGrid files of Praat or the Montreal Forced Aligner,
and CTM files.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from open_seq2seq.data.audio.audio_files import AudioError, is_silent, read_audio
from open_seq2seq.data.text2speech.front_end import MARKS, SILENCE, Pronunciations, Token
from open_seq2seq.utils import disk
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError, UserError

_RATE, _FRAME_SECONDS = 16000, 0.01  # of pocketsphinx
_WIDE = {"beam": 1e-150, "pbeam": 1e-150, "wbeam": 1e-150}  # for clips that cannot be aligned with narrow beams
_PAUSES = (SILENCE, *MARKS)
_PHONEMES = ("AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH "
             + SILENCE).split()  # of the acoustic model
_SILENT = {"", "sil", "sp", "<eps>", "silence", "<sil>", "pau"}
_UNKNOWN = {"spn", "<unk>"}
_TIER = re.compile(r'class\s*=\s*"IntervalTier"\s*name\s*=\s*"([^"]*)"(.*?)(?=class\s*=\s*"|\Z)', re.DOTALL)
_INTERVAL = re.compile(r'xmin\s*=\s*([\d.eE+-]+)\s+xmax\s*=\s*([\d.eE+-]+)\s+text\s*=\s*"((?:[^"]|"")*)"')
_POSITION = re.compile(r"_[BIES]$")  # of a phoneme in its word, in the names of Kaldi
_SHORTEST = 1e-4  # seconds of a gap that is not rounding


class AlignedWord(NamedTuple):
    """A word or a pause of a recording.

    Attributes:
      word: the word in lower case; "" for a pause.
      phonemes: its phonemes; ``SIL`` for a pause.
      seconds: their durations.
    """

    word: str
    phonemes: tuple[str, ...]
    seconds: tuple[float, ...]


def columns_of(words: Sequence[AlignedWord], tokens: Sequence[Token], recorded: float) -> tuple[str, str]:
    """Returns the third and fourth column of an aligned list: symbols, and their durations.

    They begin with ``SIL``, whose duration may be 0, and end with a mark. A pause after a word is represented by the
    mark that follows the word in the text, otherwise by ``SIL``; a mark without a pause has the duration 0.

    Args:
      words: the words and pauses of the recording.
      tokens: the words and marks of its text. If the words are not as many as those of the alignment, marks are used
        only at the end.
      recorded: duration of the recording in seconds, with which the last symbol ends.
    """
    symbols, seconds = [SILENCE], [0.0]
    marks = _marks_after(tokens, sum(bool(item.word) for item in words))
    for item in words:
        if item.word:
            mark = next(marks)
            symbols += [*item.phonemes, *([mark] if mark else [])]
            seconds += [*item.seconds, *([0.0] if mark else [])]
        elif symbols[-1] in _PAUSES:
            seconds[-1] += sum(item.seconds)
        else:
            symbols.append(SILENCE)
            seconds.append(sum(item.seconds))
    seconds[-1] = max(0.0, seconds[-1] + recorded - sum(seconds))
    return " ".join(symbols), " ".join(f"{value:.4f}".rstrip("0").rstrip(".") for value in seconds)


def _marks_after(tokens: Sequence[Token], count: int) -> Iterator[str]:
    """Returns an iterator of the mark after each of ``count`` words, "" if there is none."""
    following = [*tokens[1:], Token("mark", "")]
    marks = [after.text if after.kind == "mark" else "" for token, after in zip(tokens, following, strict=True)
             if token.kind != "mark"]
    return iter(marks if len(marks) == count else [""] * (count - 1) + marks[-1:])


def most_frequent(alignments: Iterable[Sequence[AlignedWord]]) -> dict[str, tuple[str, ...]]:
    """Returns for each word the pronunciation that is spoken most often."""
    counts: dict[str, Counter[tuple[str, ...]]] = {}
    for words in alignments:
        for item in words:
            if item.word:
                counts.setdefault(item.word, Counter())[item.phonemes] += 1
    return {word: counter.most_common(1)[0][0] for word, counter in counts.items()}


class Aligner:
    """Aligns recordings with the acoustic model of pocketsphinx for American English.

    Args:
      pronunciations: pronunciations of all words.
      words: all words, in lower case.

    Raises:
      UserError: pocketsphinx is not installed.
    """

    def __init__(self, pronunciations: Pronunciations, words: Iterable[str]) -> None:
        self._dictionary = os.path.join(disk.process_folder(), "words.dict")
        with disk.writing(self._dictionary, disk.always) as file:
            file.write("".join(f"{line}\n" for line in pronunciations.lines(words)).encode())
        self._decoders: dict[bool, Any] = {}

    def align(self, path: str, words: Sequence[str]) -> tuple[list[AlignedWord], float]:
        """Aligns a recording.

        Args:
          path: the recording.
          words: the words that are spoken in it, in lower case.

        Returns:
          The words and pauses, and the duration of the recording in seconds.

        Raises:
          AudioError: the recording cannot be read, is silent, or does not fit the words.
        """
        audio = read_audio(path, _RATE)
        if is_silent(audio):
            raise AudioError("silent", "is silent")
        samples = (np.clip(audio, -1.0, 1.0) * 32767).astype(np.int16).tobytes()
        for is_wide in (False, True):
            try:
                return self._aligned(samples, words, is_wide), len(audio) / _RATE
            except RuntimeError:
                self._decoders.pop(is_wide)  # a decoder that failed is within an utterance
        raise AudioError("not aligned", "could not be aligned: its text is perhaps not what is spoken")

    def _aligned(self, samples: bytes, words: Sequence[str], is_wide: bool) -> list[AlignedWord]:
        """Finds the words, then their phonemes; raises RuntimeError if that fails."""
        if is_wide not in self._decoders:
            # The search for the best path would shorten words so much that their phonemes do not fit.
            self._decoders[is_wide] = _pocketsphinx().Decoder(
                lm=None, dict=self._dictionary, loglevel="FATAL", bestpath=False, **(_WIDE if is_wide else {}))
        decoder = self._decoders[is_wide]
        decoder.set_align_text(" ".join(words))
        _decode(decoder, samples)
        if decoder.hyp() is None:
            raise RuntimeError("The words do not fit.")
        decoder.set_alignment()
        _decode(decoder, samples)
        result = []
        for item in decoder.get_alignment().words():
            phonemes = [(phoneme.name, phoneme.duration * _FRAME_SECONDS) for phoneme in item]
            is_pause = item.name.startswith(("<", "["))
            result.append(AlignedWord("" if is_pause else item.name.partition("(")[0], *zip(*phonemes, strict=True)))
        if [item.word for item in result if item.word] != list(words):
            raise RuntimeError("Words are missing.")
        return result


def _decode(decoder: Any, samples: bytes) -> None:
    decoder.start_utt()
    decoder.process_raw(samples, full_utt=True)
    decoder.end_utt()


def _pocketsphinx() -> Any:
    try:
        import pocketsphinx
    except ImportError as error:
        raise UserError("Recordings are aligned by pocketsphinx, which cannot be imported: run `pip install "
                        "open-seq2seq[align]`, or give the alignments of another aligner.") from error
    return pocketsphinx


def with_model_phonemes(pronunciations: Pronunciations, source: str) -> Pronunciations:
    """Returns a user's pronunciations in the phonemes of the aligner's acoustic model, which have no digits of stress.

    Args:
      pronunciations: the pronunciations.
      source: the file that they are from.

    Raises:
      DataError: the model does not know a phoneme.
    """
    result = pronunciations.without_stress()
    if unknown := result.unknown(_PHONEMES):
        word, phoneme = unknown
        raise DataError(f"{shown(source)}: the pronunciation of {shown(word)!r} has the phoneme {shown(phoneme)!r}, "
                        f"but the aligner knows only {' '.join(_PHONEMES)}.")
    return result


def pocketsphinx_pronunciations() -> Pronunciations:
    """Returns the English dictionary of pocketsphinx, which is based on CMUdict.

    Raises:
      UserError: pocketsphinx is not installed.
    """
    return Pronunciations.read(_pocketsphinx().get_model_path("en-us/cmudict-en-us.dict"))


def to_record(words: Sequence[AlignedWord]) -> list[list[Any]]:
    """Returns an alignment as lists for JSON; see ``from_record``."""
    return [[item.word, " ".join(item.phonemes), [round(value, 4) for value in item.seconds]] for item in words]


def from_record(record: Sequence[Sequence[Any]]) -> list[AlignedWord]:
    """Returns the alignment of a record; see ``to_record``."""
    return [AlignedWord(word, tuple(phonemes.split()), tuple(seconds)) for word, phonemes, seconds in record]


def is_pronounced(words: Sequence[AlignedWord], pronunciations: Mapping[str, Sequence[tuple[str, ...]]]) -> bool:
    """Returns whether the pronunciations of all words are among the given ones."""
    return all(item.phonemes in pronunciations.get(item.word, ()) for item in words if item.word)


class Interval(NamedTuple):
    """A part of a recording.

    Attributes:
      start, end: in seconds.
      label: the phoneme, or the word.
    """

    start: float
    end: float
    label: str


def read_text_grid(path: str) -> list[AlignedWord]:
    """Reads a TextGrid file in the long text form, with a tier ``phones`` and, if possible, a tier ``words``.

    Raises:
      DataError: the file is missing, not UTF-8, or has no such tier, or a word has no phonemes.
    """
    text = "\n".join(read_lines(path, "The TextGrid"))
    tiers = {name.rpartition(" - ")[2].strip().lower(): [
        Interval(float(start), float(end), label.replace('""', '"').strip())
        for start, end, label in _INTERVAL.findall(content)] for name, content in _TIER.findall(text)}
    if not tiers.get("phones"):
        raise DataError(f"{shown(path)} has no tier 'phones' with intervals: save the TextGrid as a text file in the "
                        "long form.")
    words = [word for word in tiers.get("words", []) if word.label.lower() not in _SILENT]
    return _aligned(tiers["phones"], words, path)


def read_ctm(path: str) -> dict[str, list[AlignedWord]]:
    """Reads a CTM file with a line ``recording channel start duration phoneme`` for each phoneme.

    Returns:
      Dict of recording → its phonemes, with pauses between them. As words are not known, all phonemes between pauses
      are those of one word.

    Raises:
      DataError: the file is missing, not UTF-8 or empty, or a line is not such a line.
    """
    intervals: dict[str, list[Interval]] = {}
    for number, line in enumerate(read_lines(path, "The CTM file"), 1):
        columns = line.split()
        if not columns or line.startswith(";;"):
            continue
        try:
            start, duration = float(columns[2]), float(columns[3])
            label = _POSITION.sub("", columns[4])
        except (IndexError, ValueError) as error:
            raise DataError(f"{shown(path)}:{number}: the line {shown(line[:60])!r} must be: recording channel start "
                            "duration phoneme.") from error
        intervals.setdefault(columns[0], []).append(Interval(start, start + duration, label))
    if not intervals:
        raise DataError(f"{shown(path)} has no alignments.")
    return {name: _aligned(sorted(some), [], f"{path} ({name})") for name, some in intervals.items()}


def alignments_of(path: str, names: Iterable[str]) -> Mapping[str, list[AlignedWord]]:
    """Reads the alignments of recordings from a CTM file, or from a folder with a file ``name.TextGrid`` of each.

    Returns:
      Dict of name → alignment; recordings without one are left out.
    """
    if not os.path.isdir(path):
        return read_ctm(path)
    files = {name: os.path.join(path, f"{name}.TextGrid") for name in names}
    return {name: read_text_grid(file) for name, file in files.items() if os.path.exists(file)}


def _aligned(phones: list[Interval], words: list[Interval], path: str) -> list[AlignedWord]:
    """Returns phonemes as words and pauses; gaps are pauses."""
    result: list[AlignedWord] = []
    for word, group in itertools.groupby(_without_gaps(phones), lambda phone: _word_of(phone, words)):
        inside = list(group)
        if any(phone.label.lower() in _UNKNOWN for phone in inside):
            raise DataError(f"{shown(path)} has a word without phonemes at {inside[0].start:.2f} seconds: add its "
                            "pronunciation to the dictionary of the aligner.")
        labels = tuple(phone.label for phone in inside) if word is not None else (SILENCE,)
        seconds = tuple(phone.end - phone.start for phone in inside)
        result.append(AlignedWord(word.label.lower() if word else "", labels, seconds if word else (sum(seconds),)))
    return result


def _without_gaps(phones: Iterable[Interval]) -> Iterator[Interval]:
    end = 0.0
    for phone in phones:
        if phone.start > end + _SHORTEST:
            yield Interval(end, phone.start, "")
        # An overlap, from rounding, is given to the first of both.
        yield Interval(min(max(phone.start, end), phone.end), phone.end, phone.label)
        end = max(end, phone.end)


def _word_of(phone: Interval, words: list[Interval]) -> Interval | None:
    """Returns the word of a phoneme, None for a pause; without words, one that stands for all of them."""
    if phone.label.lower() in _SILENT:
        return None
    centre = (phone.start + phone.end) / 2
    return next((word for word in words if word.start <= centre < word.end), Interval(0.0, 0.0, "*"))
