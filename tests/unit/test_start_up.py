"""How the command starts: mistakes are answered before TensorFlow is imported, and nothing is imported needlessly."""

from __future__ import annotations

import subprocess
import sys

import pytest

CONFIG = '''
from open_seq2seq.models import Text2Text

base_model = Text2Text
base_params = {"logdir": "run", "own_checks": 1}
'''
# Runs the command, and says which of the large packages it has imported.
PROGRAM = """
import sys
from open_seq2seq.cli import main
code = main(sys.argv[1:])
print("imported:", *[name for name in ("tensorflow", "keras", "numpy", "sklearn", "matplotlib") if name in sys.modules])
sys.exit(code)
"""


def start(folder, program: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", program, *arguments], cwd=folder, capture_output=True, text=True,
                          timeout=300, check=False)


@pytest.mark.parametrize(("arguments", "code", "said"), [
    (["--help"], 0, "usage: run.py"),
    (["--mode=trian"], 2, "Did you mean 'train'"),
    (["--continue_lerning"], 2, "Did you mean '--continue_learning'"),
    (["--output_file=x"], 2, "Did you mean '--infer_output_file'"),
    (["--max_steps"], 2, "'--max_steps' needs a value"),
    (["--mode"], 2, "expected one argument"),
    (["--bench_steps=x"], 2, "--bench_steps"),
    (["--config_file=confg.py"], 2, "Did you mean 'config.py'"),
    (["--config_file=variant.py"], 2, "confg.py, does not exist. Did you mean 'config.py'"),
    (["stray"], 2, "'stray' is not understood"),
])
def test_a_mistake_on_the_command_line_needs_no_tensorflow(tmp_path, arguments, code, said):
    (tmp_path / "config.py").write_text(CONFIG)
    (tmp_path / "variant.py").write_text("from shared import data_root\nbase_config = 'confg.py'\n")
    done = start(tmp_path, PROGRAM, "--config_file=config.py", *arguments)
    assert done.returncode == code and said in done.stdout + done.stderr, done.stderr
    assert done.stdout.splitlines()[-1] == "imported:"


@pytest.mark.parametrize(("arguments", "code", "said"), [
    (["recipes", "toy"], 0, "nmt-reversal-TT: Toy task"),
    (["recipes", "--help"], 0, "usage: open_seq2seq recipes"),
    (["script"], 0, "create_toy_data: "),
    (["recipes", "copy"], 2, "recipes copy NAME"),
    (["--config_file=recipe:own-txt"], 2, "Did you mean own-text"),
])
def test_commands_about_recipes_need_no_tensorflow(tmp_path, arguments, code, said):
    done = start(tmp_path, PROGRAM, *arguments)
    assert done.returncode == code and said in done.stdout + done.stderr, done.stderr
    assert "tensorflow" not in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(("text", "argument", "known"), [
    ("base_params: {chek: 1}\n", "--chek=1", True),
    ("base_params: {logdir: run}\n", "--chek=1", False),
])
def test_a_key_of_the_config_is_no_misspelt_flag(tmp_path, text, argument, known):
    from open_seq2seq.config.loader import possible_keys
    from open_seq2seq.config.overrides import check_words, parse_overrides
    from open_seq2seq.utils.errors import ConfigError

    (tmp_path / "config.yaml").write_text(text)
    words = possible_keys(tmp_path / "config.yaml")
    if known:
        check_words(parse_overrides([argument]), lambda: words, ("--check",))
    else:
        with pytest.raises(ConfigError, match="Did you mean '--check'"):
            check_words(parse_overrides([argument]), lambda: words, ("--check",))


@pytest.mark.parametrize("text", ["from shared import base_params\n", "import yaml, os\n", "base_params = {\n"])
def test_keys_that_a_config_takes_from_elsewhere_are_not_guessed(tmp_path, text):
    from open_seq2seq.config.loader import possible_keys

    (tmp_path / "config.py").write_text(text)
    assert possible_keys(tmp_path / "config.py") is None


KERAS = """
import sys
from open_seq2seq.utils.tensorflow_import import in_own_process
in_own_process()
import keras
needless = [name for name in ("sklearn", "matplotlib") if name in sys.modules]
assert not needless, needless
print(keras.wrappers.SKLearnClassifier.__name__, keras.visualization.plot_image_gallery.__name__)
"""


@pytest.mark.long
def test_keras_imports_scikit_learn_and_matplotlib_only_where_they_are_used(tmp_path):
    done = start(tmp_path, KERAS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["SKLearnClassifier", "plot_image_gallery"]


def test_importing_the_package_changes_nothing(tmp_path):
    program = """
import sys
before = list(sys.meta_path), set(sys.modules)
import open_seq2seq
assert sys.meta_path == before[0], sys.meta_path
print(*sorted(name for name in set(sys.modules) - before[1] if not name.startswith("open_seq2seq")))
"""
    done = start(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert not {"tensorflow", "keras", "numpy"} & {*done.stdout.split()}
