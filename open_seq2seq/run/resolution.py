"""Resolves what a caller asks for (a config, values, a mode) into the checked options of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from open_seq2seq.config.data_note import remedy
from open_seq2seq.config.known_names import short_name_paths
from open_seq2seq.config.loader import ConfigFile
from open_seq2seq.config.options import RunOptions
from open_seq2seq.config.overrides import Override, check_words
from open_seq2seq.config.resolve import Benchmark, ResolvedConfig, resolve, sections_of
from open_seq2seq.models.builder import ModelSpec, describe_model  # also registers the names of the package's classes
from open_seq2seq.models.missing_files import half_replaced, missing_files
from open_seq2seq.run.config_source import config_of_run
from open_seq2seq.utils.errors import ConfigError


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
    resumes = bool(options.get("continue_learning")) and benchmark is None
    source = config_of_run(config, "train" if benchmark else mode, overrides, options.get("infer_files", ()),
                           trust_code, resumes, options.get("verb"))
    check_words(overrides, {key for section in source.file.sections.values() for key in section}, words)
    resolved, specs = _resolve(source.file, source.mode, _in_full(source.overrides, source.file, source.mode),
                               benchmark, resumes)
    return RunOptions(mode=resolved.mode, config=resolved, specs=specs, benchmark=benchmark is not None,
                      moved_files=source.moved_files, **options)


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
    several = [f"{name!r} may mean {' or '.join(map('/'.join, found))}: give one of these paths."
               for name, found in paths.items() if len(found) > 1]
    if several:
        raise ConfigError(several)
    return [dataclasses.replace(one, keys=paths[one.keys[0]][0])
            if one.text is None and len(one.keys) == 1 and paths[one.keys[0]] else one for one in overrides]


def _resolve(file: ConfigFile, mode: str, overrides: list[Override], benchmark: Benchmark | None,
             resumes: bool) -> tuple[ResolvedConfig, dict[str, ModelSpec]]:
    missing: list[str] = []
    specs: dict[str, ModelSpec] = {}

    def problems(base_model: Any, params: dict[str, Any], section: str, given: dict[str, Any]) -> list[str]:
        absent = missing_files(base_model, params, section, resumes)
        missing.extend(absent)
        without = ResolvedConfig(file, mode).merge(section)[0]
        halves = half_replaced(base_model, params, without, section, overrides)
        try:
            specs[section] = describe_model(base_model, params, section, given)
        except ConfigError as error:
            return [*error.problems, *halves, *absent]
        return [*halves, *absent]

    try:
        return resolve(file, mode, overrides, benchmark, problems), specs
    except ConfigError as error:
        if missing:
            error.add_note(remedy(file.data_note))
        raise
