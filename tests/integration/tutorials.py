"""The command blocks of the tutorials as programs: what the pages say, with short trainings on small made-up data."""

from __future__ import annotations

import csv
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from open_seq2seq.data.image2label.toy_images import write_toy_folders
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.data.text2speech.toy_voice import write_toy_voice
from tests.integration.conftest import ROOT
from tests.unit.data.text2text.test_own_text import pairs

# Command → why it does not run here. Every other command of the tutorials does.
NOT_RUN = {
    "git clone <this repository> && cd OpenSeq2Seq": "the repository is here",
    "git clone <this repository> && cd OpenSeq2Seq && python3 -m venv .venv && source .venv/bin/activate":
        "the repository is here, and the tests have their environment",
    "python3 -m venv .venv && source .venv/bin/activate    # again in each new shell: source .venv/bin/activate":
        "the tests have their environment",
    "pip install -e '.[cpu]'      # or '.[gpu]'":
        "the tests do not change their environment; test_wheel.py installs the package in one of its own",
    "pip install -e '.[cpu]'      # or '.[gpu]'; of a wheel: pip install 'open_seq2seq-0.1.0-py3-none-any.whl[cpu]'":
        "the tests do not change their environment; test_wheel.py installs the package in one of its own",
    "pip install -e '.[cpu]'      # in a clone of the repository; or '.[gpu]'":
        "the tests do not change their environment; test_wheel.py installs the package in one of its own",
    "make demo           # trains, evaluates and runs a small Transformer in four minutes":
        "makes an environment; the commands of the toy task are in Getting started",
    "make demo-speech    # trains a small voice, and speaks with it":
        "makes an environment; the commands of the toy voice are in Speech synthesis",
    "make demo-speech": "makes an environment; its commands follow on the page",
    "make test           # runs the tests": "the tests are running",
    "make horovod        # builds Horovod for the installed TensorFlow; needs a C++ compiler":
        "takes minutes; continuous integration runs it",
    "pip install -e '.[cpu,serve]'": "the tests do not change their environment",
    "pip install -e '.[cpu,serve,wyoming]'": "the tests do not change their environment",
    "pip install -e '.[cpu,align,numbers]'": "the tests do not change their environment",
}
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_TRAINS = re.compile(r"--mode=train(_eval)?\b")
_READY = """\
for second in $(seq 240); do
  curl --output /dev/null http://127.0.0.1:{port}/ready && break
  kill -0 $! && sleep 1
done"""


class Block(NamedTuple):
    """A block of a page: its language and text, and the name of the file that the words before it tell to write."""

    language: str
    text: str
    file: str


@dataclass(frozen=True)
class Tutorial:
    """A page, or sections of it, and what its commands need.

    Attributes:
      page: path of the page in the repository.
      inputs: writes the data that a reader brings to a folder.
      sections: headings of the sections to run; all of the page if empty.
      shorter: text of the page → text in its place, for shorter trainings.
      training: words that are added to each command that trains.
      joined: whether the Python blocks of the page are one program.
    """

    page: str
    inputs: Callable[[Path], object] = lambda folder: None
    sections: tuple[str, ...] = ()
    shorter: dict[str, str] = field(default_factory=dict)
    training: str = ""
    joined: bool = False

    def text(self) -> str:
        """Returns the sections to run."""
        text = (ROOT / self.page).read_text(encoding="utf-8")
        if not self.sections:
            return text
        parts = re.split(r"^(?=##+ )", text, flags=re.MULTILINE)
        chosen = [part for part in parts if part.split("\n")[0].lstrip("# ") in self.sections]
        assert len(chosen) == len(self.sections), f"{self.page} has no longer the sections {self.sections}"
        return "\n".join(chosen)

    def blocks(self) -> Iterator[Block]:
        """Yields the blocks of commands, programs and configs."""
        text = self.text()
        for match in _FENCE.finditer(text):
            body = textwrap.dedent(match[3])
            named = re.findall(r"(?<=`)\w+\.py(?=`)|(?<=# )\w+\.py$", text[:match.start()] + body.split("\n")[0])
            if match[2] == "bash" or (match[2] == "python" and _is_program_or_config(body)):
                yield Block(match[2], body, named[-1] if named and "base_config =" in body else "")


def _is_program_or_config(text: str) -> bool:
    """Returns whether Python code is more than a part of a config, such as ``"dtype": "mixed",``."""
    return "import " in text or "base_config =" in text or "=" in text.split("\n")[0].partition('"')[0]


def commands(text: str) -> list[str]:
    """Returns the commands of a bash block; one that is continued in the next line is one command."""
    return [line for line in re.sub(r" *\\\n *", " ", text).splitlines() if line.strip()]


def script(tutorial: Tutorial, port: int) -> str:
    """Returns the blocks of a tutorial as one bash script."""
    lines = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    blocks = list(tutorial.blocks())
    programs = [block.text for block in blocks if block.language == "python" and not block.file]
    for number, block in enumerate(blocks, 1):
        lines.append(f"echo '--- block {number} of {tutorial.page}' >&2")
        if block.language == "bash":
            for command in commands(block.text):
                lines += _as_run(command, tutorial, port)
        elif block.file:
            lines.append(f"cat > {block.file} <<'END_OF_FILE'\n{block.text}END_OF_FILE")
        elif not tutorial.joined or block.text == programs[0]:
            program = "\n".join(programs) if tutorial.joined else block.text
            lines.append(f"python - <<'END_OF_FILE'\n{program}END_OF_FILE")
    text = "\n".join(lines).replace("8000", str(port)) if "serving" in tutorial.page else "\n".join(lines)
    for before, after in tutorial.shorter.items():
        assert before in text, f"{tutorial.page} no longer contains {before!r}"
        text = text.replace(before, after)
    return text + "\n"


def _as_run(command: str, tutorial: Tutorial, port: int) -> list[str]:
    if command in NOT_RUN:
        return []
    if re.match(r"open_seq2seq serve\b", command):
        return [f"{command} &", _READY.format(port=port)]
    if _TRAINS.search(command) and tutorial.training:
        words, comment = re.fullmatch(r"(.*?)(\s+#.*)?", command).groups("")
        for option in tutorial.training.split():  # in place of the page's own
            words = re.sub(rf" {option.partition('=')[0]}=\S+", "", words)
        return [f"{words} {tutorial.training}{comment}"]
    return [command]


def run(tutorial: Tutorial, folder: Path) -> str:
    """Runs a tutorial in a folder as if it were that of the toolkit; returns its output, also of an error."""
    for name in ("run.py", "scripts", "example_configs"):
        (folder / name).symlink_to(ROOT / name)
    tutorial.inputs(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / ".curlrc").write_text("fail-with-body\nsilent\nshow-error\n", encoding="utf-8")
    (folder / "tutorial.sh").write_text(script(tutorial, port), encoding="utf-8")
    variables = {"PYTHONPATH": str(ROOT), "CURL_HOME": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3",
                 "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "tutorial.sh"], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=1500, check=False,
                          env={**os.environ, **variables})
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def sentence_pairs(folder: Path) -> None:
    """Writes a table of sentence pairs, and a text to translate."""
    rows = pairs(400)
    (folder / "pairs.tsv").write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in rows), encoding="utf-8")
    (folder / "letters.es").write_text("el perro corre por la calle\nuna niña mira los árboles\n", encoding="utf-8")


def captions(folder: Path) -> None:
    """Writes files with the names of Multi30k, of enough different words for 8,000 pieces of SentencePiece."""
    place = folder / "FOLDER_WITH_THE_FILES"
    place.mkdir()
    choose = random.Random(0)
    words = ["".join(choose.choices("abcdefghijklmnopqrstuvwxyz", k=choose.randint(3, 9))) for _ in range(8000)]
    for name, count in (("train", 3000), ("val", 60), ("test_2016_flickr", 60)):
        lines = [choose.choices(words, k=choose.randint(4, 12)) for _ in range(count)]
        (place / f"{name}.en").write_text("".join(f"{' '.join(line)}\n" for line in lines))
        (place / f"{name}.de").write_text("".join(f"{' '.join(reversed(line))}\n" for line in lines))


def labelled_texts(folder: Path) -> None:
    """Writes a table of labelled texts, and texts to classify."""
    words = {"good": "lovely bright moving funny rich".split(), "bad": "dull flat tired empty slow".split()}
    choose = random.Random(0)
    rows = [(number, f"The film number {number} is {choose.choice(some)} and {choose.choice(some)}.", label)
            for number in range(100) for label, some in words.items()]
    with open(folder / "reviews.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "review", "opinion"), *rows])
    (folder / "new.txt").write_text("A lovely film\nSo dull, so slow\n", encoding="utf-8")


def pictures(folder: Path) -> None:
    """Writes folders of pictures of four classes, and pictures to classify."""
    write_toy_folders(str(folder), {"pictures": 80, "new_pictures": 8})
    first, second, *_ = sorted((folder / "new_pictures").rglob("*.png"))
    first.rename(folder / "new_pictures" / "a.jpg")  # pictures are read by what they contain
    second.rename(folder / "one.jpg")


def recordings(folder: Path) -> None:
    """Writes recordings of eight speakers with their table, and recordings to transcribe."""
    write_toy_speech(str(folder), {"clips": 40})
    with open(folder / "clips.csv", encoding="utf-8", newline="") as file:
        rows = [(row["wav_filename"], row["transcript"], f"speaker{number % 8}")
                for number, row in enumerate(csv.DictReader(file))]
    with open(folder / "recordings.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("wav_filename", "transcript", "speaker"), *rows])
    (folder / "folder_of_recordings").mkdir()
    (folder / "new_recordings").mkdir()
    for name in ("folder_of_recordings/1.wav", "new_recordings/1.wav", "one.wav"):
        shutil.copy(folder / rows[0][0], folder / name)


def own_voice(folder: Path) -> None:
    """Writes clips of a voice and their texts."""
    write_toy_voice(str(folder / "my_voice"), {"train": 40})
    lines = (folder / "my_voice" / "train.csv").read_text(encoding="utf-8").splitlines()
    (folder / "my_voice" / "metadata.csv").write_text("".join("|".join(line.split("|")[:2]) + "\n" for line in lines))


def running_text(folder: Path) -> None:
    """Writes beginnings to continue, and lines to score."""
    for name in ("prompts.txt", "lines.txt"):
        (folder / name).write_text("a\nb\n", encoding="utf-8")


def served_models(folder: Path) -> None:
    """Unpacks toy models under the names of the page, and copies a recording."""
    for name, logdir in (("reversal", "my_run"), ("speech", "my_recogniser"), ("voice", "my_voice")):
        with zipfile.ZipFile(ROOT / "toy_models" / f"{name}.zip") as archive:
            archive.extractall(folder / logdir)
    write_toy_speech(str(folder), {"talk": 1}, rate=8000)
    shutil.copy(folder / "wav" / "talk-0000.wav", folder / "talk.wav")


def all_of_ones_own(folder: Path) -> None:
    """Writes a reader's sentence pairs, labelled texts, pictures and recordings."""
    for write in (sentence_pairs, labelled_texts, pictures, recordings):
        write(folder)
