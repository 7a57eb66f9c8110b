"""Compares the config with that of a checkpoint, and prints or refuses the changes."""

from __future__ import annotations

from open_seq2seq.checkpoints import Checkpoint
from open_seq2seq.checkpoints.files import CONFIG
from open_seq2seq.checkpoints.kept_files import part_class
from open_seq2seq.config.changes import Change, changes
from open_seq2seq.config.data_note import strings_in
from open_seq2seq.config.files import ASSET, LARGE
from open_seq2seq.config.loader import parse_config
from open_seq2seq.config.options import RunOptions
from open_seq2seq.config.params import REFUSE, as_param
from open_seq2seq.config.resolve import ResolvedConfig
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import CheckpointError, ConfigError

_DATA = "data_layer_params"


def check_config(options: RunOptions, checkpoint: Checkpoint) -> None:
    """Compares the config of a run with that of a checkpoint's run.

    If training is resumed, each difference that affects results is printed. In all modes, a difference with which the
    weights would compute another function is an error or, with ``--no_dir_check``, a warning.

    Raises:
      CheckpointError: with a difference in the config, the weights would compute another function.
    """
    try:
        before = ResolvedConfig(parse_config(checkpoint.config_yaml, str(checkpoint.path / CONFIG)), options.mode)
    except ConfigError as error:
        deco_print(f"WARNING: the config cannot be compared with that of {checkpoint.path.name}: {error.problems[0]}")
        return
    training = options.mode.startswith("train")
    found: dict[str, Change] = {}
    for section in options.config.sections:
        different = _changes(options, before, section, section if training else "train")
        if not training:  # Other data than in training is expected; report only changes to this mode's own data.
            own = {str(change) for change in _changes(options, before, section, section)}
            different = [change for change in different if change.path[0] != _DATA or str(change) in own]
        found |= {str(change): change for change in different}
    for line, change in found.items():
        if training and change.kind != REFUSE:
            deco_print(f"The config has changed since {checkpoint.path.name}: {line}.")
    refused = [line for line, change in found.items() if change.kind == REFUSE]
    if refused:
        _refuse(refused, checkpoint, options.no_dir_check)


def validates(options: RunOptions, checkpoint: Checkpoint) -> bool:
    """Returns whether an evaluation reads the validation data of the checkpoint's run.

    All strings among the data layer's parameters are assumed to name data, except files that checkpoints keep, such as
    vocabularies. A config that cannot be compared counts as equal.
    """
    try:
        before = ResolvedConfig(parse_config(checkpoint.config_yaml, str(checkpoint.path / CONFIG)), "eval")
        old, new = before.merge("eval")[0], options.config.params("eval")
    except ConfigError:
        return True
    with options.config.config_file.in_use():
        layer = part_class(new.get("data_layer"), "data_layer")
    declared = {name: as_param(spec).file for part in layer.declared_params() for name, spec in part.items()}
    kinds = {name: kind for name, file in declared.items()
             for name, kind in ({name: file} if isinstance(file, str) else file).items()}
    kept = {name for name, kind in kinds.items() if kind in (ASSET, LARGE)}
    return dict(strings_in(old.get(_DATA), kept)) == dict(strings_in(new.get(_DATA), kept))


def _refuse(lines: list[str], checkpoint: Checkpoint, lenient: bool) -> None:
    problem = (f"The config does not fit the checkpoint {checkpoint.path}, whose weights would now compute a "
               f"different function: {'; '.join(lines)}.")
    if not lenient:
        raise CheckpointError(f"{problem} Use the values in the checkpoint's {CONFIG}, start a new run from "
                              "its weights with load_model, or add --no_dir_check if the change is intended.")
    deco_print(f"WARNING: {problem}")


def _changes(options: RunOptions, before: ResolvedConfig, section: str, trained: str) -> list[Change]:
    config = options.config
    with config.config_file.in_use():
        model_class = part_class(config.base_model, "model")
        return list(changes(model_class, before.merge(trained)[0], config.params(section), part_class))
