"""Tutorials run to the end: their commands, programs and configs, with short trainings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from tests.integration import tutorials
from tests.integration.conftest import ROOT
from tests.integration.tutorials import NOT_RUN, Tutorial, commands, run, script

UPDATES = "--max_steps=4 --eval_steps=4"
LABELS = Tutorial("docs/own-labels.md", tutorials.labelled_texts, training="--num_epochs=2")
OWN_TEXT = {'{"dtype": "mixed"}': '{"dtype": "mixed", "max_steps": 4, "eval_steps": 4}',
            "recipe:own-text --mode=train_eval": f"recipe:own-text --mode=train_eval {UPDATES}"}
TUTORIALS = [
    Tutorial("README.md", tutorials.all_of_ones_own, shorter=OWN_TEXT | {
        f"{name}.py --mode=train_eval": f"{name}.py --mode=train_eval {words}" for name, words in (
            ("own-speech", UPDATES), ("own-images", "--num_epochs=1"))} | {
        "--logdir=mine\n": f"--logdir=mine {UPDATES}\n",
        "--continue_learning\n": "--continue_learning --max_steps=8 --eval_steps=4\n"}),
    Tutorial("docs/index.md", tutorials.sentence_pairs, shorter=OWN_TEXT),
    Tutorial("docs/getting-started.md", training=UPDATES),
    Tutorial("docs/own-text.md", tutorials.sentence_pairs, training=UPDATES),
    Tutorial("docs/own-images.md", tutorials.pictures, training="--num_epochs=1"),
    Tutorial("docs/speech-recognition.md", tutorials.recordings, ("Your own recordings",), training=UPDATES),
    Tutorial("docs/speech-synthesis.md", tutorials.own_voice,
             ("A toy voice in minutes", "Your own voice", "Clips for a recogniser"), training=UPDATES),
    Tutorial("docs/language-models.md", tutorials.running_text, ("A first model", "Generation and scores"),
             training=UPDATES),
    Tutorial("docs/translation.md", tutorials.captions, ("Multi30k, step by step",), training=UPDATES),
    Tutorial("docs/python.md", shorter={'"max_steps": 60, "eval_steps": 30, "save_checkpoint_steps": 30':
                                        '"max_steps": 6, "eval_steps": 3, "save_checkpoint_steps": 3',
                                        '"max_steps": 90': '"max_steps": 9'}, joined=True),
    Tutorial("docs/serving.md", tutorials.served_models),
]
NAMES = [tutorial.page.split("/")[-1].removesuffix(".md") for tutorial in TUTORIALS]


@pytest.mark.long
def test_the_tutorial_of_labels(tmp_path):
    run(LABELS, tmp_path)
    assert re.fullmatch(r"(good|bad)\t[\d.]+\n(good|bad)\t[\d.]+\n", (tmp_path / "new.tsv").read_text())


@pytest.mark.outside
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=NAMES)
def test_the_tutorial(tmp_path, tutorial):
    run(tutorial, tmp_path)


def test_each_page_has_a_script_and_each_exception_is_in_a_page(tmp_path):
    everything = []
    for tutorial in (*TUTORIALS, LABELS):
        text = script(tutorial, 8000)
        assert text.count("--- block") == len(list(tutorial.blocks())) > 0
        everything += [command for block in tutorial.blocks() for command in commands(block.text)]
        bash = shutil.which("bash")
        assert subprocess.run([bash, "-n"], input=text, text=True, env=os.environ, check=False).returncode == 0
    assert [command for command in NOT_RUN if command not in everything] == []


def test_pages_that_begin_with_ones_own_data_are_tutorials():
    pages = {path.name for path in (ROOT / "docs").glob("own-*.md")}
    assert pages <= {tutorial.page.split("/")[-1] for tutorial in (*TUTORIALS, LABELS)}
