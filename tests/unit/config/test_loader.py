import sys
from pathlib import Path

import pytest

from open_seq2seq.config.loader import load_config
from open_seq2seq.utils.errors import ConfigError

PLAIN = "base_model = 'Text2Text'\nbase_params = {'logdir': 'x'}\n"


@pytest.fixture(autouse=True)
def path_restored(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))


def write(folder: Path, text: str, name: str = "config.py") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def test_python_config_keeps_objects_and_has_tf(tmp_path):
    file = load_config(write(tmp_path, """
class Hook: pass
class Model: pass
scale = 20.0
base_model = Model
base_params = {"dtype": tf.float32, "activation_fn": lambda x: tf.minimum(x, scale), "hooks": [Hook]}
eval_params = {}
infer_params = None
"""))
    assert set(file.sections) == {"base_params", "eval_params"}
    assert file.base_model.__name__ == "Model"
    assert file.sections["base_params"]["hooks"][0].__name__ == "Hook"
    assert file.sections["base_params"]["dtype"].name == "float32"
    assert float(file.sections["base_params"]["activation_fn"](30.0)) == 20.0
    assert Path(file.path).is_absolute()


def test_yaml_config(tmp_path):
    file = load_config(write(tmp_path, """
base_model: Text2Text
base_params:
  learning_rate: 1e-3
  load_model: None
  name: "None"
  dataset_files: [a.csv, b.csv]
  common: &common {x: 1}
  nested: {<<: *common, y: 2.5}
train_params: {max_steps: 10}
""", "config.yaml"))
    assert file.base_model == "Text2Text"
    assert file.sections["base_params"] == {
        "learning_rate": 1e-3, "load_model": None, "name": "None", "dataset_files": ["a.csv", "b.csv"],
        "common": {"x": 1}, "nested": {"x": 1, "y": 2.5}}
    assert file.sections["train_params"] == {"max_steps": 10}


def test_siblings_are_importable_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    for name in "ab":
        write(tmp_path / name, f"def size():\n    import later_{name}\n    return '{name}'\n", "common_sizes.py")
        write(tmp_path / name, "", f"later_{name}.py")
        write(tmp_path / name, "import common_sizes\n" + PLAIN + "base_params['size'] = common_sizes.size\n")
    loaded = [load_config(tmp_path / name / "config.py") for name in "aba"]
    # Each config gets its own sibling of the same name, and imports inside functions still work later.
    assert [file.sections["base_params"]["size"]() for file in loaded] == ["a", "b", "a"]


def test_path_does_not_grow(tmp_path):
    path = write(tmp_path, PLAIN)
    load_config(path)
    before = list(sys.path)
    load_config(path)
    assert sys.path == before and sys.path[0] != str(tmp_path)


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("config.py", "base_model = 'M'\n", "no base_params"),
    ("config.py", "base_params = {}\n", "no base_model"),
    ("config.py", "base_model = 3\nbase_params = {}\n", "base_model is 3"),
    ("config.py", PLAIN + "train_params = [1]\n", "train_params is of type list"),
    ("config.py", PLAIN + "x = (\n", "config.py, line 3: '(' was never closed"),
    ("config.py", PLAIN + "x = fales\n", "config.py, line 3: NameError: name 'fales' is not defined"),
    ("config.py", PLAIN + "x = {}['small']\n", "config.py, line 3: KeyError: there is no key 'small'."),
    ("config.py", PLAIN + "x = sortd\n", "Did you mean 'sorted'?"),
    ("config.py", "import no_such_module_here\n", "line 1: ModuleNotFoundError"),
    ("config.py", "from collections import OrderedDic\n", "Did you mean 'OrderedDict'?"),
    ("config.py", PLAIN + "x = tf.contrib.layers\n", "line 3: Write each name of tf.contrib.layers in full"),
    ("config.py", "import sys\nsys.exit(3)\n", "sys.exit(3)"),
    ("config.py", "raise GeneratorExit\n", "line 1: GeneratorExit."),
    ("config.py", "class E(Exception):\n  def __str__(self): raise KeyError\nraise E\n", "line 3: E."),
    ("config.py", PLAIN + "base_params['x'] = [base_params]\n", "base_params contains itself"),
    ("config.py", "# " + "x" * (1 << 22), "has more than 4,194,304 bytes"),
    ("config.yaml", "base_model: M\nbase_params: {}\ntrain_parms: {}\n", "'train_parms'"),
    ("config.yaml", "base_model: M\nbase_params: {}\ntrain_parms: {}\n", "Did you mean 'train_params'?"),
    ("config.yaml", "base_model: M\nbase_params: [1]\n", "base_params is of type list"),
    ("config.yaml", "base_model: M\nbase_params:\n  a: [1\n", "line 4 is not valid YAML"),
    ("config.yaml", "base_model: M\nbase_params:\n  a: 1\n  a: 2\n", "line 4 is not valid YAML: the key 'a' occurs"),
    ("config.yaml", "base_model: !!python/name:os.system\nbase_params: {}\n", "line 1 is not valid YAML"),
    ("config.yaml", "base_model: M\nbase_params:\n  a: !!bool maybe\n", "line 3 is not valid YAML: 'maybe' cannot"),
    ("config.yaml", "base_model: M\nbase_params:\n  1: 2\n", "base_params has the key 1, but keys must be strings"),
    ("config.yaml", "- 1\n", "has to be a mapping"),
    ("config.yaml", "", "has to be a mapping"),
    ("config.txt", "", "has to end in .py"),
])
def test_bad_configs(tmp_path, name, text, expected):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text, name))
    assert expected in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_error_in_a_sibling_names_the_sibling(tmp_path):
    write(tmp_path, "\nx = 1 / 0\n", "broken_sizes.py")
    with pytest.raises(ConfigError, match=r"broken_sizes\.py, line 2: ZeroDivisionError"):
        load_config(write(tmp_path, "import broken_sizes\n"))


def test_problems_of_a_file_are_collected(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, "train_params = 1\neval_params = 2\n"))
    assert len(caught.value.problems) == 4


def test_missing_file_names_a_near_one(tmp_path):
    write(tmp_path, PLAIN, "transformer.py")
    with pytest.raises(ConfigError, match=r"does not exist\. Did you mean 'transformer\.py'\?"):
        load_config(tmp_path / "transfomer.py")
    with pytest.raises(ConfigError, match="is a folder"):
        load_config(tmp_path)


def test_a_config_that_clears_the_places_of_modules(tmp_path):
    before = list(sys.path)
    load_config(write(tmp_path, PLAIN + "import sys\nsys.path.clear()\nsys.path.append('/mine')\n"))
    assert {*before, "/mine"} <= {*sys.path}


def test_misspelt_section_is_pointed_out(tmp_path, capsys):
    load_config(write(tmp_path, PLAIN + "train_param = {}\nencoder_params = {}\n"))
    out = capsys.readouterr().out
    assert "'train_param', which is not used. Did you mean 'train_params'?" in out
    assert "encoder_params" not in out
