"""Speaks texts with a trained model, and writes a list of the clips from which a recogniser learns.

usage: python scripts/synthesize_dataset.py --logdir=my_voice --texts=texts.txt --output_dir=synthetic
           [--variants=3 --speed_perturbation_ratio=0.1 --noise_level_min=-60 --noise_level_max=-30]

The texts are the lines of a file, or the transcripts of a list of recordings (CSV, JSON lines, or a LibriSpeech
folder). The clips of line 7 are 1/000007.wav, 2/000007.wav and so on, one for each variant. clips.csv lists all clips
for Speech2TextDataLayer. variants.csv lists each text once; with syn_enable and syn_subdirs, training draws one of its
clips in each epoch. The same command again goes on where a stopped one ended. Several processes can share the work:
--shard=2/8 is the second of eight shares, and ranks of mpiexec have their shares by themselves. Other options are
values of the model's config, such as --vocoder=LOGDIR or --batch_size_per_gpu=64.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from open_seq2seq.utils.script import quiet_tensorflow

quiet_tensorflow()

from open_seq2seq.cli import run_of
from open_seq2seq.data.audio.audio_files import is_silent
from open_seq2seq.data.audio.features import normalized_audio
from open_seq2seq.data.own_tables import Kept
from open_seq2seq.data.speech2text.augmentation import Augmentation, Draw, make_augmentation
from open_seq2seq.data.speech2text.manifests import LIST_COLUMNS, read_manifests
from open_seq2seq.data.text2speech.front_end import spelled_out
from open_seq2seq.data.text_files import write_csv
from open_seq2seq.models.text2speech.text2speech import Text2Speech
from open_seq2seq.runners.horovod.runner import take_share
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print, format_count, tracked
from open_seq2seq.utils.data_files import read_lines, shown
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.launcher import launched_as, launched_here_as
from open_seq2seq.utils.output_file import check_output_file
from open_seq2seq.utils.script import ScriptParser, random_seed, run_script
from open_seq2seq.utils.sound_files import encoded

if TYPE_CHECKING:
    from open_seq2seq.inference.trained_model import TrainedModel

_PLAN, _PARTS = "synthesis.json", "parts"
_SIZE = "the number of texts at once"
_AT_ONCE = 32  # minimum number of texts that are spoken and recorded as done together
_LISTS = (".csv", ".tsv", ".json", ".jsonl", ".manifest")
_MARKUP = re.compile(r"\[\[|\[(pause|speed|speaker)\s", re.IGNORECASE)  # no part of a transcript
_AUGMENTATION = ("speed_perturbation_ratio", "noise_level_min", "noise_level_max")
_MOST_VARIANTS = 16  # models with a random reading are kept compiled for each variant


class Text(NamedTuple):
    """A text to speak.

    Attributes:
      line: its number, from 1, in the file of texts.
      text: what the model is given.
      transcript: what is heard: numbers in words, and for models of characters in the case that they know.
    """

    line: int
    text: str
    transcript: str


class Part(NamedTuple):
    """Some of the texts, which one process speaks.

    Attributes:
      place: file with a line of JSON for each text, which exists when all clips of the part do.
      texts: the texts.
    """

    place: Path
    texts: Sequence[Text]


def parse_args(argv: list[str] | None = None) -> tuple[argparse.Namespace, list[str]]:
    """Parses the command line; returns the config values separately."""
    parser = ScriptParser(__doc__)
    add = parser.add_argument
    add("--logdir", required=True, help="logdir of the trained model of speech synthesis, or a packed model")
    add("--texts", required=True, metavar="PATH", help="text file with one text per line, or a list of recordings")
    add("--output_dir", default="synthetic", help="folder for the clips and lists (default: %(default)s)")
    add("--variants", type=int, default=1, help="number of clips of each text (default: %(default)s)")
    add("--speed_perturbation_ratio", type=float, default=0.0, help="the length is multiplied by a random factor from "
        "1 - r to 1 + r; models that predict durations speak as fast, the sound of others is stretched, which changes "
        "its pitch (default: %(default)s)")
    add("--noise_level_min", type=int, metavar="DB", help="smallest level of white noise in dB; 0 is an RMS of 1, for "
        "a peak of 1")
    add("--noise_level_max", type=int, metavar="DB", help="upper bound of this level")
    add("--style_recordings", nargs="+", default=[], metavar="FILE", help="for models with style_input: recordings, of "
        "which each clip gets a random one")
    add("--speakers", nargs="+", default=[], metavar="NAME", help="for models of several speakers: those of whom each "
        "clip gets a random one; all for all of them (default: that of the config)")
    add("--shard", default="", metavar="K/N", help="speak only the K-th of N shares of the texts")
    add("--seed", type=random_seed, default=0, help="random seed (default: %(default)s)")
    add("--trust_code", action="store_true",
        help="let the logdir's config import and run code from outside the package")
    args, values = parser.parse_known_args(argv)
    if not 1 <= args.variants <= _MOST_VARIANTS:
        raise UserError(f"--variants is {args.variants}, but has to be from 1 to {_MOST_VARIANTS}.")
    check_output_folder(args.output_dir)
    return args, values


def check_output_folder(name: str) -> None:
    """Raises UserError unless the folder is that of an earlier run of this script, or nothing or an empty folder."""
    if os.path.isdir(name):
        others = [entry for entry in os.listdir(name) if not entry.startswith(disk.TEMPORARY)]
        if others and _PLAN not in others:
            raise UserError(f"The folder {name} contains other files, such as {shown(sorted(others)[0])}: choose "
                            "another --output_dir.")
        return
    if os.path.exists(name):
        raise UserError(f"--output_dir is {name}, which is a file, not a folder: choose another path.")
    check_output_file(name, "--output_dir")


def shard_of(text: str) -> tuple[int, int]:
    """Returns the number of this process's share, from 0, and the number of shares.

    Args:
      text: the value of ``--shard``; "" for the rank of a launcher such as ``mpiexec``.

    Raises:
      UserError: the text is not like ``2/8``.
    """
    if not text:
        return launched_as()
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise UserError(f"--shard is {text!r}, but has to be a share and the number of shares, from 1/8 to 8/8 for "
                        "eight.")
    return int(match[1]) - 1, int(match[2])


def given_texts(path: str) -> list[tuple[int, str]]:
    """Returns the number and text of each line, or of each row of a list of recordings, which need not exist.

    Raises:
      DataError: the file is missing or cannot be read.
    """
    if os.path.isdir(path) or path.lower().removesuffix(".gz").endswith(_LISTS):
        rows = read_manifests([path], None, needs_text=True)
        return [(number, row.text or "") for number, row in enumerate(rows, 1)]
    return list(enumerate(read_lines(path, "The file of texts"), 1))


def usable_texts(rows: Sequence[tuple[int, str]], layer: Any, path: str) -> list[Text]:
    """Returns the texts that can be spoken, and prints how many others there are, and why.

    Args:
      rows: the number and text of each line.
      layer: the data layer of the model.
      path: the file of texts, for messages.

    Raises:
      DataError: no text can be spoken, or one has digits, but num2words is not installed.
    """
    kept: Kept[Text] = Kept()
    for line, given in rows:
        text = Text(line, " ".join(given.split()), "")
        if problem := _problem(text.text, layer):
            kept.drop(text, problem)
        else:
            kept.rows.append(text._replace(transcript=transcript_of(text.text, layer)))
    if not kept.rows:
        raise DataError(f"None of the {format_count(len(rows), 'line')} of {shown(path)} can be spoken"
                        + "".join(f": line {text.line} {reason}." for reason, text in kept.all_dropped()[:1]))
    kept.report("text", place=lambda text: f"line {text.line:,}" + f", {shown(text.text)[:60]!r}" * bool(text.text))
    return kept.rows


def _problem(text: str, layer: Any) -> str:
    """Returns why a text cannot be spoken, as the predicate of a sentence; "" if it can."""
    if not any(map(str.isalnum, text)):
        return "without letters"
    if _MARKUP.search(text):
        return "with pauses, speeds or phonemes in brackets, which are no part of a transcript"
    if layer.params["espeak_language"] is not None and any(map(str.isdigit, text)):
        return "with numbers, which have to be written in words"
    if layer.vocabulary.unknown(layer.vocabulary.split(text)):
        return f"with symbols that are not in the vocabulary of the model ({layer.params['vocab_file']})"
    return ""


def transcript_of(text: str, layer: Any) -> str:
    """Returns what is heard when a model speaks a text: numbers and abbreviations in words."""
    if layer.params["espeak_language"] is not None:
        return text
    if layer.params["symbols"] == "phonemes":
        return " ".join(spelled_out(text).split())
    return layer.vocabulary.join(layer.vocabulary.split(text))


class Speaker:
    """Makes the clips of texts; a clip depends only on the text, its line, the variant and the seed.

    Args:
      model: the trained model.
      args: the command line.

    Raises:
      UserError: the model does not speak texts, needs style recordings, or has no such speaker.
      ConfigError: the speed or noise is not allowed.
    """

    def __init__(self, model: TrainedModel, args: argparse.Namespace) -> None:
        if not isinstance(model.model, Text2Speech):
            raise UserError(f"{args.logdir} has a model of the type {type(model.model).__name__}, which does not speak "
                            "texts: give the logdir of one that does, such as Text2SpeechTacotron.")
        self._model, self._seed, self._styles = model, args.seed, args.style_recordings
        self._augmentation = augmentation_of(args)
        decoder = model.model.decoder
        self._has_speed = hasattr(decoder, "at_speed")
        self._has_seed = self._draws(decoder.params)
        needs_styles = model.model.data_layer.params["style_input"] is not None
        if needs_styles != bool(self._styles):
            raise UserError("The model reads style recordings: give some with --style_recordings." if needs_styles else
                            "--style_recordings is for models with style_input, which this one has not: leave it out.")
        self._speakers = speakers_of(args, model.model.data_layer)
        chosen = self._speakers[1:] or self._styles[1:]
        if args.variants > 1 and not (self._augmentation.changes_audio or self._has_seed or chosen):
            raise UserError("All variants would be equal: give --speed_perturbation_ratio, or --noise_level_min and "
                            "--noise_level_max, or leave out --variants.")

    @staticmethod
    def _draws(params: Mapping[str, Any]) -> bool:
        """Returns whether what a decoder speaks depends on its ``inference_seed``."""
        drops = params.get("prenet_use_inference_dropout", params.get("enable_prenet"))
        rate = params.get("prenet_dropout", params.get("prenet_dropout_prob", 0.0))
        is_read = "inference_seed" in params and params.get("decoder_type") != "convolutional"
        return is_read and bool(drops) and rate > 0.0

    def clips(self, texts: Sequence[Text], variant: int) -> Iterator[tuple[np.ndarray, str]]:
        """Yields (the clip ``[samples]``, what is wrong with it or "") of each text; ``variant`` is from 1."""
        model = self._model
        if self._has_seed and variant > 1:
            first = model.model.decoder.params["inference_seed"]
            model = model.variant({"decoder_params": {"inference_seed": first + variant - 1}})
        draws = [Draw(self._seed, text.line, variant) for text in texts]
        given = [self._given(*pair) for pair in zip(texts, draws, strict=True)]
        for draw, speech in zip(draws, model.infer(given, first=texts[0].line), strict=True):
            problem = "" if speech.stopped else "at which the model did not stop"
            yield self._changed(speech.samples, draw), problem or ("silent" if is_silent(speech.samples) else "")

    def _given(self, text: Text, draw: Draw) -> Any:
        """Returns what the model is given for a text."""
        words = text.text
        if self._has_speed and self._augmentation.changes_length:
            words = f"[speed {1 / self._augmentation.length_factor(draw):.4f}] {words}"
        speakers, styles = len(self._speakers) or 1, len(self._styles) or 1
        style, speaker = divmod(draw.choice(styles * speakers), speakers)
        if self._speakers:
            words = self._model.model.data_layer.by_speaker(words, self._speakers[speaker])
        return (words, self._styles[style]) if self._styles else words

    def _changed(self, audio: np.ndarray, draw: Draw) -> np.ndarray:
        """Returns a clip ``[samples]`` with noise and, unless the model has seen to it, at another speed."""
        peak = float(np.abs(audio).max(initial=0.0))
        if not self._has_speed:
            audio = self._augmentation.perturb_speed(audio, draw)
        if self._augmentation.noise_levels is not None:
            audio = self._augmentation.add_noise(normalized_audio(audio, None), draw)
        return audio * np.float32(peak / max(float(np.abs(audio).max(initial=0.0)), 1e-9))


def speakers_of(args: argparse.Namespace, layer: Any) -> list[str]:
    """Returns the speakers to choose from; none for that of the config.

    Raises:
      DataError: the model has no such speaker.
    """
    if args.speakers == ["all"] and "all" not in layer.speakers.names:
        return list(layer.speakers.names)
    for name in args.speakers:
        layer.speakers.number(name)
    return args.speakers


def augmentation_of(args: argparse.Namespace) -> Augmentation:
    """Returns the changes of speed and noise that the command line describes.

    Raises:
      ConfigError: a value is not allowed.
    """
    return make_augmentation({name: getattr(args, name) for name in _AUGMENTATION}, 1, 0.0, "command line")


def plan_of(args: argparse.Namespace, values: Sequence[str], model: Any, texts: Sequence[Text]) -> dict[str, Any]:
    """Returns everything that the clips depend on, which must be the same when a run goes on."""
    digest = hashlib.sha256()
    for variable in sorted(model.variables, key=lambda variable: variable.name):
        digest.update(variable.name.encode() + np.asarray(variable).tobytes())
    names = ("variants", "seed", *_AUGMENTATION, "style_recordings", "speakers")
    return {"the texts": hashlib.sha256(repr(texts).encode()).hexdigest(), "the model": digest.hexdigest(),
            "the values of its config": sorted(values),
            _SIZE: max(_AT_ONCE, model.params["batch_size_per_gpu"]),
            **{f"--{name}": getattr(args, name) for name in names}}


def open_folder(folder: Path, plan: Mapping[str, Any]) -> None:
    """Creates the folder with the plan, or checks that its clips are of the same plan.

    Raises:
      UserError: they are not.
    """
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / _PLAN
    if not place.exists():
        with disk.writing(place, _is_plan) as file:
            file.write(json.dumps(plan, indent=1).encode())
    try:
        earlier = json.loads(place.read_bytes())
    except ValueError:
        earlier = None
    if not isinstance(earlier, dict):
        raise UserError(f"{place} is damaged: choose another --output_dir.")
    if differing := [name for name in plan if earlier.get(name) != plan[name]]:
        raise UserError(f"The clips in {folder} are of an earlier run, from which these differ: "
                        f"{', '.join(differing)}. Choose another --output_dir, or go on with the same ones.")
    for variant in range(1, plan["--variants"] + 1):
        (folder / str(variant)).mkdir(exist_ok=True)
        disk.remove_unfinished(folder / str(variant))
    (folder / _PARTS).mkdir(exist_ok=True)


def _is_plan(file: Any) -> bool:
    return b'"the texts"' in file.read(100)


def write_part(folder: Path, part: Part, speaker: Speaker, variants: int, rate: int) -> None:
    """Writes the clips of a part, then its file.

    Raises:
      BlockingIOError: another process is doing so.
    """
    with disk.placing(part.place, disk.always, alone=True) as new:
        rows: dict[int, dict[str, Any]] = {text.line: {"transcript": text.transcript, "clips": []}
                                           for text in part.texts}
        for variant in range(1, variants + 1):
            for text, (audio, problem) in zip(part.texts, speaker.clips(part.texts, variant), strict=True):
                name, row = f"{variant}/{text.line:06d}.wav", rows[text.line]
                if problem:
                    row["problem"] = problem
                elif "problem" not in row:
                    content = encoded(audio, rate)
                    with disk.writing(folder / name, disk.always) as file:
                        file.write(content)
                    row["clips"].append((name, len(content)))
        for row in rows.values():
            for name, _ in row["clips"] if "problem" in row else ():
                disk.remove_file(folder / name)
        disk.fill(new, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows.values()))


def write_lists(folder: Path, parts: Sequence[Part], variants: int) -> None:
    """Writes the lists of all clips, and prints how many there are.

    Raises:
      DataError: there are none.
    """
    rows = [json.loads(line) for part in parts for line in part.place.read_text(encoding="utf-8").splitlines()]
    problems = Counter(row["problem"] for row in rows if "problem" in row)
    for problem, count in problems.items():
        deco_print(f"Not in the lists: {format_count(count, 'text')} {problem}")
    rows = [row for row in rows if "problem" not in row]
    if not rows:
        raise DataError(f"No clip in {folder} can be used: train the model for longer.")
    count = write_csv(str(folder / "clips.csv"), LIST_COLUMNS, (
        (name, size, row["transcript"]) for row in rows for name, size in row["clips"]))
    write_csv(str(folder / "variants.csv"), LIST_COLUMNS, (
        ("{}/" + row["clips"][0][0].partition("/")[2], row["clips"][0][1], row["transcript"]) for row in rows))
    deco_print(f"{folder / 'clips.csv'}: {format_count(count, 'clip')} of {format_count(len(rows), 'text')}")
    if variants > 1:
        deco_print(f"{folder / 'variants.csv'}: the same for syn_enable, with syn_subdirs "
                   f"{[str(variant) for variant in range(1, variants + 1)]}")


def speak(folder: Path, parts: Sequence[Part], speaker: Speaker, variants: int, rate: int) -> None:
    """Speaks the parts that no process has spoken yet or is speaking."""
    rest = [part for part in parts if not part.place.exists()]
    if len(rest) < len(parts):
        deco_print(f"{folder}: {len(parts) - len(rest):,} of {format_count(len(parts), 'part')} were spoken earlier")
    for part in tracked(rest, len(rest), "Speaking texts"):
        if part.place.exists():  # another process has spoken it since
            continue
        try:
            write_part(folder, part, speaker, variants, rate)
        except BlockingIOError:
            continue  # another process is speaking it


def main(argv: list[str] | None = None) -> None:
    """Speaks this process's parts of the texts, and writes the lists if no other part is missing."""
    args, values = parse_args(argv)
    shard, shards = shard_of(args.shard)
    augmentation_of(args)
    rows = given_texts(args.texts)
    if not args.shard and launched_here_as()[1] > 1:
        take_share(*launched_here_as())
    trust = ["--trust_code"] if args.trust_code else []
    model = run_of([f"--logdir={args.logdir}", *trust, *values]).load()
    speaker, folder, layer = Speaker(model, args), Path(args.output_dir), model.model.data_layer
    texts = usable_texts(rows, layer, args.texts)
    plan = plan_of(args, values, model.model, texts)
    open_folder(folder, plan)
    parts = [Part(folder / _PARTS / f"{number:06d}.jsonl", texts[start:start + plan[_SIZE]])
             for number, start in enumerate(range(0, len(texts), plan[_SIZE]))]
    speak(folder, parts[shard::shards], speaker, args.variants, layer.settings.sample_freq)
    if missing := sum(not part.place.exists() for part in parts):
        deco_print(f"{folder}: {missing:,} of {format_count(len(parts), 'part')} are left to other processes, the last "
                   "of which writes the lists.")
    else:
        write_lists(folder, parts, args.variants)


if __name__ == "__main__":
    run_script(main)
