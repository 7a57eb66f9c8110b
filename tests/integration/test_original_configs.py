"""The example configs of NVIDIA's OpenSeq2Seq itself, which are not part of this repository, on made-up data.

The environment variable OPENSEQ2SEQ_ORIGINAL names a working tree of that repository, or its git directory.
"""

from __future__ import annotations

import io
import json
import os
import string
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from open_seq2seq.config.loader import load_config
from open_seq2seq.data.image2label.toy_images import write_toy_cifar, write_toy_folders
from open_seq2seq.data.lm.tokenizers import LMVocabulary, count_tokens
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.data.text2speech.toy_voice import write_toy_voice
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.utils.errors import ConfigError
from scripts.create_toy_data import main as create_toy_data
from scripts.create_toy_text import main as create_toy_text

ORIGINAL = os.environ.get("OPENSEQ2SEQ_ORIGINAL", "")
CONFIGS = "example_configs"
RUN = Path(__file__).parents[2] / "run.py"
SPLITS = {"train_params": "train", "eval_params": "dev", "infer_params": "test"}
# This config uses a name that it does not define, and ends with one sentence.
UNDEFINED = "tacotron_gst"
CLASSES = 4
# Values for every config: a small batch for the processor of this machine.
COMMON = {"use_horovod": False, "num_gpus": 1, "batch_size_per_gpu": 2, "load_model": None, "logdir": "run"}

pytestmark = [pytest.mark.outside, pytest.mark.skipif(
    not ORIGINAL, reason="OPENSEQ2SEQ_ORIGINAL does not name a working tree or git directory of NVIDIA's OpenSeq2Seq")]


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", f"--git-dir={ORIGINAL}", *arguments], capture_output=True, check=True).stdout


def names() -> list[str]:
    if not ORIGINAL:
        return ["all"]
    if (Path(ORIGINAL) / CONFIGS).is_dir():
        paths = [str(path.relative_to(ORIGINAL)) for path in Path(ORIGINAL, CONFIGS).rglob("*.py")]
    else:
        paths = git("ls-tree", "-r", "--name-only", "HEAD", CONFIGS).decode().splitlines()
    return sorted(path for path in paths if path.endswith(".py"))


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the folder of configs."""
    if (Path(ORIGINAL) / CONFIGS).is_dir():
        return Path(ORIGINAL)
    folder = tmp_path_factory.mktemp("originals")
    with tarfile.open(fileobj=io.BytesIO(git("archive", "HEAD", CONFIGS))) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with made-up data of every kind."""
    folder = tmp_path_factory.mktemp("data")
    create_toy_data([f"--output_dir={folder}/text", "--train_size=40", "--dev_size=8", "--test_size=8"])
    plain = (folder / "text/vocab/source.txt").read_text()
    special = "".join(f"{SpecialTextTokens.to_string(token)}\n" for token in SpecialTextTokens)
    (folder / "text/vocab/special.txt").write_text(special + plain)
    write_toy_speech(f"{folder}/speech", {split: 8 for split in SPLITS.values()}, rate=16000)
    (folder / "alphabet.txt").write_text("".join(f"{letter}\n" for letter in f" {string.ascii_lowercase}'"))
    recordings = sorted((folder / "speech/wav").iterdir())[:8]
    (folder / "commands.txt").write_text("".join(f"{number % 2},{path}\n" for number, path in enumerate(recordings)))
    write_toy_cifar(f"{folder}/images", 10, 4)
    write_toy_folders(f"{folder}/images", {"train": 8, "val": 4})
    write_toy_voice(f"{folder}/voice", {split: 8 for split in SPLITS.values()})
    create_toy_text([f"--output_dir={folder}/lm", "--lines=900"])
    (folder / "lm/test.txt").write_bytes((folder / "lm/valid.txt").read_bytes())
    reviews = {"pos": "a good film", "neg": "a bad film"}
    for split in ("train", "test"):
        for part, text in reviews.items():
            (folder / "reviews" / split / part).mkdir(parents=True)
            for number in range(600):
                (folder / "reviews" / split / part / f"{number}_{1 + 9 * (part == 'pos')}.txt").write_text(text)
    for split in ("train", "val", "test"):
        (folder / f"reviews/{split}.csv").write_text("1,a good film\n0,a bad film\n" * 80)
    words = [text.split() for text in reviews.values()]
    LMVocabulary.of_counts(count_tokens(words * 5)).save(str(folder / "lm_vocab.txt"))
    return folder


def stand_ins(layer: str, split: str, given: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The parameters that replace the data of a section.

    Args:
      layer: name of the data layer's class.
      split: ``train``, ``dev`` or ``test``.
      given: the data layer's parameters in the config.
      root: the folder of made-up data.
    """
    special = given.get("special_tokens_already_in_vocab", True)
    vocabulary = root / f"text/vocab/{'special' if special else 'source'}.txt"
    reviews = {"data_root": f"{root}/reviews"}
    return {
        "CifarDataLayer": {"data_dir": f"{root}/images"}, "IMDBDataLayer": reviews, "SSTDataLayer": reviews,
        "ImagenetDataLayer": {"data_dir": f"{root}/images", "num_classes": CLASSES},
        "ParallelTextDataLayer": {
            **{f"{side}_file": f"{root}/text/{split}/{side}.txt" for side in ("source", "target")},
            "src_vocab_file": str(vocabulary), "tgt_vocab_file": str(vocabulary)},
        "Speech2TextDataLayer": {"dataset_files": [f"{root}/speech/{split}.csv"], "vocab_file": f"{root}/alphabet.txt"},
        "SpeechCommandsDataLayer": {"dataset_files": [f"{root}/commands.txt"], "dataset_location": str(root)},
        "Text2SpeechDataLayer": {"dataset_files": [f"{root}/voice/{split}.csv"], "dataset_location": f"{root}/voice",
                                 "vocab_file": f"{root}/voice/vocab.txt"},
        "WavenetDataLayer": {"dataset_files": [f"{root}/voice/{split}.csv"], "dataset_location": f"{root}/voice"},
        "WKTDataLayer": {"data_root": f"{root}/lm"},
    }[layer]


def arguments(config: Path, root: Path) -> list[str]:
    """The mode, with evaluation if the config has one, and the values with which the config reads made-up data."""
    sections = load_config(config).sections
    base = sections["base_params"]
    values: dict[str, Any] = dict(COMMON)
    for section, split in SPLITS.items():
        params = {**base, **sections.get(section, {})}
        if params.get("data_layer") is None:
            continue
        layer = params["data_layer"].__name__
        given = {**base.get("data_layer_params", {}), **params.get("data_layer_params", {})}
        for name, value in stand_ins(layer, split, given, root).items():
            values[f"{section}/data_layer_params/{name}"] = value
        if layer == "ImagenetDataLayer":
            values["decoder_params/output_dim"] = CLASSES
        if layer in ("IMDBDataLayer", "SSTDataLayer"):
            values["lm_vocab_file"] = f"{root}/lm_vocab.txt"
    if "processed_data_folder" in base:
        values["processed_data_folder"] = f"{root}/processed/{config.stem}"
    mode = "train_eval" if "eval_params" in sections else "train"
    return [f"--mode={mode}", *(f"--{name}={json.dumps(value)}" for name, value in values.items())]


@pytest.mark.parametrize("name", names())
def test_a_config_of_the_original_can_be_run(name: str, originals: Path, root: Path, tmp_path: Path):
    config = originals / name
    fails = config.stem == UNDEFINED
    try:
        values = arguments(config, root)
    except ConfigError as error:
        assert fails and len(error.problems) == 1, error
        return
    done = subprocess.run([sys.executable, RUN, f"--config_file={config}", "--check", *values], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert (done.returncode, "The config can be run" in done.stdout) == (0, True), done.stderr + done.stdout
    assert "is a config of NVIDIA's OpenSeq2Seq" in done.stdout
