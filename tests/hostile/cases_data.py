"""Data files and caches that are damaged, of the wrong kind, endless, or changed while they are used."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile

from tests.hostile.case import (
    CHECK,
    CONFIG,
    EVALUATE,
    INFER,
    INFER_SPEECH,
    INFER_TEXT,
    TRAIN_ANEW,
    Case,
    Expectation,
    Fault,
    Place,
    Refused,
    Said,
    Same,
    Works,
)
from tests.hostile.faults import (
    after,
    delete,
    replace_by_fifo,
    replace_by_folder,
    replace_by_link,
    rewrite,
    write,
)

RATE = 8000
SKIP = "--data_layer_params/on_bad_example=skip"
# Trains long enough to apply a fault during training, after the output ``BEGUN``.
LONG = (CONFIG, "--mode=train", "--logdir=new", "--max_steps=100", "--print_loss_steps=10",
        "--save_checkpoint_steps=100")
BEGUN = "Step 10: loss"
COMMANDS = {"check": CHECK, "train": TRAIN_ANEW, "evaluate": EVALUATE, "infer": INFER}

# Replacements for any data file, with a part of the expected message, by description.
NO_FILES: dict[str, tuple[Callable[[str], Fault], str]] = {
    "missing": (delete, "does not exist"),
    "a folder": (replace_by_folder, "it is a folder, not a file"),
    "a pipe": (replace_by_fifo, "it is a pipe, not a file"),
    "an endless device": (lambda name: replace_by_link(name, "/dev/zero"), "it is a device"),
    "random without end": (lambda name: replace_by_link(name, "/dev/urandom"), "it is a device"),
    "a link to itself": (lambda name: replace_by_link(name, name), "cannot be read: Too many levels"),
    "a file that the kernel does not let be read": (lambda name: replace_by_link(name, "/proc/self/mem"),
                                                    "cannot be read: Input/output error"),
}

# The text file that each command reads first.
TEXTS = {"check": "train.src", "train": "train.tgt", "evaluate": "dev.tgt", "infer": "dev.src"}


def _sparse(name: str, size: int) -> Fault:
    """Replaces a file by a sparse file of zeros, a single line that may or may not fit into memory."""
    def fault(place: Place) -> None:
        with open(place / name, "wb") as file:
            file.truncate(size)

    return fault


def _without(mode: str, name: str, thing: str, said: str) -> Expectation:
    """A trained model uses its checkpoint's copy of a vocabulary that is missing; all else is refused."""
    if thing == "missing" and name == "vocab.txt" and mode in ("evaluate", "infer"):
        return Same("are taken from")
    return Refused(name, said)


def _cases_of_text() -> list[Case]:
    cases = [Case(f"{mode}: {name} is {thing}", COMMANDS[mode], _without(mode, name, thing, said), fault=make(name),
                  quick=(mode, name) == ("evaluate", "vocab.txt"))
             for mode, text in TEXTS.items() for name in (text, "vocab.txt")
             for thing, (make, said) in NO_FILES.items()]
    contents: dict[str, tuple[bytes | None, str]] = {
        "empty": (b"", "is empty"),
        "not UTF-8": (b"a b\n\xff\xfe c\n", "valid UTF-8"),
        "UTF-16": ("a b\n".encode("utf-16"), "valid UTF-8"),
        "cut short": (b"a b\n", "1 and 200"),
        "4 GB of zeros in one line": (None, "more than 16,777,216 bytes"),
    }
    for mode in ("check", "train", "evaluate"):
        for thing, (content, said) in contents.items():
            name = TEXTS[mode]
            fault = _sparse(name, 4 << 30) if content is None else write(name, content)
            words = "lines, but" if thing == "cut short" else said
            cases.append(Case(f"{mode}: {name} is {thing}", COMMANDS[mode], Refused(name, words), fault=fault))
    vocabularies: dict[str, tuple[bytes | None, str]] = {
        "empty": (b"", "is empty"),
        "blank lines": (b"\n  \n\t\n", "is empty"),
        "not UTF-8": (b"a\n\xff\n", "vocab.txt:2: the line is not valid UTF-8"),
        "UTF-16 without a mark": ("a\nb\n".encode("utf-16-le"), "is not a token"),
        "with line ends of old Macs": (b"a\rb\rc\rd\re\rf\r", "is not a token"),
        "with a token twice": (b"a\nb\na\n", "'a' more than once"),
        "4 GB of zeros": (None, "more than 16,777,216 bytes"),
    }
    for mode in ("check", "train", "evaluate", "infer"):
        for thing, (content, said) in vocabularies.items():
            fault = _sparse("vocab.txt", 4 << 30) if content is None else write("vocab.txt", content)
            cases.append(Case(f"{mode}: the vocabulary is {thing}", COMMANDS[mode], Refused("vocab.txt", said),
                              fault=fault))
        for thing, change in {"a byte-order mark": lambda content: b"\xef\xbb\xbf" + content,
                              "line ends of Windows": lambda content: content.replace(b"\n", b"\r\n"),
                              "blanks around its tokens": lambda content: content.replace(b"\n", b" \n")}.items():
            # A new run may read the file; a trained model accepts only the identical file.
            cases.append(Case(f"{mode}: the vocabulary has {thing}", COMMANDS[mode],
                              Same() if mode in ("check", "train") else Refused("its content differs"),
                              fault=rewrite("vocab.txt", change)))
    for side in ("src", "tgt"):
        for thing, change in {"a byte-order mark": lambda content: b"\xef\xbb\xbf" + content,
                              "line ends of Windows": lambda content: content.replace(b"\n", b"\r\n")}.items():
            cases.append(Case(f"the validation {side} has {thing}", EVALUATE, Same(),
                              fault=rewrite(f"dev.{side}", change)))
    return cases


def _index(place: Place, text: str) -> Path:
    """Returns the index of a text, which the finished run has written."""
    return next((place / "index").glob(f"{text}.*.index"))


def _on_index(text: str, change: Callable[[Path], object]) -> Fault:
    return lambda place: change(_index(place, text))


def _flipped(part: float) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        status, content = path.stat(), bytearray(path.read_bytes())
        content[int(part * (len(content) - 1))] ^= 4
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    return change


def _instead(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


INDEX_DAMAGES: dict[str, Callable[[Path], object]] = {
    **{f"has a flipped bit at {part:.0%}": _flipped(part) for part in (0, .1, .3, .5, .6, .7, .8, .9, .97, 1)},
    "is cut in the middle": lambda path: os.truncate(path, path.stat().st_size // 2),
    "lost its last byte": lambda path: os.truncate(path, path.stat().st_size - 1),
    "is empty": lambda path: os.truncate(path, 0),
    "is all zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "is a text": lambda path: path.write_text("no index\n" * 500),
    "is a pipe": _instead(os.mkfifo),
    "is a link to a device": _instead(lambda path: path.symlink_to("/dev/zero")),
    "is gone": _instead(lambda path: None),
    "says that it is longer than it is": lambda path: path.write_bytes(
        path.read_bytes()[:-16] + struct.pack("<Q", 2 ** 63) + path.read_bytes()[-8:]),
}


def _same_times(name: str, change: Callable[[bytes], bytes]) -> Fault:
    """Changes a text file's content but not its size and mtime."""
    return rewrite(name, change)


def _cases_of_index() -> list[Case]:
    # Anything that is not the toolkit's own file is not replaced.
    expected = {"is a pipe": Refused("it is not a regular file"),
                "is a link to a device": Refused("it is a symbolic link")}
    cases = [Case(f"{mode}: the index of {text} {damage}", COMMANDS[mode], expected.get(damage, Same()),
                  fault=_on_index(text, change))
             for mode, text in (("train", "train.src"), ("evaluate", "dev.tgt")) for damage, change in
             INDEX_DAMAGES.items()]
    cases += [Case(f"a check finds that the index of train.src {damage}", CHECK, Said("Rebuilding the index"),
                   fault=_on_index("train.src", INDEX_DAMAGES[damage]))
              for damage in ("has a flipped bit at 0%", "has a flipped bit at 10%", "is all zeros", "is empty")]
    cases += [Case(f"{name} becomes another text of equal size and time", command, Said("the text has changed"),
                   fault=_same_times(name, lambda content: content.replace(b"a", b"b")))
              for name, command in (("train.src", TRAIN_ANEW), ("dev.tgt", EVALUATE), ("dev.src", INFER))]
    cases += [Case(f"the index of train.src {what} while it is trained on", LONG, Same("rebuilding it"),
                   meanwhile=after(BEGUN, _on_index("train.src", change)))
              for what, change in {"is cut short": lambda path: os.truncate(path, 10),
                                   "is emptied": lambda path: os.truncate(path, 0),
                                   "is overwritten": lambda path: path.write_bytes(bytes(path.stat().st_size)),
                                   }.items()]
    cases += [Case("the index of train.src is removed while it is trained on", LONG, Same(),
                   meanwhile=after(BEGUN, _on_index("train.src", lambda path: path.unlink()))),
              Case("a training text is removed while it is trained on", LONG, Same(),
                   meanwhile=after(BEGUN, delete("train.src")))]
    return cases


def _wav(audio: np.ndarray, rate: int = RATE, **how: str) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, audio, rate, **{"format": "WAV", **how})
    return out.getvalue()


_VOICE = (np.sin(np.arange(12000) * 0.3) * np.sin(np.arange(12000) * 0.002) / 3).astype(np.float32)
_NOISE = np.random.default_rng(0).uniform(-0.4, 0.4, 12000).astype(np.float32)


def _patched(content: bytes, mark: bytes, skip: int, number: int, size: int = 4) -> bytes:
    place = content.index(mark) + len(mark) + skip
    return content[:place] + number.to_bytes(size, "little") + content[place + size:]


def _flac_saying(samples: int) -> bytes:
    content = bytearray(_wav(_NOISE, format="FLAC"))
    fields = int.from_bytes(content[18:26], "big")
    content[18:26] = (fields >> 36 << 36 | samples).to_bytes(8, "big")
    return bytes(content)


_NAN = np.where(np.arange(12000) == 50, np.nan, _VOICE)
RECORDINGS: dict[str, tuple[bytes, str]] = {
    "is empty": (b"", "is an empty file"),
    "has no samples": (_wav(_VOICE[:0]), "contains no samples"),
    "is a text": (b"no audio at all\n" * 40, "cannot be read as audio"),
    "is a header alone": (_wav(_VOICE)[:44], "contains no samples"),
    "is cut short": (_wav(_VOICE)[:9000], "is truncated"),
    "is cut short, as AIFF": (_wav(_VOICE, format="AIFF", subtype="PCM_16")[:9000], "is truncated"),
    "is cut short, as AU": (_wav(_VOICE, format="AU", subtype="PCM_16")[:9000], "is truncated"),
    "is cut short, as FLAC": (_wav(_NOISE, format="FLAC")[:9000], "is truncated"),
    "says that it has fewer samples": (_patched(_wav(_VOICE), b"data", 0, 6000), "unexpected bytes after the samples"),
    "says that it has fewer samples, as FLAC": (_flac_saying(5000), "12,000 samples, but its header declares 5,000"),
    "says that it has more samples, as FLAC": (_flac_saying(13000), "is truncated"),
    "says that it has 2 ** 31 samples, as FLAC": (_flac_saying(2 ** 31), "declares 2,147,483,648 samples"),
    "says that it has 2 ** 30 bytes of samples": (_patched(_wav(_VOICE), b"data", 0, 2 ** 30), "is truncated"),
    "says that it has 1 sample a second": (_patched(_wav(_VOICE), b"fmt ", 8, 1), "sampling rate"),
    "says that it has 2 ** 31 samples a second": (_patched(_wav(_VOICE), b"fmt ", 8, 2 ** 31 - 1), "sampling rate"),
    "says that it has 60,000 channels": (_patched(_wav(_VOICE), b"fmt ", 6, 60000, 2), "cannot be read as audio"),
    "has a NaN": (_wav(_NAN, subtype="FLOAT"), "1 NaN or infinite sample"),
    "has infinite values": (_wav(np.full(12000, np.inf), subtype="DOUBLE"), "12,000 NaN or infinite samples"),
    "has values beyond single precision": (_wav(np.full(12000, 1e300), subtype="DOUBLE"), "NaN or infinite"),
}
USABLE: dict[str, bytes] = {
    "has 8 channels": _wav(np.stack([_VOICE] * 8, 1)),
    "has 384 kHz": _wav(np.tile(_VOICE, 40), 384_000),
    "is of double precision": _wav(_VOICE, subtype="DOUBLE"),
    "has a tag behind its samples": _wav(_VOICE) + b"TAG" + bytes(125),
}


def _cases_of_recordings() -> list[Case]:
    cases = []
    for what, (content, said) in RECORDINGS.items():
        cases += [
            Case(f"check: a recording {what}", CHECK, Refused("train.csv:3", "train-0001.wav", said), task="speech",
                 fault=write("wav/train-0001.wav", content)),
            Case(f"train: a recording {what}", TRAIN_ANEW, Refused("train.csv:3", "train-0001.wav", said),
                 task="speech", fault=write("wav/train-0001.wav", content)),
            Case(f"train without it: a recording {what}", (*TRAIN_ANEW, SKIP), Said("train-0001.wav", said),
                 task="speech", fault=write("wav/train-0001.wav", content)),
            Case(f"evaluate: a recording {what}", EVALUATE, Refused("dev.csv:3", "dev-0001.wav", said), task="speech",
                 fault=write("wav/dev-0001.wav", content)),
            Case(f"transcribe: a recording {what}", INFER_SPEECH, Refused("dev-0000.wav", said), task="speech",
                 fault=write("wav/dev-0000.wav", content)),
        ]
    for what, content in USABLE.items():
        cases.append(Case(f"transcribe: a recording {what}", INFER_SPEECH, Said("dev-0000.wav:"), task="speech",
                          fault=write("wav/dev-0000.wav", content)))
    for thing, (make, said) in NO_FILES.items():
        words = "does not exist" if thing == "a link to itself" else said
        cases += [
            Case(f"train: a recording is {thing}", TRAIN_ANEW, Refused("train.csv:3", "train-0001.wav", words),
                 task="speech", fault=make("wav/train-0001.wav")),
            Case(f"transcribe: a recording is {thing}", INFER_SPEECH, Refused("dev-0000.wav"), task="speech",
                 fault=make("wav/dev-0000.wav")),
        ]
    return cases


def _row(name: str, text: str = "a") -> str:
    return json.dumps({"audio_filepath": name, "text": text}) + "\n"


LISTS: dict[str, tuple[str, bytes, str]] = {
    "has a name with a NUL": ("train.json", _row("a\0b.wav").encode(), "train.json:1: a\\x00b.wav does not exist"),
    "has a name with half a character": ("train.json", _row("a\ud800.wav").encode(), "train.json:1: a\\ud800.wav"),
    "has a name of 300 characters": ("train.json", _row("n" * 300).encode(), "File name too long"),
    "has an empty name": ("train.json", _row("").encode(), "train.json:1"),
    "has the name of a folder": ("train.json", _row("wav").encode(), "train.json:1: wav cannot be read: it is a fold"),
    "has the name of a device": ("train.json", _row("/dev/zero").encode(), "it is a device"),
    "has a number of 5,000 digits": ("train.json", b'{"audio_filepath": "a", "x": ' + b"9" * 5000 + b"}\n",
                                     "train.json:1: the line is not valid JSON"),
    "nests without end": ("train.json", b"[" * 100_000, "train.json:1: the line is not valid JSON"),
    "is a line of 100 MB": ("train.json", b'{"x": "' + b"a" * (100 << 20), "more than 16,777,216 bytes"),
    "is 4 GB of zeros, gzipped": ("train.csv.gz", b"", "train.csv.gz"),
    "has a name with a NUL, as CSV": ("list.csv", b"wav_filename,wav_filesize,transcript\na\0b.wav,1,a\n",
                                      "list.csv:2"),
    "has a million columns": ("list.csv", b"wav_filename,wav_filesize,transcript\n" + b"a," * 10 ** 6,
                              "1000001 columns"),
    "has no header": ("list.csv", b"wav/train-0000.wav,1,a\n", "list.csv:1: the header"),
    "names a column twice": ("list.csv", b"wav_filename,transcript,wav_filename\na,b,c\n", "more than once"),
    "is empty": ("list.csv", b"", "list.csv:1: the header"),
    "is a header alone": ("list.csv", b"wav_filename,wav_filesize,transcript\n", "lists no recordings"),
    "is not UTF-8": ("list.csv", b"wav_filename,wav_filesize,transcript\ncaf\xe9.wav,1,a\n", "list.csv:2"),
}


def _cases_of_lists() -> list[Case]:
    cases = []
    for what, (name, content, said) in LISTS.items():
        fault = write(name, gzip.compress(bytes(64 << 20)) if name.endswith(".gz") else content)
        for mode, command in (("train", TRAIN_ANEW), ("check", CHECK), ("evaluate", EVALUATE)):
            arguments = (*command, f"--data_layer_params/dataset_files=['{name}']")
            cases.append(Case(f"{mode}: a list {what}", arguments, Refused(said), task="speech", fault=fault))
    return cases


def _not_utf8(place: Place) -> None:
    folder = os.fsencode(place / "given")
    os.mkdir(folder)
    for name in (b"caf\xe9.wav", b"plain.wav"):
        os.link(os.fsencode(place / "wav/dev-0000.wav"), folder + b"/" + name)


def _cases_of_names() -> list[Case]:
    given = ("--mode=infer", "--logdir=run", "--infer_output_file=out.txt", "--infer_files")
    latin = os.fsdecode(b"given/caf\xe9.wav")
    return [
        Case("a folder has a recording whose name is not UTF-8", (*given, "given"), Said("caf\\xe9.wav:", "plain.wav:"),
             task="speech", fault=_not_utf8),
        Case("a recording is given whose name is not UTF-8", (*given, latin), Said("caf\\xe9.wav:"), task="speech",
             fault=_not_utf8),
        Case("text is given that does not exist, of a name that is not UTF-8", (*given, latin),
             Refused("caf\\xe9.wav, which does not exist")),
        *(Case(f"the text that is given is {thing}", (*INFER_TEXT[:-1], "dev.src"), Refused("dev.src"), timeout=90,
               fault=make("dev.src")) for thing, (make, _) in NO_FILES.items()),
        Case("standard input is endless", (*INFER_TEXT[:-1], "-"), Refused("standard input"),
             shell='exec "$@" < /dev/zero'),
        Case("standard input is closed", (*INFER_TEXT[:-1], "-"), Refused("standard input"), shell='exec "$@" <&-'),
        Case("text comes through a pipe of the shell", (*INFER_TEXT[:-1], "/dev/fd/9"), Works(),
             shell='exec 9< <(cat dev.src); "$@"'),
    ]


CASES = [*_cases_of_text(), *_cases_of_index(), *_cases_of_recordings(), *_cases_of_lists(), *_cases_of_names()]
