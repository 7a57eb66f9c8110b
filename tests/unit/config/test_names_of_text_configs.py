"""Every class, function and parameter that configs of NVIDIA's OpenSeq2Seq for text name is accepted."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import yaml

import open_seq2seq.models  # noqa: F401  # registers the names of all kinds
from open_seq2seq.config.names import resolve_name

TABLE = yaml.safe_load((Path(__file__).parent / "names_of_text_configs.yaml").read_text(encoding="utf-8"))
CLASSES = [(kind, name) for kind, names in TABLE.items() if kind != "imports" for name in names]


def flat(names: list) -> list[str]:
    return [one for name in names for one in (flat(name) if isinstance(name, list) else [name])]


@pytest.mark.parametrize(("kind", "name"), CLASSES, ids=[name for _, name in CLASSES])
def test_class_has_these_parameters(kind: str, name: str):
    found = resolve_name(name, kind, kind)
    if hasattr(found, "declared_params"):
        declared = {key for specs in found.declared_params() for key in specs}
    else:
        declared = set(getattr(found, "get_optional_params", dict)())
    assert set(flat(TABLE[kind][name])) <= declared


@pytest.mark.parametrize("path", TABLE["imports"])
def test_import_exists(path: str):
    module, _, name = path.rpartition(".")
    assert hasattr(importlib.import_module(module), name)
