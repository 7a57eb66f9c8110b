"""Files that parameters name, found by the declarations of parts, and of parts inside parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from open_seq2seq.config.params import Param

ASSET, LARGE = "asset", "large"
# Files with examples: DATA is read again during a run, LIST is read once.
DATA, LIST = "data", "list"
PARAMS = "_params"

# (value in a config, kind of part) → its class, or the value itself if it names no part.
Resolve = Callable[[Any, str], Any]


@dataclass(frozen=True)
class NamedFile:
    """A parameter that is declared to name a file.

    Attributes:
      part: path of the parameters of its part: ``("data_layer_params",)``; () for the model's own.
      keys: path of the parameter below them: ``("vocab_file",)``, ``("tokenizer", "model")``.
      kind: ``asset``, ``large``, ``data`` or ``list``; see ``Param``.
      value: the file that is named, or None.
    """

    part: tuple[str, ...]
    keys: tuple[str, ...]
    kind: str
    value: str | None

    @property
    def path(self) -> tuple[str, ...]:
        """Where the parameter stands in the config."""
        return self.part + self.keys


def named_files(part_class: Any, params: Mapping[str, Any], part: tuple[str, ...] = ()) -> list[NamedFile]:
    """Returns the parameters of one part that are declared to name files; their value may be None.

    Args:
      part_class: what declares them.
      params: the part's parameters; defaults may be missing.
      part: where they stand.
    """
    found = []
    for name, spec in _declared(part_class).items():
        value = params.get(name, spec.default)
        entries: list[tuple[tuple[str, ...], str, Any]]
        if isinstance(spec.file, str):
            values = value if isinstance(value, (list, tuple)) else [value]
            entries = [((name,), spec.file, one) for one in values] if spec.file else []
        else:
            found_in = value if isinstance(value, Mapping) else {}
            entries = [((name, entry), kind, found_in.get(entry)) for entry, kind in spec.file.items()]
        found += [NamedFile(part, keys, kind, value if isinstance(value, str) and value else None)
                  for keys, kind, value in entries]
    return found


def named_files_below(part_class: Any, params: Mapping[str, Any], resolve: Resolve,
                      part: tuple[str, ...] = ()) -> Iterator[NamedFile]:
    """Yields the parameters that name files of a part and of all parts inside it.

    A part inside is a parameter ``x`` that names a class with declared parameters, which stand in ``x_params``.

    Args:
      part_class: a model, or another part.
      params: its parameters; classes may be named.
      resolve: finds the class.
      part: where the parameters stand.
    """
    yield from named_files(part_class, params, part)
    declared = _declared(part_class)
    for name in [name for name in params if name + PARAMS in params or name + PARAMS in declared]:
        kind = declared[name].names if name in declared else ""
        inside = resolve(params[name], kind)
        if isinstance(inside, type) and hasattr(inside, "declared_params"):
            below = params.get(name + PARAMS)
            yield from named_files_below(inside, below if isinstance(below, Mapping) else {}, resolve,
                                         (*part, name + PARAMS))


def _declared(part_class: Any) -> dict[str, Param]:
    """Returns a part's declarations that are a ``Param``, not only a type."""
    required, optional = part_class.declared_params()
    specs = {**optional, **required}
    return {name: spec for name, spec in specs.items() if isinstance(spec, Param)}
