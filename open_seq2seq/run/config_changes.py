"""Compares the config with that of a checkpoint, and prints or refuses the changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from open_seq2seq.checkpoints import Checkpoint
from open_seq2seq.checkpoints.state import CONFIG
from open_seq2seq.config.data_note import strings_in
from open_seq2seq.config.files import ASSET, LARGE, named_files
from open_seq2seq.config.loader import parse_config
from open_seq2seq.config.names import part_class
from open_seq2seq.config.params import FREE, PARAMS, REFUSE, SAY, Param, coerce, declared_by, shown
from open_seq2seq.config.resolve import ResolvedConfig, RunOptions
from open_seq2seq.config.serialize import to_plain
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, ConfigError

_ABSENT, _DATA = "absent", "data_layer_params"


@dataclass(frozen=True)
class Change:
    """A parameter whose value has changed.

    Attributes:
      path: the parameter's path in the config.
      kind: ``refuse`` or ``say``; see ``Param.on_change``.
      before: the old value, in the plain form that ``to_plain`` returns.
      now: the new value, in the same form.
    """

    path: tuple[str, ...]
    kind: str
    before: Any
    now: Any

    def __str__(self) -> str:
        return f"'{'/'.join(self.path)}' is {_shown(self.now)} but was {_shown(self.before)}"


def changes(component: Any, before: Mapping[str, Any], now: Mapping[str, Any],
            part: tuple[str, ...] = ()) -> Iterator[Change]:
    """Yields the differences in the parameters of a component and of the components nested in it.

    Derived parameters and those whose ``on_change`` is ``free`` are left out. File names are not compared, because only
    the content of the files matters. If the class of a nested component has changed, this is reported as one change,
    and the component's parameters are not compared.

    Args:
      component: the class of the model or component.
      before: the old parameters as plain values; defaults may be missing.
      now: the new parameters; objects are allowed in place of their names.
      part: path of the parameters in the config.
    """
    declared = declared_by(component).all
    inside = {name: nested for name in now if name + PARAMS in declared or name + PARAMS in now
              if hasattr(nested := part_class(now[name], declared[name].names if name in declared else ""),
                         "declared_params")}
    for name, spec in declared.items():
        stem = name.removesuffix(PARAMS)
        if spec.derived or (name in inside and spec.on_change == FREE):
            continue
        old, new = (to_plain(coerce(params.get(name, spec.default), spec)[0]) for params in (before, now))
        if name == stem or stem not in inside:
            yield from _differences(spec, old, new, (*part, name))
        elif not list(_differences(declared[stem], before.get(stem), to_plain(now[stem]), ())):
            yield from changes(inside[stem], old if isinstance(old, Mapping) else {}, now.get(name) or {},
                               (*part, name))


def _differences(spec: Param, before: Any, now: Any, path: tuple[str, ...]) -> Iterator[Change]:
    """Yields the differences in one parameter; dicts and lists of dicts are compared entry by entry."""
    if isinstance(spec.file, str) and spec.file:
        return
    if _are_dicts(before, now):
        for key in dict.fromkeys([*now, *before]):
            if isinstance(spec.file, str) or key not in spec.file:
                yield from _differences(spec, before.get(key, _ABSENT), now.get(key, _ABSENT), (*path, str(key)))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now) \
            and any(_are_dicts(*pair) for pair in zip(before, now, strict=True)):
        for number, pair in enumerate(zip(before, now, strict=True)):
            yield from _differences(spec, *pair, (*path, str(number)))
    elif _comparable(before, spec) != _comparable(now, spec):
        kind = spec.on_change
        if not isinstance(kind, str):
            kind = kind.get(path[-1], kind.get("", SAY))
        if kind != FREE:
            yield Change(path, kind or SAY, before, now)


def _are_dicts(*values: Any) -> bool:
    return all(isinstance(value, Mapping) for value in values)


def _comparable(value: Any, spec: Param) -> Any:
    """Returns a value for comparison: names without their file or module, and the same text for all lambdas."""
    if isinstance(value, list):
        return [_comparable(item, spec) for item in value]
    if not isinstance(value, str):
        return value
    name = value.rpartition(".py:")[2]
    return "<lambda>" if name.startswith("<lambda>") else name.rpartition(".")[2] if spec.names else name


def _shown(value: Any) -> str:
    return value if value == _ABSENT else shown(value)


def check_config(options: RunOptions, checkpoint: Checkpoint) -> bool:
    """Compares the config of a run with that of a checkpoint's run.

    If training is resumed, each difference that affects results is printed. In all modes, a difference with which the
    weights would compute another function is an error or, with ``--no_dir_check``, a warning.

    Returns:
      False for an evaluation on other data than those that the checkpoint's config names for it; True otherwise.

    Raises:
      CheckpointError: with a difference in the config, the weights would compute another function.
    """
    try:  # sections of one config can differ from that of training, too
        before = options.config if options.as_saved else ResolvedConfig(
            parse_config(checkpoint.config_yaml, str(checkpoint.path / CONFIG)), options.mode)
    except ConfigError as error:
        deco_print(f"WARNING: the config cannot be compared with that of {checkpoint.path.name}: {error.problems[0]}")
        return True
    config, training, same_data = options.config, options.mode.startswith("train"), True
    different: dict[str, Change] = {}
    with config.config_file.in_use():
        model_class = part_class(config.base_model, "model")
        for section in config.sections:
            old, new = before.merge(section)[0], config.params(section)
            same_data &= options.mode != "eval" or _same_data(old, new)
            if not training:  # The mode may have data of its own, but the rest has to fit what was trained.
                old = {**before.merge("train")[0], **{name: old.get(name) for name in ("data_layer", _DATA)}}
            different |= {str(change): change for change in changes(model_class, old, new)}
    if training:
        for line in (line for line, change in different.items() if change.kind != REFUSE):
            deco_print(f"The config has changed since {checkpoint.path.name}: {line}.")
    refused = [line for line, change in different.items() if change.kind == REFUSE]
    if refused:
        problem = (f"The config does not fit the checkpoint {checkpoint.path}, whose weights would now compute a "
                   f"different function: {'; '.join(refused)}.")
        if not options.no_dir_check:
            raise CheckpointError(f"{problem} Use the values in the checkpoint's {CONFIG}, start a new run from "
                                  "its weights with load_model, or add --no_dir_check if the change is intended.")
        deco_print(f"WARNING: {problem}")
    return same_data


def _same_data(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Returns whether two sections name the same data.

    All strings among the data layer's parameters are assumed to name data, except files that checkpoints keep, such as
    vocabularies.
    """
    layer, params = part_class(now.get("data_layer"), "data_layer"), now.get(_DATA) or {}
    files = named_files(layer, params) if hasattr(layer, "declared_params") else []
    kept_names = {file.keys[-1] for file in files if file.kind in (ASSET, LARGE)}
    return dict(strings_in(before.get(_DATA), kept_names)) == dict(strings_in(params, kept_names))
