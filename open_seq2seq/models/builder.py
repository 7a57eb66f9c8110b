"""Builds models from checked parameters: resolves classes, fills in derived parameters, checks that memory suffices."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from open_seq2seq import decoders, encoders, losses, optimizers
from open_seq2seq.config.known_names import suggestion
from open_seq2seq.config.names import resolve_name, resolve_names
from open_seq2seq.config.params import check_params, declared_by, shown
from open_seq2seq.config.resolve import ResolvedConfig
from open_seq2seq.config.user_code import untrusted, untrusted_config
from open_seq2seq.data.contiguous import contiguous_problems
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.metrics.trackers import missing_libraries
from open_seq2seq.models.model import Model
from open_seq2seq.models.model_params import SUMMARIES
from open_seq2seq.models.part import Part
from open_seq2seq.optimizers.dtype import PrecisionPolicy, choice_problems, precision_of
from open_seq2seq.parts.component import (
    Component,
    carried_states,
    creating_variables,
    described_variables,
    has_unbuilt_layers,
    share_variables,
)
from open_seq2seq.utils.errors import ConfigError, UserError, did_you_mean
from open_seq2seq.utils.graphs import release_graphs
from open_seq2seq.utils.machine import GIB, available_bytes
from open_seq2seq.utils.tensorflow_import import suppress_false_alarm

Shapes = dict[str, tuple[int, ...]]

# Assumed memory of a GPU in bytes, more than any GPU has, because TensorFlow does not report how much there is.
_LARGEST_GPU = 512 * GIB
_OF_TRAINING = ("hooks", "trackers")  # lists of classes that only training creates
_NAMED = 3  # number of variables that the error message names


def check_size(model: Model, make_parts: Callable[[], None]) -> None:
    """Checks that a model's variables fit into memory, before they are created.

    See ``check_shapes``. The check is skipped if a part cannot be created without the values of its variables.

    Args:
      model: the model with its data layer, but without its other parts.
      make_parts: function that adds the parts to the model; within this call, placeholders replace the variables.

    Raises:
      ConfigError: the variables do not fit into memory.
      UserError: the parameters of the parts are invalid.
    """
    try:
        shapes = describe_variables(model, make_parts)
    except UserError:
        raise
    except Exception:  # a part reads the values of its variables while it is created, so the shapes are unknown
        return
    check_shapes(model, shapes)


def check_shapes(model: Model, shapes: Shapes) -> None:
    """Checks that variables of these shapes fit into memory.

    In training, this includes the gradients, the variables of the optimizer and the moving average of the weights.

    Args:
      model: the model with its data layer.
      shapes: shapes of the variables by name.

    Raises:
      ConfigError: the variables do not fit into memory; the message names the largest ones.
    """
    left = _memory_left()
    needed = {what: bytes_ for what, bytes_ in _bytes_by_use(model, shapes).items() if bytes_}
    if left is None or sum(needed.values()) <= left:
        return
    largest = sorted(shapes.items(), key=lambda item: -math.prod(item[1]))[:_NAMED]
    parts = ", ".join(f"{what} {_gib(bytes_)}" for what, bytes_ in needed.items())
    raise ConfigError([
        f"The model's variables need {_gib(sum(needed.values()))} of memory ({parts}), but only {_gib(left)} are left: "
        "reduce the size of the largest ones, which are "
        + ", ".join(f"{name} {list(shape)} of {_gib(4 * math.prod(shape))}" for name, shape in largest) + "."])


def describe_variables(model: Model, make_parts: Callable[[], None]) -> Shapes:
    """Returns the shapes, by name, of the variables that a model's parts would create, without creating them.

    Variables that a component creates without ``weight``, such as those of Keras layers, are not included.

    Args:
      model: the model with its data layer, but without its other parts.
      make_parts: function that adds the parts to the model.

    Raises:
      UserError: the parameters of the parts are invalid.
    """
    with creating_variables(shared=True):
        make_parts()
    return described_variables(model)


def _bytes_by_use(model: Model, shapes: Shapes) -> dict[str, int]:
    """Returns the memory in bytes, by use, of FP32 variables on all CPU replicas of this process.

    The uses are ``weights`` and, in training, ``gradients``, ``optimizer`` and ``moving average``.
    """
    params, copies = model.params, 4 * (model.params["num_cpu_towers"] or 1)
    weights = sum(map(math.prod, shapes.values()))
    if model.mode != "train":
        return {"weights": copies * weights}
    slots = 0
    if params["optimizer"] is not None:
        optimizer = optimizers.make_optimizer(params["optimizer"], dict(params["optimizer_params"]))
        slots = sum(itertools.starmap(optimizer.num_state_values, shapes.items()))
    average = weights if optimizers.averages_weights(params) else 0
    return {"weights": copies * weights, "gradients": copies * weights, "optimizer": copies * slots,
            "moving average": copies * average}


def _memory_left() -> int | None:
    left = available_bytes()
    return left if left is None or not tf.config.list_physical_devices("GPU") else max(left, _LARGEST_GPU)


def _gib(number: int) -> str:
    return f"{number / GIB:,.1f} GiB" if number >= GIB / 10 else f"{number / 2 ** 20:,.1f} MiB"


def allocate_carried_states(model: Model) -> None:
    """Creates the variables of a model's carried states.

    In training, each replica has ``iter_size`` copies of each state, one for each of its micro-batches in an update. In
    other modes, it has one copy.

    Raises:
      ConfigError: the data layer, one of its parameters or ``xla_buckets`` does not allow the model to carry state, or
        the states do not fit into memory.
    """
    layer, states = model.data_layer, carried_states(model)
    name, training = type(layer).__name__, model.mode == "train"
    if layer.contiguous:
        problems = contiguous_problems(layer, model.params["xla_buckets"] if training else None)
    elif states and model.mode != "interactive_infer":
        problems = [f"The model carries state from batch to batch ({', '.join(states)}), but the examples of {name} do "
                    "not continue the previous ones: use a data layer whose attribute 'contiguous' is True."]
    else:
        problems = []
    if problems:
        raise ConfigError(problems)
    slots, rows = model.params["iter_size"] if training else 1, layer.params["batch_size"]
    needed = sum(slots * rows * math.prod(state.shape) * state.dtype.size for state in states.values())
    left, needed = _memory_left(), needed * (model.params["num_cpu_towers"] or 1)
    if left is not None and needed > left:
        raise ConfigError([f"The state that the model carries from batch to batch needs {_gib(needed)} of memory, but "
                           f"only {_gib(left)} are left: reduce the batch size (batch_size_per_gpu, "
                           "eval_batch_size_per_gpu) or, in training, iter_size."])
    for state in states.values():
        state.allocate(slots, rows)


@dataclass
class ModelSpec:
    """Description of a model that is not built yet: its classes and parameters for one mode.

    Attributes:
      model_class: a ``Model`` subclass.
      params: the model's parameters, with classes resolved but without default values.
      mode: ``train``, ``eval``, ``infer`` or ``interactive_infer``.
      given: parameters that the mode's section or the command line gives, without those inherited from ``base_params``;
        see ``ResolvedConfig.given``.
      data_config: path of the config if it is untrusted, so that it must not name code from outside the package;
        otherwise None. See ``config.user_code``.
    """

    model_class: type[Model]
    params: dict[str, Any]
    mode: str
    given: Mapping[str, Any] = field(default_factory=dict)
    data_config: str | None = None

    @functools.cached_property
    def full_params(self) -> dict[str, Any]:
        """The parameters, with the model's defaults filled in."""
        declared = declared_by(self.model_class)
        return check_params(self.params, declared.required, declared.optional)[0]


def describe_model(base_model: Any, params: Mapping[str, Any], mode: str,
                   given: Mapping[str, Any] | None = None) -> ModelSpec:
    """Resolves the classes of a config section and checks all parameters that can be checked without data.

    Args:
      base_model: a ``Model`` subclass, or its name.
      params: the parameters of the section, including inherited ones.
      mode: ``train``, ``eval``, ``infer`` or ``interactive_infer``.
      given: see ``ModelSpec``.

    Raises:
      ConfigError: there are problems; the message lists all of them.
    """
    cls = resolve_name(base_model, "model", "base_model")
    spec = ModelSpec(cls, dict(params), mode, given or {}, untrusted_config())
    training = mode == "train"
    if not training:
        for name in _OF_TRAINING:  # only training calls them, so a trained model does not need their code
            spec.params.pop(name, None)
    problems = (_list_problems(spec.params) if training else []) + _resolve_model_names(spec)
    suggest = functools.partial(suggestion, cls, spec.params)
    declared = declared_by(cls)
    checked, own_problems = check_params(spec.params, declared.required, declared.optional, suggest=suggest)
    problems += own_problems
    if training and not problems:
        problems += optimizers.argument_problems(checked)
    if training:
        problems += [*_summaries_problems(spec.params), *missing_libraries(spec.params.get("trackers"))]
    problems += optimizers.combination_problems(spec.params) + choice_problems(spec.params)
    for name, part in cls.all_parts().items():
        part_class, part_params = spec.params.get(name), spec.params.get(f"{name}_params") or {}
        if inspect.isclass(part_class) and issubclass(part_class, part.base) and isinstance(part_params, Mapping):
            problems += _part_problems(spec, name, part_class, suggest)
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return spec


def describe_section(config: ResolvedConfig, section: str) -> ModelSpec:
    """Describes the model for the mode ``section``; see ``describe_model``."""
    with config.config_file.in_use():
        return describe_model(config.base_model, config.params(section), section, config.given(section))


def _resolve_model_names(spec: ModelSpec) -> list[str]:
    """Replaces names in the model's parameters by the objects that they name; returns one message per problem."""
    problems: list[str] = []
    parts = spec.model_class.all_parts()
    for name, part in parts.items():
        value = spec.params.get(name, part)
        if value is None and not part.optional and spec.mode in part.modes:
            problems.append(f"'{name}' is None but has to be a class or its name.")
        if isinstance(value, str) or inspect.isclass(value):
            try:
                spec.params[name] = resolve_name(value, part.kind, name, part.base)
            except ConfigError as error:
                problems += error.problems
    others = {name: param for name, param in declared_by(spec.model_class).all.items() if name not in parts}
    spec.params, name_problems = resolve_names(spec.params, others)
    try:
        if "loss_scaling" in spec.params:
            spec.params["loss_scaling"] = optimizers.named_scaler(spec.params["loss_scaling"])
    except ConfigError as error:
        name_problems += error.problems
    return problems + name_problems


def _list_problems(params: dict[str, Any]) -> list[str]:
    """Returns messages about what has to be a list but is not, and removes it, so that no later check reports it."""
    problems = []
    for name in _OF_TRAINING:
        if name in params and not isinstance(params[name], (list, tuple)):
            value = params.pop(name)
            listed = f", such as [{value!r}]" if isinstance(value, str) else ""
            problems.append(f"'{name}' is {shown(value)} but has to be a list of {name[:-1]} classes or their names"
                            f"{listed}.")
    return problems


def _summaries_problems(params: Mapping[str, Any]) -> list[str]:
    if not isinstance(params.get("summaries"), list):
        return []
    names = [str(name) for name in params["summaries"]]
    return [f"'summaries' contains the unknown name '{name}'." + did_you_mean(name, SUMMARIES)
            for name in names if name not in SUMMARIES]


def _part_params(spec: ModelSpec, part: str, part_class: Any) -> dict[str, Any]:
    """Returns the parameters of a part.

    If the mode's section or the command line replaces the part's class, inherited parameters that the new class does
    not declare are left out, because they are meant for the inherited class. If the command line replaces it,
    ``config.known_names.drop_unknown`` has also dropped what the section gives but the new class does not accept.
    """
    params = dict(spec.params.get(f"{part}_params") or {})
    if part in spec.given:
        kept = {*declared_by(part_class).all, *(spec.given.get(f"{part}_params") or {})}
        params = {key: value for key, value in params.items() if key in kept}
    return params


def _part_problems(spec: ModelSpec, part: str, part_class: Any,
                   suggest: Callable[[str, Iterable[str]], str]) -> list[str]:
    """Resolves names in a part's parameters and checks the parameters; returns one message per problem."""
    declared = declared_by(part_class)
    params, problems = resolve_names(_part_params(spec, part, part_class), declared.all, f"{part}_params")
    if params:  # merged, because _part_params leaves out inherited parameters that this mode's class does not declare
        spec.params[f"{part}_params"] = {**spec.params[f"{part}_params"], **params}
    derived = {name: param for name, param in declared.required.items() if param.derived or (
        params.get(name) is None and name in _customarily_derived(issubclass(part_class, DataLayer)))}
    needed = {name: param for name, param in declared.required.items() if name not in derived}
    return problems + check_params(params, needed, {**declared.optional, **derived}, f"{part}_params", suggest)[1]


@functools.cache
def _customarily_derived(of_data: bool) -> frozenset[str]:
    """Returns the names of the parameters that parts of this package declare as derived.

    A user's part may declare a parameter of such a name as a plain type, as in ``"src_vocab_size": int``. A config need
    not give it either.

    Args:
      of_data: whether to return the parameters of data layers; otherwise, those of encoders, decoders and losses.
    """
    packages = (encoders, decoders, losses)
    classes = [DataLayer] if of_data else [getattr(package, name) for package in packages for name in package.__all__]
    declared = [declared_by(cls).all for cls in classes if hasattr(cls, "declared_params")]
    return frozenset(name for params in declared for name, param in params.items() if param.derived)


def check_model(spec: ModelSpec) -> None:
    """Creates a model's data layer and checks that the model's variables fit into memory, without creating them.

    Raises:
      UserError: the parameters or the data are invalid, or the variables do not fit into memory.
    """
    with untrusted(spec.data_config):
        model = _without_parts(spec)
        check_shapes(model, describe_variables(model, functools.partial(_add_parts, model, spec)))


def build_data_layer(spec: ModelSpec) -> DataLayer:
    """Builds the data layer of a model alone.

    Raises:
      UserError: the parameters or the data are invalid.
    """
    with untrusted(spec.data_config):
        return _without_parts(spec).data_layer


def build_model(spec: ModelSpec, seed: int = 0, variables_of: Model | None = None) -> Model:
    """Builds a model: first the data layer, from which parameters of the other parts derive, then these parts.

    Then ``Model.connect`` is called. See ``Model.derived_params`` for what derives.

    Args:
      spec: description of the model.
      seed: seed of the initial values of the variables.
      variables_of: a built model whose variables the new model uses instead of its own; None to create variables.

    Raises:
      UserError: see ``check_model``; or the classes of ``variables_of`` differ.
    """
    suppress_false_alarm()
    with untrusted(spec.data_config), creating_variables(seed, shared=variables_of is not None):
        model = _without_parts(spec)
        if variables_of is not None:
            _check_classes(model, variables_of)
        else:
            check_size(model, functools.partial(_add_parts, model, spec))
        _add_parts(model, spec)
        model.connect()
        allocate_carried_states(model)
        if variables_of is None and has_unbuilt_layers(model):
            _build_keras_layers(model)
        if variables_of is None and model.mode == "train":
            model.initialize_from_data()
    if variables_of is not None:
        share_variables(model, variables_of)
    return model


def _check_classes(model: Model, owner: Model) -> None:
    """Raises ConfigError if the data layers of two models that share variables number classes differently."""
    names, before = map(_class_names, (model, owner))
    if not names or not before or names == before:
        return
    # Without a file of names, some layers use the indices as names, which fit any other names.
    if len(names) == len(before) and set(names) != set(before) and [*map(str, range(len(names)))] in (names, before):
        return
    place, pair = next((place, pair) for place, pair in enumerate(itertools.zip_longest(names, before))
                       if pair[0] != pair[1])
    now, then = ("missing" if name is None else repr(name) for name in pair)
    raise ConfigError([f"The data layers for {model.mode} and {owner.mode} number the classes differently: class "
                       f"{place} is {now} for {model.mode}, but {then} for {owner.mode}; give both the same classes in "
                       "the same order."])


def _class_names(model: Model) -> list[str]:
    """Returns the names of the data layer's classes in the order of their indices; none if it does not name classes."""
    layer = model.data_layer
    return list(getattr(layer, "class_names", getattr(layer, "labels", ())))


def _without_parts(spec: ModelSpec) -> Model:
    model = spec.model_class(spec.params, spec.mode)
    _add_part(model, spec, "data_layer")
    if problems := model.part_problems():
        raise ConfigError(problems)
    return model


def _add_parts(model: Model, spec: ModelSpec) -> None:
    for name in model.components:
        _add_part(model, spec, name)


def _add_part(model: Model, spec: ModelSpec, name: str) -> None:
    part, part_class = spec.model_class.all_parts().get(name, Part(Component, inherits=False)), model.params[name]
    policy = precision_of(spec.params)
    params = _data_params(model, spec, name, part_class) if issubclass(part.base, DataLayer) else _component_params(
        model, spec, name, part, policy)
    setattr(model, name, _make_part(part_class, params, model, name, spec.mode))


def _make_part(part_class: Any, params: dict[str, Any], model: Model, name: str, mode: str) -> Any:
    """Creates a part, also one whose constructor has only the arguments that NVIDIA's OpenSeq2Seq passed.

    There, losses had ``(params, model, name)``, and data layers ``(params, model, num_workers, worker_id)``. The
    numbers of workers are None, because the toolkit itself divides the examples among processes.
    """
    kinds = {argument.name: argument.kind for argument in inspect.signature(part_class).parameters.values()}
    if "num_workers" in kinds:
        return part_class({**params, "mode": mode}, model)
    takes_all = len(kinds) > 3 or {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} & {*kinds.values()}
    return part_class(params, model, name, mode) if takes_all else part_class(params, model, name)


def _build_keras_layers(model: Model) -> None:
    """Traces the forward pass once, because Keras layers create their variables when they are first called."""
    def forward(batch: dict[str, Any]) -> None:
        if model.mode in ("train", "eval"):
            model.loss_terms(batch, training=False)
        else:
            model.predict(batch)

    traced = tf.function(forward, autograph=False)
    traced.get_concrete_function(model.data_layer.input_signature)
    release_graphs(traced)


def _data_params(model: Model, spec: ModelSpec, name: str, layer_class: Any) -> dict[str, Any]:
    params = _part_params(spec, name, layer_class)
    batch_size = model.params["batch_size_per_gpu"]
    if spec.mode != "train":
        batch_size = model.params["eval_batch_size_per_gpu"] or batch_size
        params["shuffle"] = False
    return {**params, "batch_size": batch_size, "mode": spec.mode}


def _component_params(model: Model, spec: ModelSpec, name: str, part: Part, policy: PrecisionPolicy) -> dict[str, Any]:
    """Returns the parameters of a part: of those that its class declares, the config's and those from elsewhere.

    What derives from the model or its data layer replaces what the config gives. The model's dtype, initialiser and
    regulariser are for parts that take them over (see ``Part``) and to which the config gives none.
    """
    part_class = model.params[name]
    declared = declared_by(part_class).all
    params = _part_params(spec, name, part_class)
    inherited: dict[str, Any] = {"dtype": policy.compute}
    if part.inherits:
        for kind in ("initializer", "regularizer"):
            if params.get(kind) is None and model.params[kind] is not None:
                inherited[kind] = model.params[kind]
                inherited[f"{kind}_params"] = dict(model.params[f"{kind}_params"])
    derived = {**inherited, **model.derived_params(name)}
    if not part.follows_dtype or params.get("dtype") is not None:
        derived.pop("dtype")
    return {**params, **{key: value for key, value in derived.items() if key in declared}}
