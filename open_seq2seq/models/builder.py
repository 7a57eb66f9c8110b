"""From checked parameters to a model: the one place that resolves classes and fills in derived parameters."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import tensorflow as tf

from open_seq2seq import data, decoders, encoders, losses, models, optimizers
from open_seq2seq.config.loader import note_source
from open_seq2seq.config.params import check_params
from open_seq2seq.models.model import SUMMARIES, Model
from open_seq2seq.optimizers.dtype import PrecisionPolicy, resolve_dtype
from open_seq2seq.parts.component import borrow_variables, creating_variables, has_unbuilt_layers
from open_seq2seq.utils.errors import ConfigError, did_you_mean

_PACKAGES: dict[str, ModuleType] = {
    "base_model": models, "data_layer": data, "encoder": encoders, "decoder": decoders, "loss": losses,
}


@dataclass
class ModelSpec:
    """A model described but not built: classes and parameters of one mode.

    Attributes:
      model_class: a ``Model`` subclass.
      params: the model's parameters, classes resolved, defaults not filled in.
      mode: ``train``, ``eval``, ``infer`` or ``interactive_infer``.
      given: parameters that the mode's own section gave, without the inherited ones.
    """

    model_class: type[Model]
    params: dict[str, Any]
    mode: str
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def full_params(self) -> dict[str, Any]:
        """The parameters with the model's defaults for those that were not given."""
        cls = self.model_class
        return check_params(self.params, cls.get_required_params(), cls.get_optional_params())[0]


def resolve_class(value: Any, key: str) -> Any:
    """Returns the class that a config names.

    Args:
      value: a class, an exported name (``TransformerEncoder``), ``package.module.Class``,
        or ``path/to/file.py:Class``.
      key: where it stands: ``encoder``, ``data_layer``…

    Raises:
      ConfigError: nothing of that name.
    """
    if not isinstance(value, str):
        return value
    if ".py:" in value:
        path, _, name = value.rpartition(":")
        return _attribute(_load_file(path, key), name, key, value)
    module_name, _, name = value.rpartition(".")
    if not module_name:
        return _attribute(_PACKAGES[key], name, key, value)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError([f"'{key}' is {value!r}, but {module_name} cannot be imported: {error}."]) from error
    return _attribute(module, name, key, value)


@functools.cache
def _load_file(path: str, key: str) -> ModuleType:
    if not os.path.isfile(path):
        raise ConfigError([f"'{key}' names the file {path}, which does not exist."])
    name = "open_seq2seq_user_" + os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    note_source(name, path)
    module.tf = tf  # type: ignore[attr-defined]  # configs find it in their globals too
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def _attribute(module: ModuleType, name: str, key: str, value: str) -> Any:
    found = getattr(module, name, None)
    if inspect.isclass(found):
        return found
    known = [n for n in dir(module) if inspect.isclass(getattr(module, n))]
    raise ConfigError([f"'{key}' is {value!r}, but there is no such class." + did_you_mean(name, known)])


def describe_model(base_model: Any, params: Mapping[str, Any], mode: str,
                   given: Mapping[str, Any] | None = None) -> ModelSpec:
    """Resolves the classes of a config section and checks all parameters that can be checked without data.

    Raises:
      ConfigError: every problem found, together.
    """
    spec = ModelSpec(resolve_class(base_model, "base_model"), dict(params), mode, given or {})
    problems: list[str] = []
    for key in _PACKAGES:
        if spec.params.get(key) is not None:
            try:
                spec.params[key] = resolve_class(spec.params[key], key)
            except ConfigError as error:
                problems += error.problems
    cls = spec.model_class
    problems += check_params(spec.params, cls.get_required_params(), cls.get_optional_params())[1]
    problems += _summaries_problems(spec.params)
    problems += optimizers.combination_problems(spec.params)
    for part in ("data_layer", "encoder", "decoder", "loss"):
        part_class = spec.params.get(part)
        if inspect.isclass(part_class):
            problems += _part_problems(spec, part, part_class)
    if problems:
        raise ConfigError(problems)
    return spec


def description_problems(base_model: Any, params: Mapping[str, Any], mode: str, given: Mapping[str, Any]) -> list[str]:
    """Returns what ``describe_model`` finds wrong, one sentence each."""
    try:
        describe_model(base_model, params, mode, given)
    except ConfigError as error:
        return error.problems
    return []


def _summaries_problems(params: Mapping[str, Any]) -> list[str]:
    names = [str(name) for name in params.get("summaries") or []]
    problems = [f"'summaries' names '{name}', which is unknown." + did_you_mean(name, SUMMARIES)
                for name in names if name not in SUMMARIES]
    if "larc_summaries" in names and not params.get("larc_params"):
        problems.append("'summaries' names 'larc_summaries', but LARC is off: give 'larc_params', or leave the name "
                        "out.")
    return problems


def _part_params(spec: ModelSpec, part: str, part_class: Any) -> dict[str, Any]:
    """The part's parameters, without inherited ones that a class swapped in by the mode does not know."""
    params = dict(spec.params.get(f"{part}_params") or {})
    if part in spec.given:
        known = {**part_class.get_required_params(), **part_class.get_optional_params()}
        own = spec.given.get(f"{part}_params") or {}
        params = {key: value for key, value in params.items() if key in known or key in own}
    return params


# What the builder fills in by itself; a config need not give them.
_DERIVED = {"batch_size", "mode", "src_vocab_size", "tgt_vocab_size", "dtype", "GO_SYMBOL", "END_SYMBOL"}


def _part_problems(spec: ModelSpec, part: str, part_class: Any) -> list[str]:
    required, optional = part_class.get_required_params(), part_class.get_optional_params()
    needed = {name: value for name, value in required.items() if name not in _DERIVED}
    optional = {**optional, **{name: value for name, value in required.items() if name in _DERIVED}}
    params = _part_params(spec, part, part_class)
    return check_params(params, needed, optional, f"{part}_params")[1]


def build_model(spec: ModelSpec, seed: int = 0, lender: Model | None = None) -> Model:
    """Builds a model.

    Args:
      spec: from ``describe_model``.
      seed: of the initial values.
      lender: a built model whose variables the new one uses instead of its own.
    """
    policy = resolve_dtype(spec.params.get("dtype", "float32"))
    with creating_variables(seed, borrow=lender is not None):
        model = spec.model_class(spec.params, spec.mode)
        model.data_layer = spec.params["data_layer"](_data_params(model, spec), model, "data_layer", spec.mode)
        for part in model.components:
            part_class = model.params[part]
            params = _component_params(model, spec, part, part_class, policy)
            setattr(model, part, part_class(params, model, part, spec.mode))
        model.connect()
        if lender is None and has_unbuilt_layers(model):
            _build_keras_layers(model)
    if lender is not None:
        borrow_variables(model, lender)
    return model


def _build_keras_layers(model: Model) -> None:
    """Traces the forward pass once: Keras layers make their variables when they are first called."""
    def forward(batch: dict[str, Any]) -> None:
        if model.mode in ("train", "eval"):
            model.loss_terms(batch, training=False)
        else:
            model.predict(batch)

    tf.function(forward, autograph=False).get_concrete_function(model.data_layer.input_signature)


def _data_params(model: Model, spec: ModelSpec) -> dict[str, Any]:
    layer_class = model.params["data_layer"]
    params = _part_params(spec, "data_layer", layer_class)
    batch_size = model.params["batch_size_per_gpu"]
    if spec.mode != "train":
        batch_size = model.params["eval_batch_size_per_gpu"] or batch_size
        params["shuffle"] = False
    return {**params, "batch_size": batch_size, "mode": spec.mode}


def _component_params(model: Model, spec: ModelSpec, part: str, part_class: Any,
                      policy: PrecisionPolicy) -> dict[str, Any]:
    known = {**part_class.get_required_params(), **part_class.get_optional_params()}
    params = _part_params(spec, part, part_class)
    inherited = {"dtype": tf.float32 if part == "loss" else policy.compute}
    if part in ("encoder", "decoder"):
        for kind in ("initializer", "regularizer"):
            if params.get(kind) is None and model.params[kind] is not None:
                inherited[kind] = model.params[kind]
                inherited[f"{kind}_params"] = dict(model.params[f"{kind}_params"])
    derived = {**inherited, **model.derived_params(part)}
    if part == "loss" or params.get("dtype") is not None:
        derived.pop("dtype")
    built = {**params, **{name: value for name, value in derived.items() if name in known}}
    _name_regularizer(built)
    if isinstance(built.get("norm_params"), Mapping):
        built["norm_params"] = dict(built["norm_params"])
        _name_regularizer(built["norm_params"])
    return built


def _name_regularizer(params: dict[str, Any]) -> None:
    """Puts the toolkit's function in the place of its name, as a saved config has it; Keras' names stay."""
    named = params.get("regularizer")
    if isinstance(named, str) and hasattr(optimizers, named):
        params["regularizer"] = getattr(optimizers, named)


def make_schedule_and_optimizer(model: Model, last_step: int, steps_per_epoch: int | None) -> tuple[Any, Any]:
    """Makes the learning-rate schedule and the optimizer that a model's parameters name.

    Raises:
      ConfigError: neither is given, or their arguments do not fit.
    """
    params = model.params
    missing = [f"'{key}' is missing: training needs it." for key in ("optimizer", "lr_policy") if params[key] is None]
    if missing:
        raise ConfigError(missing)
    optimizer = optimizers.make_optimizer(params["optimizer"], dict(params["optimizer_params"]))
    policy, arguments = params["lr_policy"], dict(params["lr_policy_params"])
    return optimizers.make_schedule(policy, arguments, last_step, steps_per_epoch), optimizer
