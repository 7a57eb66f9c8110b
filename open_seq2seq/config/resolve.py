"""Resolves a config file and the command line into the parameters of each mode, and checks those of all models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from open_seq2seq.config.known_names import drop_unknown
from open_seq2seq.config.loader import ConfigFile
from open_seq2seq.config.merge import DROP, copy_nested, difference, merge_params, same
from open_seq2seq.config.overrides import Override, apply_overrides, gives
from open_seq2seq.utils.errors import ConfigError, did_you_mean

MODES = ("train", "eval", "train_eval", "infer", "interactive_infer")

DEFAULT_BENCH_START = 10  # steps before timing begins

DTYPES = ("float32", "mixed", "mixed_float16", "mixed_bfloat16")
# Copy of the scaler names in optimizers.loss_scaling, which cannot be imported without TensorFlow. A test compares the
# two.
LOSS_SCALERS = ("Backoff", "LogMax")

# (base_model, params, section, given) → problems, one sentence each. In a run it is ``run.resolution``'s function
# ``problems``, which describes the model (``models.builder.describe_model``).
ModelCheck = Callable[[Any, dict[str, Any], str, dict[str, Any]], Iterable[str]]


@dataclass(frozen=True)
class Benchmark:
    """How ``--benchmark`` changes a config.

    Attributes:
      steps: number of steps of the run.
      start: number of steps before timing begins; if None, the config's ``bench_start``, or 10 if the config does not
        give it.
    """

    steps: int = 20
    start: int | None = None


def sections_of(mode: str) -> tuple[str, ...]:
    """Returns the sections that a run in ``mode`` needs: ``train`` and ``eval`` for ``train_eval``, else one."""
    return ("train", "eval") if mode == "train_eval" else (mode,)


@dataclass
class ResolvedConfig:
    """The parameters of a run after merging, overrides and checks.

    Attributes:
      config_file: the config as written.
      mode: the run's mode; ``train`` with ``--benchmark``.
      overrides: values from the command line.
      benchmark: how ``--benchmark`` changes the training parameters, or None.
    """

    config_file: ConfigFile
    mode: str
    overrides: list[Override] = field(default_factory=list)
    benchmark: Benchmark | None = None
    _checked: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)

    @property
    def base_model(self) -> Any:
        """The model class, or its name."""
        return self.config_file.base_model

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections that this run needs, out of ``train``, ``eval``, ``infer`` and ``interactive_infer``."""
        return sections_of(self.mode)

    def params(self, section: str) -> dict[str, Any]:
        """Returns a new dict with the parameters of ``train``, ``eval``, ``infer`` or ``interactive_infer``.

        Raises:
          ConfigError: a section that ``resolve`` did not check, because the run does not need it, cannot be merged.
        """
        if section not in self._checked:
            params, problems = self.merge(section)
            model_problems(params, section, self.mode)
            if problems:
                raise ConfigError(problems)
            self._checked[section] = params
        return copy_nested(self._checked[section])

    def given(self, section: str) -> dict[str, Any]:
        """Returns the values given by the section and the command line, without those inherited from base_params.

        Values other than dicts are left out if they only repeat those of base_params. Therefore, if ``decoder`` is in
        the result, the section or the command line replaces the decoder's class. The caller may then drop inherited
        ``decoder_params`` that the new class does not declare, but not the ``decoder_params`` in the result.
        """
        source = _source(self.config_file, section)
        given, _ = apply_overrides(self.config_file.sections.get(source, {}), self.overrides,
                                   (f"{section}_params", source))
        base = self.config_file.sections["base_params"]
        return {key: value for key, value in given.items()
                if isinstance(value, Mapping) or key not in base or not same(base[key], value)}

    def merge(self, section: str) -> tuple[dict[str, Any], list[str]]:
        """Merges a section into base_params, and applies the overrides; returns the parameters and the problems."""
        file = self.config_file
        source = _source(file, section)
        params, problems = merge_params(file.sections["base_params"], file.sections.get(source, {}), source)
        params, more = self._overridden(params, (f"{section}_params", source))
        if self.benchmark is not None and section == "train":
            start = params.get("bench_start") if self.benchmark.start is None else self.benchmark.start
            start = DEFAULT_BENCH_START if start is None else start
            if type(start) is int and start >= self.benchmark.steps:
                more.append(f"--bench_steps is {self.benchmark.steps}, but the first {start} updates (--bench_start) "
                            "are not timed: make --bench_steps greater.")
            params.pop("num_epochs", None)
            params.update(print_samples_steps=None, print_loss_steps=1, save_summaries_steps=None,
                          save_checkpoint_steps=None, logdir="", max_steps=self.benchmark.steps,
                          bench_start=start)
        return params, problems + more

    def _overridden(self, params: dict[str, Any], names: tuple[str, ...]) -> tuple[dict[str, Any], list[str]]:
        """Applies the overrides, and drops parameters that a class or function given by an override does not accept."""
        overrides = [one for one in self.overrides if not self._is_dropped_elsewhere(one, params)]
        changed, problems = apply_overrides(params, overrides, names)
        applied = [one for one in overrides if one.section is None or one.section in names]
        keys = {one.keys for one in applied}
        for name, other in (("max_steps", "num_epochs"), ("num_epochs", "max_steps")):
            if (name,) in keys and (other,) not in keys and changed.get(name) is not None and other in changed:
                changed[other] = None  # the length on the command line replaces the config's in the other unit
        with self.config_file.in_use():
            drop_unknown(self.base_model, changed, params, applied)
        return changed, problems

    def _is_dropped_elsewhere(self, override: Override, params: dict[str, Any]) -> bool:
        """Returns whether an override for all sections drops a key that another section has, but ``params`` do not."""
        return override.value == DROP and override.section is None and not gives(params, override.keys) and any(
            gives(section, override.keys) for section in self.config_file.sections.values())

    def as_sections(self) -> dict[str, Any]:
        """Returns an equivalent config with the overrides applied, for ``serialize.to_yaml``.

        Each section contains only the values that differ from ``base_params``.
        """
        file = self.config_file
        base, _ = self._overridden(file.sections["base_params"], ())
        model_problems(base, "base", self.mode)  # called only to normalize spellings, as in the sections
        result: dict[str, Any] = {"base_model": file.base_model, "base_params": base}
        for section in ("train", "eval", "infer", "interactive_infer"):
            if section in self.sections or f"{section}_params" in file.sections:
                params = self._checked.get(section) or self.merge(section)[0]
                result[f"{section}_params"] = difference(base, params)
        return result


def _source(file: ConfigFile, section: str) -> str:
    """Returns the section's key in the file; ``infer_params`` for ``interactive_infer`` without a key of its own."""
    if section == "interactive_infer" and "interactive_infer_params" not in file.sections:
        return "infer_params"
    return f"{section}_params"


def check_mode(mode: str, known: Sequence[str] = MODES) -> None:
    """Raises ConfigError if the mode is not among the known ones."""
    if mode not in known:
        raise ConfigError([f"The mode is {mode!r} but has to be one of {', '.join(known)}.{did_you_mean(mode, known)}"])


def resolve(config_file: ConfigFile, mode: str, overrides: Sequence[Override] = (),
            benchmark: Benchmark | None = None, check_model: ModelCheck | None = None) -> ResolvedConfig:
    """Merges, overrides and checks the parameters that a run needs.

    Args:
      config_file: the config that ``load_config`` returned.
      mode: ``train``, ``eval``, ``train_eval``, ``infer`` or ``interactive_infer``.
      overrides: the overrides that ``parse_overrides`` returned.
      benchmark: if given, the training parameters are changed for timing, and the mode becomes ``train``.
      check_model: checks the parameters of the model and its components, which this package does not know.

    Raises:
      ConfigError: the config has problems; the error lists all of them.
    """
    check_mode(mode)
    config = ResolvedConfig(config_file, "train" if benchmark else mode, list(overrides), benchmark)
    problems: list[str] = []
    for section in config.sections:
        params, found = config.merge(section)
        found += model_problems(params, section, config.mode)
        if check_model is not None:
            with config_file.in_use():
                found += check_model(config.base_model, copy_nested(params), section, config.given(section))
        problems += found
        config._checked[section] = params
    if problems:
        # Each problem is listed once: train and eval share most parameters, and so most problems.
        raise ConfigError(list(dict.fromkeys(problems)))
    return config


@dataclass
class RunOptions:
    """The options of one run of the command.

    Attributes:
      mode: ``train``, ``eval``, ``train_eval``, ``infer`` or ``interactive_infer``; always ``train`` if ``benchmark``.
      config: the config, merged, overridden and checked for this mode.
      infer_output_file: path of the file that inference writes.
      specs: descriptions of the models that the mode needs (``models.builder.ModelSpec``), by section.
      verb: what the model has to do, such as ``translate``; None for anything. See ``Model.verb``.
      infer_files: files that inference reads instead of the config's data; empty without ``--infer_files``. If it is
        not empty in the mode ``interactive_infer``, the only file is ``-``: lines of stdin, processed as they arrive.
      continue_learning: whether to resume training from the newest checkpoint in the logdir.
      no_dir_check: whether problems of the logdir, and a config that does not fit its checkpoint, only cause warnings
        instead of errors; implied by ``benchmark``.
      benchmark: whether to measure training speed; ``config`` is then adapted to it.
      enable_logs: whether to save output, config, command line and git state in the logdir, and to put checkpoints into
        ``<logdir>/logs``.
      elastic: whether processes may leave and join during training.
      check: whether to build and check everything, make some updates if the mode trains, and stop.
      verbose: whether to print the config and all variables.
      argv: the command-line arguments as given.
      as_saved: whether the config is that of the checkpoint whose weights are used, without other values than logdir.
      moved_files: overrides that make a resumed run read copies of files that no longer exist; they are not part of
        ``config``, which the run saves.
      members: the options of the other models of an ensemble, for ``interactive_infer``; empty for one model.
    """

    mode: str
    config: ResolvedConfig
    infer_output_file: str = "infer-out.txt"
    specs: Mapping[str, Any] = field(default_factory=dict)
    verb: str | None = None
    infer_files: Sequence[str] = ()
    continue_learning: bool = False
    no_dir_check: bool = False
    benchmark: bool = False
    enable_logs: bool = False
    elastic: bool = False
    check: bool = False
    verbose: bool = False
    argv: list[str] = field(default_factory=list)
    as_saved: bool = False
    moved_files: Sequence[Override] = ()
    members: Sequence[RunOptions] = ()


def model_problems(params: dict[str, Any], section: str, mode: str) -> list[str]:
    """Checks the model-level parameters of one section and normalizes the spelling of some values.

    Args:
      params: the parameters after merging and overrides. ``loss_scaling`` and ``dtype``, which have several accepted
        spellings, are normalized in place.
      section: the section that the parameters are for: ``train``, ``eval``, ``infer`` or ``interactive_infer``.
      mode: the run's mode.

    Returns:
      The problems found, one sentence each.
    """
    problems = _dtype_problems(params) + _loss_scaling_problems(params) + _device_problems(params)
    if section == "train":
        problems += _training_problems(params)
    if section == "eval" and mode == "train_eval" and params.get("eval_steps") is None:
        problems.append("'eval_steps' is missing: the mode train_eval needs it, the number of training steps from one "
                        "evaluation to the next; set it in eval_params or base_params.")
    return problems


def _device_problems(params: Mapping[str, Any]) -> list[str]:
    gpus, ids, towers = (params.get(name) for name in ("num_gpus", "gpu_ids", "num_cpu_towers"))
    if ids is not None and (type(ids) is not list or not ids or len({*map(repr, ids)}) < len(ids)
                            or any(type(number) is not int or number < 0 for number in ids)):
        return [f"'gpu_ids' is {ids!r} but has to be a list of distinct GPU numbers, counted from 0, such as [0, 2]."]
    if ids is not None and type(gpus) is int and gpus != len(ids):
        return [f"'num_gpus' is {gpus} but 'gpu_ids' lists {len(ids)} GPUs: leave num_gpus out (--num_gpus=null)."]
    if params.get("use_horovod") and (ids is not None or towers is not None):
        what = f"'gpu_ids' is {ids}" if ids is not None else f"'num_cpu_towers' is {towers}"
        return [f"{what}, but with use_horovod each process uses one device: leave the parameter out and start one "
                "process per device."]
    several = [text for text, given in ((f"'num_gpus' is {gpus}", type(gpus) is int and gpus > 1),
                                        (f"'gpu_ids' is {ids}", ids is not None)) if given]
    if towers is not None and several:
        return [f"{several[0]} and 'num_cpu_towers' is {towers}, but a run uses either GPUs or the CPU: leave one of "
                "the two parameters out."]
    return []


def _training_problems(params: Mapping[str, Any]) -> list[str]:
    problems = []
    max_steps, num_epochs = params.get("max_steps"), params.get("num_epochs")
    if max_steps is None and num_epochs is None:
        problems.append("'max_steps' or 'num_epochs' is missing: training needs one of them.")
    if max_steps is not None and num_epochs is not None:
        problems.append(f"'max_steps' is {max_steps!r} and 'num_epochs' is {num_epochs!r}, but only one of them may be "
                        "given: set one to None.")
    samples, loss = params.get("print_samples_steps"), params.get("print_loss_steps")
    if type(samples) is int and type(loss) is int and loss > 0 and samples % loss:
        problems.append(f"'print_samples_steps' is {samples} but has to be a multiple of 'print_loss_steps', which is "
                        f"{loss}.")
    averaged = params.get("average_checkpoints")
    if averaged is not None and params.get("logdir") and params.get("save_checkpoint_steps") is None:
        problems.append(f"'average_checkpoints' is {averaged!r} but 'save_checkpoint_steps' is not set, so there would "
                        "be no checkpoints to average: set both or neither.")
    if params.get("xla_buckets") is not None and not params.get("use_xla_jit"):
        problems.append(f"'xla_buckets' is {params['xla_buckets']!r} but 'use_xla_jit' is not set: set both or "
                        "neither. Padding batches to static shapes saves XLA compilations; without XLA, it only slows "
                        "a run down.")
    return problems


def _dtype_problems(params: dict[str, Any]) -> list[str]:
    dtype = params.get("dtype")
    if dtype is None:
        return []
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None)
    name = name.removeprefix("tf.") if isinstance(name, str) else repr(dtype)
    if name in DTYPES:
        params["dtype"] = name
        return []
    shown = repr(dtype) if isinstance(dtype, str) else f"tf.{name}" if hasattr(dtype, "name") else name
    if name in ("float16", "bfloat16", "half"):
        better = "mixed_bfloat16" if name == "bfloat16" else "mixed_float16"
        return [f"'dtype' is {shown}, but training purely in half precision is unstable: use \"{better}\", which "
                "computes in half precision and keeps the weights in FP32."]
    return [f"'dtype' is {shown} but has to be one of " + ", ".join(repr(d) for d in DTYPES) + "."
            + did_you_mean(name, DTYPES)]


def _loss_scaling_problems(params: dict[str, Any]) -> list[str]:
    loss_scaling = params.get("loss_scaling")
    if loss_scaling is None:
        return []
    names = {name.lower(): name for name in LOSS_SCALERS}
    if isinstance(loss_scaling, str) and loss_scaling.lower() in names:
        params["loss_scaling"] = names[loss_scaling.lower()]
        return []
    number = _number(loss_scaling)
    if number is not None and number > 0 and math.isfinite(number):
        params["loss_scaling"] = number
        return []
    if isinstance(loss_scaling, type) or (isinstance(loss_scaling, str) and number is None
                                          and ("." in loss_scaling or ":" in loss_scaling)):
        return []  # a user-defined scaler, or the name of one
    hint = did_you_mean(loss_scaling, LOSS_SCALERS) if isinstance(loss_scaling, str) else ""
    return [f"'loss_scaling' is {loss_scaling!r} but has to be a positive number, 'Backoff' or 'LogMax'.{hint}"]


def _number(value: Any) -> float | None:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            return None
    return None
