"""Aligns recordings with their texts, and writes the aligned lists that models with phonemes learn from.

usage: python scripts/align_speech.py --data_dir=my_voice [--pronunciations=words.dict]

The folder has recordings in wavs/ and a list metadata.csv with lines name|text or name|text|normalised text. Writes
  * train_aligned.csv and dev_aligned.csv with lines name|text|symbols|seconds; dev are the last clips of the list;
  * phonemes.txt, the vocabulary, and pronunciations.txt, with which texts become phonemes when the model speaks;
  * alignments.jsonl, with the seconds of each word and phoneme, from which a run that was stopped goes on.
pocketsphinx (pip install open-seq2seq[align]) aligns American English. For other languages, give the alignments of
another aligner: a folder of TextGrid files, as the Montreal Forced Aligner writes them, or a CTM file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.data.audio.audio_files import AudioError, read_info
from open_seq2seq.data.fingerprints import fingerprint
from open_seq2seq.data.own_tables import Kept, say_next
from open_seq2seq.data.text2speech.alignment import (
    AlignedWord,
    Aligner,
    alignments_of,
    columns_of,
    from_record,
    is_pronounced,
    most_frequent,
    pocketsphinx_pronunciations,
    to_record,
    with_model_phonemes,
)
from open_seq2seq.data.text2speech.clips import Clip, read_clips
from open_seq2seq.data.text2speech.front_end import MARKS, SILENCE, Pronunciations, Token, tokens_of
from open_seq2seq.data.text_files import write_lines
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print, format_count, format_time, tracked
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.script import ScriptParser, run_script

RECIPE = "example_configs/text2speech/kathleen-durations.py"
_LONGER = 0.05  # seconds by which an alignment may be longer than its recording
_SHOWN = 20  # maximum number of guessed words that are printed


class Work(NamedTuple):
    """A clip to align.

    Attributes:
      clip: the line of the list.
      tokens: the words and marks of its text.
    """

    clip: Clip
    tokens: list[Token]

    @property
    def line(self) -> int:
        """Line number in the list, from 1."""
        return self.clip.line

    @property
    def words(self) -> list[str]:
        """The words in lower case; phonemes in the text are a word of their own."""
        return [token.text.lower().replace("’", "'") if token.kind == "word" else _raw_word(token)
                for token in self.tokens if token.kind != "mark"]


def _raw_word(token: Token) -> str:
    """Returns the word that phonemes in a text are aligned as, which is no word of any text."""
    return "_" + "_".join(token.text.lower().split())


Alignments = dict[str, tuple[list[AlignedWord], float]]
"""Dict of name of a clip → its words and pauses, and its duration in seconds."""


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """Parses the command line."""
    parser = ScriptParser(__doc__)
    parser.add_argument("--data_dir", required=True, help="folder with wavs/ and the list")
    parser.add_argument("--metadata", default="metadata.csv", help="the list, relative to the folder (default: "
                        "%(default)s)")
    parser.add_argument("--speakers", action="store_true", help="the list has the name of the speaker in its second "
                        "column; so do the lists that are written")
    parser.add_argument("--output_dir", help="folder to write to (default: that of the data)")
    parser.add_argument("--pronunciations", metavar="FILE", help="own pronunciations, a word and its phonemes per "
                        "line: word PH PH …")
    parser.add_argument("--alignments", metavar="PATH", help="alignments of another aligner: a folder with files "
                        "name.TextGrid, or a CTM file of phonemes")
    parser.add_argument("--dev_clips", type=int, default=20, help="number of clips in dev (default: %(default)s)")
    args = parser.parse_args(argv)
    args.output_dir = args.output_dir or args.data_dir
    if args.dev_clips < 1:
        raise UserError(f"--dev_clips must be at least 1, got {args.dev_clips}.")
    return args


def read_work(args: argparse.Namespace, kept: Kept[Clip]) -> list[Work]:
    """Returns the clips whose text can be spoken; the others are recorded as left out."""
    works = []
    for clip in read_clips([os.path.join(args.data_dir, args.metadata)], args.data_dir, has_speakers=args.speakers):
        work = Work(clip, tokens_of(clip.text))
        if any(token.kind != "mark" for token in work.tokens):
            works.append(work)
        else:
            kept.drop(clip, "have no words")
    return works


def all_pronunciations(own: Pronunciations, works: Sequence[Work]) -> Pronunciations:
    """Returns pronunciations of all words: own ones, pocketsphinx's, and guesses, which are printed."""
    listed = pocketsphinx_pronunciations().replaced_by(own)
    raw = Pronunciations({})
    for place, token in ((work.clip.place, token) for work in works for token in work.tokens if token.kind == "raw"):
        raw = raw.replaced_by(with_model_phonemes(Pronunciations({_raw_word(token): [token.text]}), place))
    spoken = {token.text.lower().replace("’", "'"): token.text for work in works for token in work.tokens
              if token.kind == "word"}
    guesses = {word: " ".join(listed.guessed(written)) for word, written in spoken.items() if not listed.of(word)}
    unspeakable = [word for word, phonemes in guesses.items() if not phonemes]
    if unspeakable:
        raise DataError("These words are not in the dictionary and have no Latin letters: "
                        f"{', '.join(unspeakable[:5])}. Give their pronunciations with --pronunciations, or the "
                        "alignments of another aligner.")
    if guesses:
        deco_print(f"WARNING: {format_count(len(guesses), 'word')} without pronunciation; guessed, correct them with "
                   "--pronunciations:")
        for word, phonemes in list(guesses.items())[:_SHOWN]:
            deco_print(f"{word} {phonemes}", offset=1)
    return listed.replaced_by(Pronunciations({word: [guess] for word, guess in guesses.items()})).replaced_by(raw)


def align_all(works: Sequence[Work], pronunciations: Pronunciations, progress: str, kept: Kept[Clip]) -> Alignments:
    """Aligns the clips that are not in the file of earlier results, and adds each result to that file."""
    variants = {word: pronunciations.of(word) for work in works for word in work.words}
    done = {name: values for name, values in earlier(progress, works).items() if is_pronounced(values[0], variants)}
    if done:
        deco_print(f"{format_count(len(done), 'clip')} of {shown(progress)} are aligned already")
    aligner = Aligner(pronunciations, variants)
    rest = [work for work in works if work.clip.name not in done]
    for work in tracked(rest, len(rest), "Aligning recordings"):
        digest = _digest(work.clip.path)
        try:
            words, seconds = aligner.align(work.clip.path, work.words)
        except AudioError as error:
            kept.drop(work.clip, error.detail)
            continue
        done[work.clip.name] = words, seconds
        record = {"name": work.clip.name, "text": work.clip.text, "recording": digest, "seconds": seconds,
                  "words": to_record(words)}
        disk.append(progress, json.dumps(record, ensure_ascii=False) + "\n", _is_progress)
    return done


def earlier(path: str, works: Sequence[Work]) -> Alignments:
    """Returns the results of an earlier run for the clips whose text and recording have not changed."""
    clips = {work.clip.name: work.clip for work in works}
    records: list[dict[str, Any]] = []
    for line in read_lines(path) if os.path.exists(path) else ():
        try:
            records.append(json.loads(line))
        except ValueError:  # the last line of a run that was killed
            continue
    return {record["name"]: (from_record(record["words"]), record["seconds"]) for record in records
            if (clip := clips.get(record["name"])) and clip.text == record["text"]
            and record.get("recording") == _digest(clip.path)}


def _digest(path: str) -> str:
    """Returns a checksum of a recording; "" if it cannot be read."""
    now = fingerprint(path)
    return now.sha256 if now else ""


def _is_progress(file: BinaryIO) -> bool:
    return file.read(9) in (b"", b'{"name": ')


def read_all(works: Sequence[Work], path: str, kept: Kept[Clip]) -> Alignments:
    """Returns the alignments of another aligner."""
    read = alignments_of(path, [work.clip.name for work in works])
    result: Alignments = {}
    for clip in (work.clip for work in works):
        try:
            info = read_info(clip.path)
        except AudioError as error:
            kept.drop(clip, error.detail)
            continue
        seconds = info.samples / info.rate
        total = sum(sum(item.seconds) for item in read.get(clip.name, ()))
        if clip.name not in read:
            kept.drop(clip, f"have no alignment in {path}")
        elif total > seconds + _LONGER:
            kept.drop(clip, f"have an alignment that is longer than the recording, such as {total:.2f} instead of "
                      f"{seconds:.2f} seconds")
        else:
            result[clip.name] = read[clip.name], seconds
    return result


def write_all(args: argparse.Namespace, works: Sequence[Work], aligned: Alignments,
              pronunciations: Pronunciations) -> dict[str, int]:
    """Writes the lists, the vocabulary and the pronunciations; returns the number of clips of each list."""
    lines, symbols = [], set()
    for work in works:
        if work.clip.name in aligned:
            words, seconds = aligned[work.clip.name]
            columns = columns_of(words, work.tokens, seconds)
            symbols.update(columns[0].split())
            speaker = [work.clip.speaker] if args.speakers else []
            lines.append("|".join((work.clip.name, *speaker, work.clip.text, *columns)))
    if len(lines) <= args.dev_clips:
        raise DataError(f"Only {format_count(len(lines), 'clip')} could be aligned, but --dev_clips is "
                        f"{args.dev_clips}.")
    parts = {"train": lines[:-args.dev_clips], "dev": lines[-args.dev_clips:]}
    for name, part in parts.items():
        write_lines(os.path.join(args.output_dir, f"{name}_aligned.csv"), part)
    spoken = most_frequent(words for words, _ in aligned.values())
    rows = list(pronunciations.with_first({word: sounds for word, sounds in spoken.items() if _is_word(word)}).lines())
    write_lines(os.path.join(args.output_dir, "pronunciations.txt"), (row for row in rows if _is_word(row.split()[0])))
    symbols.update(sound for row in rows for sound in row.split()[1:])
    write_lines(os.path.join(args.output_dir, "phonemes.txt"),
                [SILENCE, *MARKS, *sorted(symbols - {SILENCE, *MARKS})])
    return {name: len(part) for name, part in parts.items()}


def _is_word(word: str) -> bool:
    """Returns whether a word of an alignment is one of a text, not phonemes or the stand-in of unknown words."""
    return "_" not in word and word != "*"


def main(argv: list[str] | None = None) -> None:
    """Aligns the recordings and writes the lists."""
    args = parse_args(argv)
    kept: Kept[Clip] = Kept()
    works = read_work(args, kept)
    os.makedirs(args.output_dir, exist_ok=True)
    own = Pronunciations.read(args.pronunciations) if args.pronunciations else Pronunciations({})
    if args.alignments:
        aligned, pronunciations = read_all(works, args.alignments, kept), own
    else:
        spoken = {word for work in works for word in work.words}
        own = with_model_phonemes(own.only(spoken), args.pronunciations or "")
        pronunciations = all_pronunciations(own, works)
        aligned = align_all(works, pronunciations, os.path.join(args.output_dir, "alignments.jsonl"), kept)
    kept.report("clip", place=lambda clip: f"{clip.place} {clip.name}")
    counts = write_all(args, works, aligned, pronunciations)
    say_result(args, counts, aligned)


def say_result(args: argparse.Namespace, counts: Mapping[str, int], aligned: Alignments) -> None:
    """Prints what was written, and what to do next."""
    for name, count in counts.items():
        deco_print(f"{os.path.join(args.output_dir, name)}_aligned.csv: {format_count(count, 'clip')}")
    total = sum(seconds for _, seconds in aligned.values())
    silent = sum(sum(item.seconds) for words, _ in aligned.values() for item in words if not item.word)
    deco_print(f"{format_count(len(aligned), 'clip')}, {format_time(total)}, of which pauses {format_time(silent)}")
    say_next(RECIPE, "my_voice.py", {"data_dir": os.path.join(args.output_dir, ""),
                                     **({"recordings_dir": args.data_dir} if args.output_dir != args.data_dir else {})})


if __name__ == "__main__":
    run_script(main)
