"""The import of TensorFlow and its settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from open_seq2seq.utils import tensorflow_import

SCRIPTS = Path(__file__).parents[3] / "scripts"
PROGRAM = """
from open_seq2seq.utils.tensorflow_import import import_tensorflow
import_tensorflow()
import tensorflow as tf
with tf.device("CPU:0"):
    kept = tf.ones([1 << 20])
try:
    print(tf.config.experimental.get_memory_info("CPU:0")["current"] >= 1 << 22)
except ValueError as error:
    print(error)
"""


@pytest.mark.long
@pytest.mark.parametrize(("given", "printed"), [(None, "True"), ("false", "Allocator stats not available")])
def test_tensors_have_the_allocator_that_keeps_freed_memory_unless_told_otherwise(given, printed):
    unset = {name: value for name, value in os.environ.items() if not name.startswith("TF_CPU_")}
    env = unset if given is None else {**unset, "TF_CPU_ALLOCATOR_USE_BFC": given}
    env["TF_ENABLE_ONEDNN_OPTS"] = "0"  # with oneDNN, TensorFlow always uses an allocator that keeps freed memory
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(printed) and done.stderr == ""


def test_scripts_have_that_allocator():
    code = ("import os\nfrom open_seq2seq.utils.script import run_script\n"
            "run_script(lambda: print(os.environ['TF_CPU_ALLOCATOR_USE_BFC']))")
    unset = {name: value for name, value in os.environ.items() if not name.startswith("TF_CPU_")}
    done = subprocess.run([sys.executable, "-c", code], env=unset, capture_output=True, text=True, check=True)
    assert done.stdout == "true\n"


@pytest.mark.long
def test_transposed_integers_raise_no_false_alarm():
    code = ("from open_seq2seq.utils.tensorflow_import import import_tensorflow, suppress_false_alarm\n"
            "import_tensorflow()\nsuppress_false_alarm()\nimport tensorflow as tf\n"
            "print(tf.transpose(tf.range(6)[tf.newaxis]).shape)")
    env = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "(6, 1)\n" and done.stderr == ""


@pytest.mark.parametrize("name", [
    "average_checkpoints", "replay_batch", "rescore"])
def test_scripts_import_tensorflow_without_its_log_first(name):
    before, call, _ = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8").partition("\nquiet_tensorflow()\n")
    assert call and re.findall(r"^(?:from|import) ((?:open_seq2seq|tensorflow)\S*)", before, re.MULTILINE) == [
        "open_seq2seq.utils.script"]


@pytest.mark.long
def test_a_script_that_imports_tensorflow_at_once_does_not_show_its_log():
    command = [sys.executable, SCRIPTS / "rescore.py", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True,
                          env={key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"})
    assert done.stdout.startswith("usage:") and done.stderr == ""


@pytest.mark.parametrize(("error", "shown"), [(ImportError, "log"), (KeyboardInterrupt, "")])
def test_the_log_is_shown_after_an_error_but_not_after_an_interrupt(error, shown, capfd):
    with pytest.raises(error), tensorflow_import._stderr_held_back():
        os.write(2, b"log")
        raise error
    assert capfd.readouterr().err == shown
