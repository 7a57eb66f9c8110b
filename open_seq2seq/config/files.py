"""Finds the files that a config names, according to the declarations of the model and its nested components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from open_seq2seq.config.names import part_class
from open_seq2seq.config.params import PARAMS, declared_by

# Kinds of files; see ``Param.file``.
ASSET, LARGE = "asset", "large"
DATA, LIST = "data", "list"


@dataclass(frozen=True)
class NamedFile:
    """A parameter that is declared to name a file.

    Attributes:
      part: path of the component's parameters, such as ``("data_layer_params",)``; () for the model's own.
      keys: path of the parameter below ``part``, such as ``("vocab_file",)`` or ``("tokenizer", "model")``.
      kind: ``asset``, ``large``, ``data`` or ``list``; see ``Param.file``.
      value: the file's name, or None.
    """

    part: tuple[str, ...]
    keys: tuple[str, ...]
    kind: str
    value: str | None

    @property
    def path(self) -> tuple[str, ...]:
        """The parameter's path in the config."""
        return self.part + self.keys


def named_files(component: Any, params: Mapping[str, Any], part: tuple[str, ...] = ()) -> list[NamedFile]:
    """Returns the parameters of one component that are declared to name files, including those that are None.

    For a list of files, the result has one entry for each of them.

    Args:
      component: the class that declares the parameters.
      params: the component's parameters; defaults may be missing.
      part: path of the parameters in the config.
    """
    files = []
    for name, spec in declared_by(component).all.items():
        value = params.get(name, spec.default)
        entries: list[tuple[tuple[str, ...], str, Any]]
        if isinstance(spec.file, str):
            values = value if isinstance(value, (list, tuple)) else [value]
            entries = [((name,), spec.file, one) for one in values] if spec.file else []
        else:
            found_in = value if isinstance(value, Mapping) else {}
            entries = [((name, entry), kind, found_in.get(entry)) for entry, kind in spec.file.items()]
        files += [NamedFile(part, keys, kind, value if isinstance(value, str) and value else None)
                  for keys, kind, value in entries]
    return files


def named_files_below(component: type, params: Mapping[str, Any], part: tuple[str, ...] = ()) -> Iterator[NamedFile]:
    """Yields the parameters that name files, for a component and all components nested in it.

    A nested component is a parameter ``x`` whose value is a class with declared parameters; ``x_params`` holds their
    values.

    Args:
      component: the class of the model or component.
      params: the component's parameters; a class may be given by name.
      part: path of the parameters in the config.
    """
    yield from named_files(component, params, part)
    declared = declared_by(component).all
    for name in [name for name in params if name + PARAMS in params or name + PARAMS in declared]:
        kind = declared[name].names if name in declared else ""
        inside = part_class(params[name], kind)
        if isinstance(inside, type) and hasattr(inside, "declared_params"):
            below = params.get(name + PARAMS)
            yield from named_files_below(inside, below if isinstance(below, Mapping) else {},
                                         (*part, name + PARAMS))
