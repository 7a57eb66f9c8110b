"""Resolves what a caller asks for (a config, values, a mode) into the checked options of a run.

The config is a file that the user names, or that of a checkpoint in the log directory, of which the run may then use
files. If lines arrive on standard input, the mode ``infer`` becomes ``interactive_infer``.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from open_seq2seq.checkpoints import first_whole, verified_assets
from open_seq2seq.checkpoints.choosing import offered
from open_seq2seq.checkpoints.folders import (
    AVERAGED,
    BEST_MODELS,
    LOGS,
    checkpoint_folder,
    find_checkpoints,
    list_checkpoints,
)
from open_seq2seq.checkpoints.kept_files import kept_files_of, model_files
from open_seq2seq.checkpoints.state import CONFIG, STATE
from open_seq2seq.config.data_note import remedy
from open_seq2seq.config.files import ASSET, DATA, LIST, named_files
from open_seq2seq.config.known_names import named_object, short_name_paths
from open_seq2seq.config.loader import ConfigFile, load_config
from open_seq2seq.config.merge import copy_nested, merge_params
from open_seq2seq.config.names import part_class
from open_seq2seq.config.original_defaults import ORIGINAL_DEFAULTS, use_original_defaults
from open_seq2seq.config.overrides import Override, check_words, gives
from open_seq2seq.config.params import forget_declarations
from open_seq2seq.config.resolve import Benchmark, ResolvedConfig, RunOptions, resolve, sections_of
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.models.builder import ModelSpec, describe_model  # also registers the names of the package's classes
from open_seq2seq.models.model import COMMANDS
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import ConfigError, UserError, did_you_mean
from open_seq2seq.utils.given_files import STANDARD_INPUT, is_live_input
from open_seq2seq.utils.launcher import launched_as

_INFER, _DATA = "infer_params", "data_layer_params"
# The sections that a mode uses besides base_params.
_SECTIONS = {"train": ("train_params",), "eval": ("eval_params",), "infer": (_INFER,),
             "interactive_infer": ("interactive_infer_params", _INFER)}
_FINISHED = ("eval", "infer", "interactive_infer")  # the modes that use a trained model
_TRAIN = "train"


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
            unchanged = [key for key in files if key not in new and not _is_given((*place, key), section, overrides)]
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


def _is_given(path: tuple[str, ...], section: str, overrides: Sequence[Override]) -> bool:
    """Returns whether the command line gives a parameter of a section, alone or within a dict."""
    return any(one.section in (None, f"{section}_params") and path[:len(one.keys)] == one.keys
               and (path == one.keys or gives(one.value, path[len(one.keys):])) for one in overrides)


def _data_layers(base_model: Any, params: Mapping[str, Any]) -> Iterator[tuple[str, type[DataLayer]]]:
    """Yields (name of its parameters, class) for each data layer of a model; skips names that do not exist."""
    model_class = part_class(base_model, "model")
    for name, part in model_class.all_parts().items() if model_class is not None else ():
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


class Source(NamedTuple):
    """The config of a run.

    Attributes:
      file: the config.
      overrides: the values to apply to the config, in this order: those that make the model use the files kept by a
        checkpoint, those of the command line, and those that make the model read the files of ``--infer_files``.
      mode: the mode of the run; ``interactive_infer`` instead of ``infer`` if lines of standard input are processed as
        they arrive.
      moved_files: overrides that make a resumed run read copies of files that no longer exist. They are not part of the
        config that the run stores.
    """

    file: ConfigFile
    overrides: list[Override]
    mode: str
    moved_files: Sequence[Override] = ()


def config_of_run(config: ConfigFile | str | None, mode: str, overrides: Sequence[Override],
                  infer_files: Sequence[str] = (), trust_code: bool = False, resumes: bool = False,
                  verb: str | None = None) -> Source:
    """Returns the config of a run and the overrides to apply to it.

    Without a config file, the config is that of a checkpoint in the log directory. The files that the model needs, such
    as vocabularies, are found as follows:

    * In evaluation and inference, if the config is that of a checkpoint (whether it was named or found), the model uses
      the copies of its files that the checkpoint has kept.
    * In all other cases, the model uses the files that the config names. If such a file does not exist, evaluation,
      inference and resumed training use the checkpoint's copy.

    Args:
      config: the config, or the path of its file, that the user gave; or None.
      mode: the mode of the run.
      overrides: values of the command line.
      infer_files: the files of ``--infer_files``.
      trust_code: whether a YAML config in a log directory may name code from outside the package.
      resumes: whether training continues from a checkpoint.
      verb: what the model has to do; None for anything.

    Raises:
      UserError: there is no config; or the input files are missing, or unsuitable for the data layer.
      CheckpointError: no checkpoint in the log directory is intact.
    """
    values = list(overrides)
    if mode not in _FINISHED:
        return _config_of_training(config, mode, values, trust_code, resumes)
    if config is None:
        file, moved = _config_of_logdir(mode, values, trust_code)
    else:
        file = _loaded(config, trust_code, values)
        moved = _with_files_of_checkpoint(file, mode, values)
    if verb is not None:
        with file.in_use():
            check_verb(part_class(file.base_model, "model"), verb, _value_given(mode, values, "logdir") or file.path)
    values = [*moved, *values]
    if not infer_files:
        return Source(file, values, mode)
    if _has_live_lines(infer_files, file, values):
        file.sections.pop("interactive_infer_params", None)  # so that the run uses infer_params
        return Source(file, values, "interactive_infer")
    return Source(file, [*values, *overrides_for(infer_files, file, values)], mode)


def _loaded(config: ConfigFile | str, trust_code: bool, overrides: Sequence[Override]) -> ConfigFile:
    if not isinstance(config, str):
        return dataclasses.replace(config, sections=copy_nested(config.sections))  # later steps change the sections
    file = load_config(config, True if trust_code else None)
    if not file.old_names:
        return file
    deco_print(f"{config} is a config of NVIDIA's OpenSeq2Seq: it uses {', '.join(dict.fromkeys(file.old_names))}.")
    if changed := use_original_defaults(file, overrides):
        deco_print(f"So that it means the same as there: {', '.join(changed)}. --{ORIGINAL_DEFAULTS}=False selects "
                   "today's defaults.")
    return file


def _config_of_training(config: ConfigFile | str | None, mode: str, overrides: list[Override], trust_code: bool,
                        resumes: bool) -> Source:
    if config is not None:
        file = _loaded(config, trust_code, overrides)
    else:
        logdir = _value_given(_TRAIN, overrides, "logdir")
        if not resumes or not logdir:
            hint = f" To resume the run in {logdir}, give --continue_learning." if logdir else ""
            raise UserError(f"The following arguments are required: --config_file.{hint} See --help.")
        checkpoint = _newest(str(logdir))
        if checkpoint is None:
            raise UserError(f"--continue_learning was given, but there is no checkpoint in {logdir}: give the logdir "
                            "of the run to resume or, if it was stopped before its first checkpoint, its "
                            "--config_file.")
        file = load_config(checkpoint / CONFIG, trust_code)
    return Source(file, overrides, mode, _moved_files(file, overrides) if resumes else ())


def _config_of_logdir(mode: str, overrides: list[Override], trust_code: bool) -> tuple[ConfigFile, list[Override]]:
    """Returns the config of a logdir's checkpoint, and overrides that make its model use the files kept in the logdir.

    Raises:
      UserError: no logdir is given, or it has no checkpoint.
      CheckpointError: no checkpoint in the logdir is intact.
      ConfigError: the config cannot be read.
    """
    logdir = _value_given(mode, overrides, "logdir")
    if not logdir:
        raise UserError("There is neither a config nor a trained model: give --config_file=FILE, or "
                        "--logdir=FOLDER with the logdir of a trained model.")
    root = Path(str(logdir)).expanduser()
    folder = checkpoint_folder(root)
    paths = find_checkpoints(folder, _value_given(mode, overrides, "restore_best_checkpoint") is True)
    if not paths:
        state = "has no checkpoint" if root.exists() else "does not exist"
        raise UserError(f"The folder {logdir} {state}: give the logdir that training wrote to.")
    checkpoint = first_whole(paths, _verified)
    file = load_config(checkpoint / CONFIG, trusted=trust_code)
    chosen = offered(folder, _merged(file, mode, overrides)).paths
    if chosen != paths:  # the config just read selects another checkpoint, such as the best or averaged one
        checkpoint = first_whole(chosen, _verified)
        file = load_config(checkpoint / CONFIG, trusted=trust_code)
    file.checkpoint = str(checkpoint)
    _add_data_layer(file, mode)
    with file.in_use():
        return file, kept_files_of(checkpoint, mode, file.base_model, _merged(file, mode, overrides))


def _verified(path: Path) -> Path:
    """Returns the path of a checkpoint after verifying all of its files."""
    verified_assets(path)
    return path


def _newest(logdir: str) -> Path | None:
    """Returns the newest intact checkpoint of a log directory; None if it has no checkpoints."""
    checkpoints = list_checkpoints(checkpoint_folder(Path(logdir).expanduser()))
    return first_whole(checkpoints, _verified) if checkpoints else None


def _value_given(mode: str, overrides: Sequence[Override], name: str) -> Any:
    """Returns the value of a model's parameter on the command line, or None."""
    values = [override.value for override in overrides
              if override.keys == (name,) and override.section in (None, *_SECTIONS[mode])]
    return values[-1] if values else None


def _merged(file: ConfigFile, mode: str, overrides: Sequence[Override]) -> dict[str, Any]:
    return ResolvedConfig(file, mode, list(overrides)).merge(mode)[0]


def _add_data_layer(file: ConfigFile, mode: str) -> None:
    """Gives inference the data layer of evaluation or training, if the config names none for inference."""
    sections = file.sections
    if mode == "eval" or any("data_layer" in sections.get(name, {}) for name in ("base_params", *_SECTIONS[mode])):
        return
    for name in ("eval_params", "train_params"):
        if "data_layer" in (section := sections.get(name, {})):
            layer = {key: section[key] for key in ("data_layer", _DATA) if key in section}
            sections[_INFER] = merge_params(layer, sections.get(_INFER, {}), _INFER)[0]
            return


def check_verb(model: Any, verb: str, logdir: str) -> None:
    """Raises UserError if a model, or a class of models, does something else than a verb of the command line.

    A class whose verb depends on its data is accepted.
    """
    does = getattr(model, "verb", None)
    if isinstance(does, property):
        return
    does = COMMANDS.get(str(does), does)
    if does == verb:
        return
    name = getattr(model, "__name__", type(model).__name__)
    use = f"use {does} instead" if does else "use --mode=infer"
    raise UserError(f"The model of {logdir}, {name}, does not {verb}: {use}.")


def overrides_for(files: Sequence[str], file: ConfigFile, overrides: Sequence[Override]) -> list[Override]:
    """Returns overrides, chosen by the data layer, that make inference read the files of ``--infer_files``.

    Args:
      files: file names as given on the command line.
      file: the config.
      overrides: values from the command line, which may name another data layer.

    Raises:
      UserError: the data layer accepts no files on the command line, or not these files.
    """
    layer_class = _data_layer_of(file, overrides)
    if layer_class is None:
        return []  # ``describe_model`` reports the error
    return [Override(_INFER, (_DATA, name), value) for name, value in layer_class.params_for_files(files).items()]


def _data_layer_of(file: ConfigFile, overrides: Sequence[Override]) -> type[DataLayer] | None:
    """Returns the class of the data layer that inference uses; None if the config names none that exists."""
    with file.in_use():
        layer = part_class(_merged(file, "infer", overrides).get("data_layer"), "data_layer")
    return layer if isinstance(layer, type) and issubclass(layer, DataLayer) else None


def _moved_files(file: ConfigFile, overrides: list[Override]) -> list[Override]:
    """Returns overrides that replace missing files of a resumed run by copies of those in its newest checkpoint.

    The copies are temporary, because the run will eventually remove the checkpoint.
    """
    params = _merged(file, _TRAIN, overrides)
    logdir = params.get("logdir")
    with file.in_use():
        missing = _missing_model_files(file, params)
        checkpoint = _newest(logdir) if missing and isinstance(logdir, str) and logdir else None
        if checkpoint is None:
            return []  # later checks explain what is missing
        return [_with_copy(override)
                for override in kept_files_of(checkpoint, _TRAIN, file.base_model, params, missing)]


def _with_copy(override: Override) -> Override:
    path = override.value
    if not (isinstance(path, str) and os.path.isfile(path)):
        return override
    copy = os.path.join(tempfile.mkdtemp(dir=disk.process_folder()), os.path.basename(path))
    disk.copy_new(path, copy)
    deco_print(f"A file that the config names does not exist and is taken from the checkpoint: {path}")
    return dataclasses.replace(override, value=copy)


def _has_live_lines(infer_files: Sequence[str], file: ConfigFile, overrides: list[Override]) -> bool:
    """Returns whether inference processes lines of standard input as they arrive, in one process."""
    if list(infer_files) != [STANDARD_INPUT] or not is_live_input() or launched_as()[1] > 1:
        return False
    layer_class = _data_layer_of(file, overrides)
    return layer_class is not None and layer_class.reads_lines


def _with_files_of_checkpoint(file: ConfigFile, mode: str, overrides: list[Override]) -> list[Override]:
    """Returns overrides that make a model use the checkpoint's copies of files that do not exist.

    If the config is itself that of a checkpoint, the model uses the copies of all files.
    """
    params = _merged(file, mode, overrides)
    logdir, logdir_of_config = params.get("logdir"), _logdir_of(file.path)
    moved: list[Override] = []
    if logdir_of_config is not None and not os.path.isdir(os.path.expanduser(str(logdir))):
        logdir = str(logdir_of_config)  # the logdir was moved, together with this config
        moved = [Override(None, ("logdir",), logdir)]
    with file.in_use():
        missing = _missing_model_files(file, params) if logdir_of_config is None else None
        if not isinstance(logdir, str) or not logdir or missing == set():
            return moved
        paths = offered(checkpoint_folder(Path(logdir).expanduser()), params).paths
        if not paths:
            return moved
        checkpoint = first_whole(paths, _verified)
        copies = kept_files_of(checkpoint, mode, file.base_model, params, missing)
    if missing and copies:
        deco_print(f"Of the files that the config names, these do not exist and are taken from {checkpoint}: "
                   + ", ".join("/".join(override.keys) for override in copies))
    return moved + copies


def _missing_model_files(file: ConfigFile, params: Mapping[str, Any]) -> set[tuple[str, ...]]:
    """Returns the parameters, by path in the config, that name files that do not exist."""
    return {named.path for named in model_files(file.base_model, params) if not _exists(named.value)}


def _logdir_of(config_file: str) -> Path | None:
    """Returns the logdir of the checkpoint that a config file belongs to; None if it belongs to none."""
    folder = Path(config_file).parent
    if not config_file or not (folder / STATE).is_file():
        return None
    logdir = folder.parent
    if logdir.name in (BEST_MODELS, AVERAGED):
        logdir = logdir.parent
    return logdir.parent if logdir.name == LOGS else logdir
