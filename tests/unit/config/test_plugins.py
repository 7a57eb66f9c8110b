"""Names of plugins: found with their package, told apart from others, and never imported for a config that is data."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

import open_seq2seq.models  # noqa: F401 (it registers the kinds of names)
from open_seq2seq.config.names import plugins, resolve_name
from open_seq2seq.config.user_code import untrusted
from open_seq2seq.encoders import Encoder
from open_seq2seq.run import tools
from open_seq2seq.utils.errors import ConfigError

MODULE = """
import pathlib
from open_seq2seq.encoders import TDNNEncoder
pathlib.Path(__file__).with_name("imported").touch()
class Bird(TDNNEncoder):
    class Inner(TDNNEncoder):
        pass
"""
ENTRIES = """[open_seq2seq.plugins]
Bird = bird_parts:Bird
Inner = bird_parts:Bird.Inner [extra]
gone = bird_parts:gone
lost = no_such_module:x
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A folder on the search path in which a package with plugins is installed."""
    (tmp_path / "bird_parts.py").write_text(MODULE)
    info = tmp_path / "Open_Seq2Seq.Birds-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Open_Seq2Seq.Birds\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "bird_parts", raising=False)
    yield tmp_path
    sys.modules.pop("bird_parts", None)


@pytest.mark.parametrize("package", ["open-seq2seq-birds", "Open_Seq2Seq.Birds"])
def test_a_plugin_is_found_by_its_package_and_name(installed, package):
    found = resolve_name(f"{package}:Bird", "encoder", "encoder")
    assert issubclass(found, Encoder) and found.__module__ == "bird_parts"
    assert resolve_name(f"{package}:Inner", "encoder", "encoder") is found.Inner


@pytest.mark.parametrize("name", ["open-seq2seq-birds:Bird", "no-such-package:Bird"])
def test_a_config_that_is_data_imports_no_plugin(installed, name):
    with untrusted("logdir/config.yaml"), pytest.raises(ConfigError) as error:
        resolve_name(name, "encoder", "encoder")
    package = name.partition(":")[0]
    assert f"which is code of the package {package}. The config logdir/config.yaml" in str(error.value)
    assert "--trust_code" in str(error.value) and not (installed / "imported").exists()


@pytest.mark.parametrize("name, kind, said", [
    ("open-seq2seq-bird:Bird", "encoder", "no package open-seq2seq-bird with plugins is installed: install it if you "
     "trust its authors, or give another name. Did you mean 'open-seq2seq-birds'?"),
    ("open-seq2seq-birds:Brd", "encoder", "the package open-seq2seq-birds has no such plugin. Did you mean 'Bird'? It "
     "has Bird, Inner, gone, lost."),
    ("open-seq2seq-birds:gone", "encoder", "cannot be imported: bird_parts has no gone."),
    ("open-seq2seq-birds:lost", "encoder", "cannot be imported: No module named 'no_such_module'."),
    ("open-seq2seq-birds:Bird", "decoder", "has to be a subclass of Decoder"),
    ("Bird", "encoder", "there is no such encoder. A plugin has this name: write 'open-seq2seq-birds:Bird'."),
    ("open-seq2seq-birds:", "encoder", "not a valid encoder name"), (":Bird", "encoder", "not a valid encoder name")])
def test_mistakes_name_the_package(installed, name, kind, said):
    with pytest.raises(ConfigError) as error:
        resolve_name(name, kind, "encoder")
    assert said in str(error.value)


def test_the_doctor_lists_plugins_without_importing_them(installed):
    lines = [*tools._plugins()]
    assert lines[0] == "Plugins:" and "  open-seq2seq-birds 1.2: Bird, Inner, gone, lost" in lines
    assert not (installed / "imported").exists()


def test_without_plugins_there_are_none(monkeypatch):
    monkeypatch.setattr("open_seq2seq.config.names.entry_points", lambda group: metadata.EntryPoints(()))
    assert [*plugins()] == [] and [*tools._plugins()] == ["Plugins: none"]


def test_importing_the_package_reads_no_entry_points():
    program = ("import importlib.metadata as m; m.entry_points = None\n"
               "import open_seq2seq.config.names, open_seq2seq.run.run")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
