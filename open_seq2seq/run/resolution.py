"""Resolves what a caller asks for (a config, values, a mode) into the checked options of a run."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from open_seq2seq.config.data_note import remedy
from open_seq2seq.config.files import ASSET, DATA, LIST, named_files
from open_seq2seq.config.known_names import named_object, short_name_paths
from open_seq2seq.config.loader import ConfigFile
from open_seq2seq.config.names import resolve_name
from open_seq2seq.config.overrides import Override, check_words, gives
from open_seq2seq.config.params import forget_declarations
from open_seq2seq.config.resolve import Benchmark, ResolvedConfig, RunOptions, resolve, sections_of
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.models.builder import ModelSpec, describe_model  # also registers the names of the package's classes
from open_seq2seq.run.config_source import config_of_run
from open_seq2seq.utils.errors import ConfigError, did_you_mean


def missing_files(base_model: Any, params: Mapping[str, Any], section: str, resumes: bool = False) -> list[str]:
    """Returns one sentence for each file that a data layer of a model would read but that does not exist.

    A symbolic link to a missing file is not reported here, but when the data layer opens it. Names of classes that do
    not exist are ignored, because other checks report them.

    Args:
      base_model: the model's class, or its name.
      params: the model's parameters in a section.
      section: ``train`` or ``eval``. Files of which checkpoints have copies, such as vocabularies, are checked only in
        ``train`` if training does not resume.
      resumes: whether training resumes from a checkpoint.
    """
    kinds = (DATA, LIST) if resumes or section == "eval" else (DATA, LIST, ASSET)
    naming: dict[str, list[str]] = {}  # missing file → the parameters that name it
    for name, layer in _data_layers(base_model, params):
        for file in named_files(layer, layer.opened_files(params[name]), (name,)):
            if file.kind in kinds and not _exists(file.value):
                naming.setdefault(str(file.value), []).append(f"'{'/'.join(file.path)}'")
    return [_sentence(value, names) for value, names in naming.items()]


def half_replaced(base_model: Any, params: Mapping[str, Any], own: Mapping[str, Any], section: str,
                  overrides: Sequence[Override]) -> list[str]:
    """Returns one sentence for each file that the command line replaces without the file whose lines correspond.

    Args:
      base_model: the model's class, or its name.
      params: the model's parameters in a section.
      own: the same, without the values of the command line.
      section: ``train`` or ``eval``.
      overrides: the values of the command line.
    """
    problems = []
    for name, layer in _data_layers(base_model, params):
        below = own.get(name)
        before = dict(_parallel(layer, layer.opened_files(below) if isinstance(below, Mapping) else {}, (name,)))
        for place, files in _parallel(layer, layer.opened_files(params[name]), (name,)):
            old = before.get(place, {})
            # A file that is no longer where the config says has been moved; the other still belongs to it.
            moved = [key for key in old if not os.path.exists(os.path.expanduser(old[key]))]
            new = [key for key in files if old.get(key) != files[key] and key not in moved]
            unchanged = [key for key in files if key not in new and not _given((*place, key), section, overrides)]
            if new and unchanged:
                first, other = (f"--{section}_params/{'/'.join((*place, key))}" for key in (new[0], unchanged[0]))
                problems.append(f"'{first}' is {files[new[0]]!r}, but '{other}' is still {files[unchanged[0]]!r}, as "
                                "in the config: give both, because line n of one file belongs to line n of the other.")
    return problems


def _parallel(layer: type[DataLayer], params: Mapping[str, Any],
              place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """Yields (path in the config, name → file) for each dict of parameters that names files with parallel lines."""
    yield place, {name: params[name] for name in layer.parallel_files if isinstance(params.get(name), str)}
    for name, value in params.items():
        if isinstance(value, Mapping):
            yield from _parallel(layer, value, (*place, name))


def _given(path: tuple[str, ...], section: str, overrides: Sequence[Override]) -> bool:
    """Returns whether the command line gives a parameter of a section, alone or within a dict."""
    return any(one.section in (None, f"{section}_params") and path[:len(one.keys)] == one.keys
               and (path == one.keys or gives(one.value, path[len(one.keys):])) for one in overrides)


def _data_layers(base_model: Any, params: Mapping[str, Any]) -> Iterator[tuple[str, type[DataLayer]]]:
    """Yields (name of its parameters, class) for each data layer of a model; skips names that do not exist."""
    try:
        model_class = resolve_name(base_model, "model", "base_model")
    except ConfigError:
        return
    for name, part in model_class.all_parts().items():
        layer = named_object(model_class, name, params.get(name))
        if inspect.isclass(layer) and issubclass(part.base, DataLayer) and issubclass(layer, DataLayer) \
                and isinstance(params.get(f"{name}_params"), Mapping):
            yield f"{name}_params", layer


def _exists(path: str | None) -> bool:
    try:
        return path is None or os.path.lexists(os.path.expanduser(path))
    except ValueError:  # the name is invalid; the data layer will report this
        return True


def _sentence(value: str, names: list[str]) -> str:
    folder, name = os.path.split(value)
    try:
        others = os.listdir(folder or ".")
    except OSError:  # there is no such folder, or it is not readable
        others = []
    hint = did_you_mean(name, others)
    verb = "is" if len(names) == 1 else "are"
    return f"{' and '.join(names)} {verb} {value!r}, but the file {value} does not exist.{hint}"


def resolve_run(config: ConfigFile | str | None, mode: str, overrides: Sequence[Override], *,
                benchmark: Benchmark | None = None, trust_code: bool = False, words: Collection[str] = (),
                **options: Any) -> RunOptions:
    """Finds the config of a run, applies the values, and checks all parameters; builds no model.

    Args:
      config: the config, or the path of its file; None for that of the log directory's newest checkpoint.
      mode: the mode of the run; ignored in a benchmark.
      overrides: the values that replace those of the config.
      benchmark: how the config is changed to measure the speed of training; None to run it as it is.
      trust_code: whether a config in a log directory may name code from outside the package.
      words: options of the command line, which a value may be a misspelling of.
      **options: the other fields of ``RunOptions``.

    Raises:
      UserError: the config or a value has a mistake; a ``ConfigError`` lists all mistakes of the config.
    """
    forget_declarations()
    resumes = bool(options.get("continue_learning")) and benchmark is None
    source = config_of_run(config, "train" if benchmark else mode, overrides, options.get("infer_files", ()),
                           trust_code, resumes, options.get("verb"))
    check_words(overrides, lambda: {key for section in source.file.sections.values() for key in section}, words)
    resolved, specs = _resolve(source.file, source.mode, _in_full(source.overrides, source.file, source.mode),
                               benchmark, resumes)
    as_saved = source.file.checkpoint is not None and all(one.keys == ("logdir",) for one in overrides)
    return RunOptions(mode=resolved.mode, config=resolved, specs=specs, benchmark=benchmark is not None,
                      as_saved=as_saved, moved_files=source.moved_files, **options)


def _in_full(overrides: list[Override], file: ConfigFile, mode: str) -> list[Override]:
    """Returns the values with full paths, where Python gave the name of a parameter of a part, such as ``beam_size``.

    Raises:
      ConfigError: parts have several parameters of this name.
    """
    names = {one.keys[0] for one in overrides if one.text is None and len(one.keys) == 1}
    if not names:
        return overrides
    params = ResolvedConfig(file, mode, overrides).merge(sections_of(mode)[0])[0]
    with file.in_use():
        paths = {name: short_name_paths(file.base_model, params, name) for name in names}
    several = [f"{name!r} may mean {' or '.join(map('/'.join, paths_of_name))}: give one of these paths."
               for name, paths_of_name in paths.items() if len(paths_of_name) > 1]
    if several:
        raise ConfigError(several)
    return [dataclasses.replace(one, keys=paths[one.keys[0]][0])
            if one.text is None and len(one.keys) == 1 and paths[one.keys[0]] else one for one in overrides]


def _resolve(file: ConfigFile, mode: str, overrides: list[Override], benchmark: Benchmark | None,
             resumes: bool) -> tuple[ResolvedConfig, dict[str, ModelSpec]]:
    missing: list[str] = []
    specs: dict[str, ModelSpec] = {}

    def problems(base_model: Any, params: dict[str, Any], section: str, given: dict[str, Any]) -> list[str]:
        of_files: list[str] = []
        if section in ("train", "eval"):
            absent = missing_files(base_model, params, section, resumes)
            missing.extend(absent)
            without = ResolvedConfig(file, mode).merge(section)[0]
            of_files = [*half_replaced(base_model, params, without, section, overrides), *absent]
        try:
            specs[section] = describe_model(base_model, params, section, given)
        except ConfigError as error:
            return [*error.problems, *of_files]
        return of_files

    try:
        return resolve(file, mode, overrides, benchmark, problems), specs
    except ConfigError as error:
        if missing:
            error.add_note(remedy(file.data_note))
        raise
