"""The parameters that the classes and functions named in a config accept, and suggestions for misspelt parameters."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from open_seq2seq.config.names import part_class
from open_seq2seq.config.overrides import Override
from open_seq2seq.config.params import PARAMS, declared_by
from open_seq2seq.utils.errors import nearest_name

# Names that other toolkits give to parameters → their names in this toolkit.
_CUSTOMARY = {"lr": "learning_rate", "batch_size": "batch_size_per_gpu", "bs": "batch_size_per_gpu",
              "epochs": "num_epochs", "steps": "max_steps", "seed": "random_seed", "beam": "beam_size",
              "weight_decay": "decoupled_weight_decay", "clip_norm": "max_grad_norm", "precision": "dtype"}
# Parameter → kind of its names, where ``Param.names`` cannot declare it: a string in loss_scaling may also be a number.
_KINDS = {"loss_scaling": "loss_scaler"}
# Arguments that a config does not give, because Python or the toolkit passes them.
_FILLED_IN = {"self", "global_step"}
_MOST_SHOWN = 4  # maximum number of paths in a suggestion


def known_parameters(value: Any) -> list[str] | None:
    """Returns the names of the parameters that a class or function accepts; None if it accepts any, or if unknown."""
    if hasattr(value, "declared_params"):
        return [name for name, param in declared_by(value).all.items() if not param.derived]
    if inspect.isclass(value) and hasattr(value, "get_optional_params"):
        return list(value.get_optional_params())
    # A class with **kwargs is assumed to pass them to the constructors of its base classes, so their arguments are
    # included. A function with **kwargs is assumed to accept every name.
    functions = [cls.__init__ for cls in value.__mro__[:-1]] if inspect.isclass(value) else [value]  # type: ignore[misc]
    try:
        arguments = [argument for function in functions for argument in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return None
    if not inspect.isclass(value) and any(one.kind is one.VAR_KEYWORD for one in arguments):
        return None
    return list(dict.fromkeys(one.name for one in arguments if one.name not in _FILLED_IN
                              and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)))


def named_object(owner: Any, name: str, value: Any) -> Any:
    """Returns the class or function that a parameter of the config names, or None if the value names none.

    Args:
      owner: the class that declares the parameter.
      name: the parameter, such as ``encoder`` or ``lr_policy``.
      value: its value in the config: a name or the object itself.
    """
    if not isinstance(value, str) and not callable(value):
        return None
    declared = declared_by(owner).all if hasattr(owner, "declared_params") else {}
    kind = _KINDS.get(name) or (declared[name].names if name in declared else "")
    parts = owner.all_parts() if hasattr(owner, "all_parts") else {}
    return part_class(value, parts[name].kind if name in parts else kind)


def drop_unknown(base_model: Any, params: dict[str, Any], before: Mapping[str, Any],
                 overrides: Iterable[Override]) -> None:
    """Where the command line replaces a class or function, drops the parameters that the new one does not accept.

    Where the section of a mode replaces a class, ``models.builder`` leaves them out. Parameters that are themselves
    given on the command line are kept, so that mistakes in them are reported.

    Args:
      base_model: the model's class, or its name.
      params: the parameters with the overrides applied; changed in place.
      before: the parameters without the overrides.
      overrides: the overrides that were applied.
    """
    overrides = list(overrides)
    typed = {override.keys for override in overrides}
    for keys in typed:
        dicts = _places(params, keys), _places(before, keys)
        if None in dicts or not isinstance(dicts[0].get(keys[-1] + PARAMS), dict):  # type: ignore[union-attr]
            continue
        owner = _owner(base_model, params, keys[:-1])
        value, old = (place.get(keys[-1]) for place in dicts)  # type: ignore[union-attr]
        accepted = _known(owner, keys[-1], value, old) if owner is not None else None
        if accepted is not None:
            below = dicts[0][keys[-1] + PARAMS]  # type: ignore[index]
            for name in [name for name in below if name not in accepted]:
                if not any(one[:len(keys) + 1] == (*keys[:-1], keys[-1] + PARAMS, name) for one in typed):
                    del below[name]


def _known(owner: Any, name: str, value: Any, old: Any) -> list[str] | None:
    """Returns the parameters that the new value of ``name`` accepts.

    Returns None if nothing has to be dropped: the value is None, unknown, the same as before, or accepts any parameter.
    """
    if value is None or value == old:
        return None
    if not isinstance(value, str) and not callable(value):
        return []  # a number, such as a static loss scale
    component = named_object(owner, name, value)
    return None if component is None or component is named_object(owner, name, old) else known_parameters(component)


def _places(params: Any, keys: tuple[str, ...]) -> dict[str, Any] | None:
    """Returns the dict at the path ``keys[:-1]``, or None if there is none."""
    for key in keys[:-1]:
        params = params.get(key) if isinstance(params, Mapping) else None
    return params if isinstance(params, Mapping) else None  # type: ignore[return-value]


def _owner(base_model: Any, params: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """Returns the class whose parameters are at a path, such as the decoder's for ``("decoder_params",)``, or None."""
    owner = part_class(base_model, "model")
    for key in keys:
        name = key.removesuffix(PARAMS)
        if owner is None or name == key:
            return None
        owner, params = named_object(owner, name, params.get(name)), params[key]
    return owner


def parameter_paths(owner: Any, params: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the paths of all parameters that a config may set, including those of nested classes and functions.

    Args:
      owner: the model's class, or that of a component, or a function.
      params: the parameters in the config; they name the nested classes.
      path: path of the parameters in the config.
    """
    for name in known_parameters(owner) or params:
        yield (*path, name)
        below = params.get(name + PARAMS)
        below = below if isinstance(below, Mapping) else {}
        inside = named_object(owner, name, params.get(name))
        if inside is not None:
            yield from parameter_paths(inside, below, (*path, name + PARAMS))


def short_name_paths(base_model: Any, params: Mapping[str, Any], name: str) -> list[tuple[str, ...]]:
    """Returns the paths of the parameters of a model's parts that have a name; [] if the model itself has it.

    Args:
      base_model: the model's class, or its name.
      params: the model's parameters.
      name: name of a parameter, such as ``beam_size``.
    """
    owner = _owner(base_model, params, ())
    paths = [path for path in parameter_paths(owner, params) if path[-1] == name] if owner is not None else []
    return [] if (name,) in paths else paths


def suggestion(owner: Any, params: Mapping[str, Any], name: str, near: Iterable[str]) -> str:
    """Returns a question such as ``" Did you mean 'decoder_params/beam_size'?"``, or "" if no name is similar.

    If a parameter anywhere in the config has exactly the unknown name, it is suggested instead of a similar name at the
    same path. The same is true if other toolkits use the unknown name for it, such as ``lr`` for ``learning_rate``.

    Args:
      owner: the model's class.
      params: the model's parameters.
      name: the unknown name.
      near: the known names at the path of the unknown one.
    """
    paths: dict[str, list[str]] = {}
    for path in parameter_paths(owner, params):
        paths.setdefault(path[-1], []).append("/".join(path))
    wanted = _CUSTOMARY.get(name, name)
    if wanted in paths:
        return _asked(paths[wanted])
    here, similar = nearest_name(name, near), difflib.get_close_matches(wanted, paths, n=1, cutoff=0.75)
    if similar and (here is None or _likeness(wanted, similar[0]) > _likeness(name, here)):
        return _asked(paths[similar[0]])
    return f" Did you mean '{here}'?" if here else ""


def _likeness(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, a, b).ratio()


def _asked(paths: list[str]) -> str:
    shown = [f"'{path}'" for path in paths[:_MOST_SHOWN]]
    return f" Did you mean {' or '.join(shown)}?"
