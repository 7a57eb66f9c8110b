"""A config that is based on another one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from open_seq2seq.config.base_config import merge_sections
from open_seq2seq.config.loader import ConfigFile, load_config, possible_keys
from open_seq2seq.config.names import resolve_name
from open_seq2seq.config.resolve import resolve
from open_seq2seq.utils.errors import ConfigError

BASE = '''"""A base.

Data: python make.py
"""
data_root, size = "data/", 2
steps = 1
if size > 1:
    steps = 10 * size
names = [f"{data_root}{number}" for number in range(size)]
base_model = "Text2Text"
base_params = {"max_steps": steps, "names": names, "logdir": "run",
               "optimizer": "Adam", "optimizer_params": {"beta1": 0.9, "epsilon": 1e-9}}
infer_params = {"names": [data_root + "test"], "max_steps": 1}
'''


@pytest.fixture(autouse=True)
def path_restored(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))


def write(folder: Path, **texts: str) -> Path:
    """Writes files, whose names have "_" instead of ".", and returns the path of the first."""
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("_", ".")).write_text(text)
    return folder / next(iter(texts)).replace("_", ".")


def load(folder: Path, text: str, base: str = BASE) -> ConfigFile:
    return load_config(write(folder, variant_py="base_config = 'base.py'\n" + text, base_py=base))


def test_a_variant_says_what_differs(tmp_path, monkeypatch):
    config = load(tmp_path, "base_params = {'logdir': 'mine', 'optimizer_params': {'beta1': 0.8}, 'dtype': 'mixed'}\n"
                            "eval_params = {'max_steps': 3}\ninfer_params = {'max_steps': 2}\n")
    assert config.sections == {
        "base_params": {"max_steps": 20, "names": ["data/0", "data/1"], "logdir": "mine", "optimizer": "Adam",
                        "optimizer_params": {"beta1": 0.8, "epsilon": 1e-9}, "dtype": "mixed"},
        "infer_params": {"names": ["data/test"], "max_steps": 2}, "eval_params": {"max_steps": 3}}
    assert (config.base_model, config.data_note) == ("Text2Text", "python make.py")
    assert config.path == str(tmp_path / "variant.py") and config.base_files == (str(tmp_path / "base.py"),)
    write(tmp_path, yaml_yml="# Data: none\nbase_config: variant.py\nbase_model: Mine\nbase_params: {dtype: float32}\n")
    monkeypatch.chdir("/")
    other = load_config(tmp_path / "yaml.yml")
    assert other.sections["base_params"] == {**config.sections["base_params"], "dtype": "float32"}
    assert (other.base_model, other.data_note) == ("Mine", "none")
    assert [Path(path).name for path in other.files] == ["yaml.yml", "variant.py", "base.py"]


def test_variables_of_a_base(tmp_path, capsys):
    values = load(tmp_path, "data_root = 'my/'\nsteps = 7\n").sections
    assert values["base_params"]["names"] == ["my/0", "my/1"] and values["infer_params"]["names"] == ["my/test"]
    assert values["base_params"]["max_steps"] == 7 and capsys.readouterr().out == ""
    write(tmp_path, last_py="base_config = 'variant.py'\nsize, steps = 1, 5\n")
    values = load_config(tmp_path / "last.py").sections["base_params"]
    assert values["names"] == ["my/0"] and values["max_steps"] == 5
    assert load_config(tmp_path / "base.py").sections["base_params"]["max_steps"] == 20
    # Functions, classes, modules and names that begin with "_" are the variant's own.
    text = "import os as size\n_n = 3\ndef names(): pass\nclass steps: pass\n"
    assert load(tmp_path, text, BASE + "_n = 1\nbase_params['n'] = _n\n").sections["base_params"] == {
        "max_steps": 20, "names": ["data/0", "data/1"], "logdir": "run", "n": 1, "optimizer": "Adam",
        "optimizer_params": {"beta1": 0.9, "epsilon": 1e-9}}


@pytest.mark.parametrize("text", ["x = 1\nx: int = 2\nx += 1\n", "x = y = 4\n", "(x, *y), z = [1, 2], 3\n",
                                  "try:\n    x = 1\nexcept ValueError:\n    pass\n"])
def test_each_assignment_of_a_variable_is_replaced(tmp_path, text):
    assert load(tmp_path, "x = 7\n", f"{text}base_model, base_params = 'M', {{'x': x}}\n").sections == {
        "base_params": {"x": 7}}


def test_a_misspelt_variable_is_pointed_out(tmp_path, capsys):
    load(tmp_path, "data_rot = 'my/'\nstep = 3\nlogdir = 'mine'\nbase_params = {'a': step}\n")
    variant = tmp_path / "variant.py"
    out = capsys.readouterr().out
    assert f"{variant} assigns 'data_rot', which is not used. Did you mean 'data_root'?" in out
    assert """assigns 'logdir', which is not used. Did you mean 'base_params = {"logdir": …}'?""" in out
    load_config(write(tmp_path, misspelt_py="base_confg = 'base.py'\nbase_model, base_params = 'M', {}\n"))
    assert "'base_confg', which is not used. Did you mean 'base_config'?" in capsys.readouterr().out


@pytest.mark.parametrize(("variant", "expected"), [
    # Another choice brings its own parameters, and replaces those of all sections.
    ({"base_params": {"decoder": "B", "decoder_params": {"z": 1}}},
     {"base_params": {"decoder": "B", "decoder_params": {"z": 1}, "a": {"cell": "L", "cell_params": {"n": 1}}},
      "infer_params": {"b": 1}}),
    ({"base_params": {"decoder": None}},
     {"base_params": {"decoder": None, "a": {"cell": "L", "cell_params": {"n": 1}}}, "infer_params": {"b": 1}}),
    # At any depth.
    ({"base_params": {"a": {"cell": "G"}}},
     {"base_params": {"decoder": "A", "decoder_params": {"x": 1}, "a": {"cell": "G"}},
      "infer_params": {"decoder": "S", "decoder_params": {"y": 1}, "b": 1}}),
    # In a section, those of this section only; the section inherits from base_params as without a base.
    ({"infer_params": {"decoder": "T", "b": 2}},
     {"base_params": {"decoder": "A", "decoder_params": {"x": 1}, "a": {"cell": "L", "cell_params": {"n": 1}}},
      "infer_params": {"decoder": "T", "b": 2}}),
    # The same choice changes nothing.
    ({"base_params": {"decoder": type("A", (), {}), "a": {"cell": "L", "cell_params": {"m": 2}}}},
     {"base_params": {"decoder": "A", "decoder_params": {"x": 1},
                      "a": {"cell": "L", "cell_params": {"n": 1, "m": 2}}},
      "infer_params": {"decoder": "S", "decoder_params": {"y": 1}, "b": 1}}),
    # What is dropped from base_params is gone; what is dropped from a section is dropped when the section is merged.
    ({"base_params": {"a": "<drop>", "decoder_params": {"x": "<drop>"}}, "infer_params": {"b": "<drop>"}},
     {"base_params": {"decoder": "A", "decoder_params": {}},
      "infer_params": {"decoder": "S", "decoder_params": {"y": 1}, "b": "<drop>"}}),
])
def test_sections(variant: dict[str, Any], expected: dict[str, Any]):
    base = {"base_params": {"decoder": "A", "decoder_params": {"x": 1}, "a": {"cell": "L", "cell_params": {"n": 1}}},
            "infer_params": {"decoder": "S", "decoder_params": {"y": 1}, "b": 1}}
    merged, problems = merge_sections(base, variant)
    named = {name: {key: getattr(value, "__name__", value) for key, value in section.items()}
             for name, section in merged.items()}
    assert (named, problems) == (expected, [])


def test_a_dropped_key_is_gone_from_the_mode(tmp_path):
    config = load(tmp_path, "infer_params = {'optimizer_params': {'beta1': '<drop>'},\n"
                            "                'more': {'a': '<drop>', 'b': 1}}\n")
    assert resolve(config, "infer").params("infer") == {
        "max_steps": 1, "names": ["data/test"], "logdir": "run", "optimizer": "Adam",
        "optimizer_params": {"epsilon": 1e-9}, "more": {"b": 1}}


def test_modules_beside_the_configs_are_shared(tmp_path):
    use = "from own_parts_of_base import Part\n"
    write(tmp_path, part_py="class Part: pass\n")
    (tmp_path / "part.py").rename(tmp_path / "own_parts_of_base.py")
    config = load(tmp_path, f"{use}base_params = {{'a': Part}}\n",
                  f"{use}base_model, base_params = Part, {{'a': None, 'b': Part}}\n")
    part = config.base_model
    assert config.sections["base_params"] == {"a": part, "b": part}
    assert resolve_name(f"{tmp_path}/own_parts_of_base.py:Part", "", "x") is part


@pytest.mark.parametrize(("files", "words"), [
    ({"a_py": "base_config = 'b.py'"}, "The base_config of {0}/a.py, {0}/b.py, does not exist."),
    ({"a_yaml": "base_config: bb.yaml", "b_yaml": ""},
     "The base_config of {0}/a.yaml, {0}/bb.yaml, does not exist. Did you mean 'b.yaml'?"),
    ({"a_py": "base_config = '.'"}, "The base_config of {0}/a.py, {0}, is a folder, not a file."),
    ({"a_py": "base_config = 'b.txt'", "b_txt": ""},
     "The base_config of {0}/a.py, {0}/b.txt, has to end in .py, .yaml or .yml."),
    ({"a_py": "base_config = 'b.py'", "b_py": "x = 1"},
     "The base_config of {0}/a.py, {0}/b.py, is not a config: it defines neither base_model nor base_params."),
    ({"a_py": "base_config = 'b.py'", "b_py": "base_model = 'M'"},
     "The base_config of {0}/a.py, {0}/b.py, defines no base_params"),
    ({"a_py": "base_config = 'a.py'"}, "The base_config of {0}/a.py, {0}/a.py, is itself based on {0}/a.py"),
    ({"a_py": "base_config = 'b.py'", "b_py": "base_config = 'c.yml'", "c_yml": "base_config: ./a.py"},
     "The base_config of {0}/c.yml, {0}/a.py, is itself based on {0}/c.yml: a config cannot be its own base"),
    ({"a_py": "base_config = 3"}, "In {0}/a.py, base_config is 3 but has to be the path of a config file."),
    ({"a_py": "base_config = ''"}, "In {0}/a.py, base_config is '' but has to be the path"),
    ({"a_py": "base_config = 'b.py'\nbase_params = {'dtpye': '<drop>'}", "b_py": BASE},
     "In {0}/a.py, 'base_params/dtpye' cannot be dropped, because the base_config does not set it."),
    ({"a_py": "base_config = 'b.py'\nbase_params = {'optimizer_params': 3}", "b_py": BASE},
     "In {0}/a.py, 'base_params/optimizer_params' is 3 (not a dict), but the value that it replaces"),
    ({"a_py": "base_config = 'b.py'\nsize = 'x'", "b_py": BASE}, "{0}/b.py, line 7: TypeError"),
    ({"a_yaml": "base_config: b.yaml\nbase_param: {}", "b_yaml": "base_model: M\nbase_params: {}"},
     "{0}/a.yaml has the unknown key 'base_param'"),
])
def test_what_is_wrong_is_said_with_both_names(tmp_path, files, words):
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, **files))
    assert words.format(tmp_path) in str(caught.value) and len(caught.value.problems) == 1


def test_keys_of_bases_are_known_before_they_are_executed(tmp_path):
    first = write(tmp_path, a_py="base_config = 'b.yaml'\nown = 1\n",
                  b_yaml="base_config: c.py\nbase_params: {mine: 1}\n",
                  c_py="raise ValueError\ntheirs = 3\n")
    assert {"own", "mine", "theirs"} <= (possible_keys(first) or set())
    write(tmp_path, c_py="from elsewhere import base_params\n")
    assert possible_keys(first) is None
    assert possible_keys(write(tmp_path, d_py="base_config = 'c' + '.py'\n")) is None
    assert possible_keys(write(tmp_path, d_py="base_config = 'b.yaml'\nbase_config = 'c.py'\n")) is None
    with pytest.raises(ConfigError, match="d.py, .*none.py, does not exist"):
        possible_keys(write(tmp_path, d_py="base_config = 'none.py'\n"))


def test_a_logdir_is_data_also_as_a_base(tmp_path):
    run = write(tmp_path / "run", config_yaml="base_model: Text2Text\nbase_params: {}\n", state_json="").parent
    mine = write(tmp_path / "own", mine_py="base_config = '../run/config.yaml'\n")
    assert not load_config(mine).trusted and load_config(mine, trusted=True).trusted
    with pytest.raises(ConfigError, match=f"The config {run}/config.yaml is in a logdir"), load_config(mine).in_use():
        resolve_name("os.path.join", "", "x")
    write(run, config_yaml="base_config: ../own/mine.py\nbase_params: {}\n")
    with pytest.raises(ConfigError, match="a config in a logdir must not read other files: add --trust_code"):
        load_config(run / "config.yaml")
    copies = tmp_path / "run" / "config_2025-01-01_00-00-00" / "en"
    copies.mkdir(parents=True)
    with pytest.raises(ConfigError, match="in a logdir must not read"):
        load_config(write(copies, a_yaml="base_config: b.yaml\n"))
