"""Declarations of the parameters that a component accepts, and checks of the values that a config gives.

A component declares its parameters in ``get_required_params`` and ``get_optional_params``. Each returns a dict from
parameter name to a *spec*:

* a type or a tuple of types: ``int``, ``(str, type)``;
* a list of allowed values: ``["layernorm_L1", "layernorm_L2"]``;
* ``Param(type, default, doc, …)``: one of the above with a default, a description, a range for numbers, and more.

Numbers must be finite and in the range of FP32, integers must fit into 64 bits, and strings must not contain the
character NUL, because file names cannot contain it. Infinity is allowed only as a value that equals a declared bound,
such as ``maximum=math.inf``.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn
from weakref import WeakKeyDictionary

from open_seq2seq.utils.errors import ConfigError, did_you_mean

Specs = Mapping[str, Any]
PARAMS = "_params"
"""Suffix of the parameter that contains the parameters of a nested component: ``encoder_params``."""

_LARGEST_FLOAT = 3.4028234663852886e38  # of FP32
_LARGEST_INT = 2 ** 63 - 1
# Reactions to a parameter whose value differs from the one in the checkpoint that is loaded; see ``Param.on_change``.
REFUSE, SAY, FREE = "refuse", "say", "free"
_SHOWN = 200  # maximum number of characters of a value in a message


@dataclass(frozen=True)
class Param:
    """Declaration of one parameter.

    Attributes:
      type: a type, a tuple of types, or a list of allowed values.
      default: value of an optional parameter that the config does not give. If it is None, configs may also give None,
        whatever the type.
      doc: one-sentence description for the generated parameter reference.
      unit: unit of a number, such as ``tokens``, ``seconds``, ``steps`` or ``examples``.
      derived: whether the model computes the value, so that a config need not give it.
      names: kind of object that a string names, such as ``encoder`` or ``initializer``, see ``config.names``; "" for
        ordinary strings.
      file: kind of file that the parameter names. ``asset``: inference needs the file, and each checkpoint contains a
        copy. ``large``: inference needs the file, and one copy is kept beside the checkpoints. ``data``: the file
        contains examples and is read throughout a run. ``list``: the file contains examples and is read only once.
        Checkpoints contain fingerprints of ``data`` and ``list`` files. For a dict, the kinds are given by entry:
        ``{"model": "asset"}``. See ``config.files``.
      on_change: what happens if the value differs from the one in a checkpoint. ``refuse``: an error, because the
        weights would compute another function or expect another kind of input. ``say`` (default): a message, because
        a resumed run would continue differently. ``free``: nothing; for values that may be changed at any time, such
        as those of a beam search. For a dict or a list of dicts, the reaction can be given by entry:
        ``{"": "refuse", "dropout_keep_prob": "say"}``, where ``""`` stands for all other entries. See
        ``run.restoring``.
      minimum: smallest allowed number; this and the other bounds also apply to each number in a list.
      maximum: largest allowed number.
      above: exclusive lower bound.
      below: exclusive upper bound.
      has_default: whether ``default`` counts; False for a type or a list that is declared without ``Param``.
    """

    type: Any
    default: Any = None
    doc: str = ""
    unit: str = ""
    derived: bool = False
    names: str = ""
    file: str | Mapping[str, str] = ""
    on_change: str | Mapping[str, str] = ""
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    has_default: bool = True


class Declared(NamedTuple):
    """The parameters that a class declares, by name.

    Attributes:
      required: those that a config must give.
      optional: all others.
      all: both.
    """

    required: dict[str, Param]
    optional: dict[str, Param]
    all: dict[str, Param]


_DECLARED: WeakKeyDictionary[Any, Declared] = WeakKeyDictionary()


def declared_by(component: Any) -> Declared:
    """Returns the declarations of a class with ``declared_params``, which are read once."""
    if component not in _DECLARED:
        required, optional = map(as_params, component.declared_params())
        _DECLARED[component] = Declared(required, optional, {**required, **optional, **required})
    return _DECLARED[component]


def forget_declarations() -> None:
    """Makes ``declared_by`` read again: in a notebook, classes can have been changed."""
    _DECLARED.clear()


def as_params(specs: Specs) -> dict[str, Param]:
    """Returns the specs as ``Param``."""
    return {name: spec if isinstance(spec, Param) else Param(spec, has_default=False) for name, spec in specs.items()}


def without_effect(*names: str, reason: str = "") -> dict[str, Param]:
    """Returns the specs of parameters of NVIDIA's OpenSeq2Seq that configs may give, although they mean nothing here.

    Args:
      names: the parameters.
      reason: end of the sentence that describes them, from the comma on.
    """
    return {name: Param(object, None, f"Accepted for old configs; has no effect{reason}.", on_change=FREE)
            for name in names}


def with_change(on_change: str, specs: Specs) -> dict[str, Any]:
    """Returns the declarations with ``on_change`` set in every ``Param`` that does not give it."""
    return {name: replace(spec, on_change=on_change) if isinstance(spec, Param) and not spec.on_change else spec
            for name, spec in specs.items()}


class CheckedParams(Mapping[str, Any]):
    """The checked parameters of a component, which cannot be changed.

    This is not a dict, because ``tf.Module`` would wrap one to track its values.

    Args:
      values: the parameters.
      path: their path in the config, such as ``encoder_params``, for messages.
    """

    def __init__(self, values: Mapping[str, Any], path: str) -> None:
        self._values, self._path = dict(values), path

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._values, **other}

    def __ror__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**other, **self._values}

    def copy(self) -> dict[str, Any]:
        """Returns the parameters as a dict."""
        return dict(self._values)

    def __setitem__(self, *values: Any, **named: Any) -> NoReturn:
        name = next((name for name in (*values[:1], *named) if isinstance(name, str)), "")
        path = "/".join(part for part in (self._path, name) if part)
        raise ConfigError([f"self.params must not be changed, but {shown(path)} is: keep the value in an attribute of "
                           "the class, or change the parameters that are given to super().__init__, as in "
                           "{**params, 'name': value}."])

    __delitem__ = clear = pop = popitem = setdefault = update = __setitem__


def describe_type(param: Param) -> str:
    """Returns the type in words: ``int or None``, ``one of 'a', 'b'``."""
    kind = param.type
    if isinstance(kind, list):
        return "one of " + ", ".join(repr(v) for v in kind)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    names = {type(None): "None", type: "a class", str: "a string", bool: "True or False"}
    return " or ".join(names.get(k, getattr(k, "__name__", str(k))) for k in kinds)


def describe_range(param: Param) -> str:
    """Returns the bounds in words: ``at least 1``, ``above 0 and at most 1``; an empty string if there are none."""
    bounds = {word: f"{bound:.15g}" for word, bound in (
        ("at least", param.minimum), ("above", param.above), ("at most", param.maximum), ("below", param.below))
        if bound is not None and math.isfinite(bound)}
    if "at least" in bounds and "at most" in bounds:
        return f"from {bounds['at least']} to {bounds['at most']}"
    return " and ".join(f"{word} {bound}" for word, bound in bounds.items())


def coerce(value: Any, param: Param, required: bool = False) -> tuple[Any, bool]:
    """Converts a value to the type of a parameter: an int to a float, 1e5 to an int, or a string to a number.

    A string such as ``"1e-3"`` is converted only if the type allows numbers but not strings.

    Args:
      value: the value in the config.
      param: the declaration.
      required: if True, None is accepted only if the type includes None; if False, also if the default is None.

    Returns:
      The converted value, and whether it is of the type.
    """
    kind = param.type
    if isinstance(kind, list):
        # The command line reads the word none as None.
        value = "none" if value is None and None not in kind and "none" in kind else value
        return value, value in kind
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if value is None:
        return value, type(None) in kinds or (param.has_default and param.default is None and not required)
    if object in kinds:
        return value, True
    if callable in kinds and callable(value):
        return value, True
    types = tuple(k for k in kinds if isinstance(k, type))
    if isinstance(value, bool):
        return value, bool in types
    if isinstance(value, types):
        return value, True
    if float in types and isinstance(value, int):
        return (float(value), True) if abs(value) <= _LARGEST_FLOAT else (value, False)
    if int in types and isinstance(value, float) and value.is_integer():
        return int(value), True  # 1e5 steps
    return _parse_number(value, types) if isinstance(value, str) else (value, False)


def _parse_number(text: str, types: tuple[type, ...]) -> tuple[Any, bool]:
    for kind in (int, float):
        if kind in types:
            try:
                return kind(text), True
            except ValueError:
                continue
    if int in types and float not in types:
        with contextlib.suppress(ValueError, OverflowError):
            if float(text).is_integer():
                return int(float(text)), True
    return text, False


def check_value(value: Any, param: Param, path: str, required: bool = False) -> tuple[Any, str]:
    """Converts a value to the type of a parameter and checks its range.

    Args:
      value: the value in the config.
      param: the declaration.
      path: the value's path in the config, for messages.
      required: see ``coerce``.

    Returns:
      The converted value, and one sentence that says what is wrong with it, or an empty string.
    """
    fitted, fits = coerce(value, param, required)
    if not fits:
        return value, f"'{path}' is {shown(value)} but has to be {describe_type(param)}."
    if object in (param.type if isinstance(param.type, tuple) else (param.type,)) or isinstance(param.type, list):
        return fitted, ""
    wanted = next((found for found in map(_fault(param), _leaves(fitted)) if found), "")
    verb = "each of its values has to be" if isinstance(fitted, (list, tuple)) else "has to be"
    return fitted, f"'{path}' is {shown(value)} but {verb} {wanted}." if wanted else ""


def shown(value: Any) -> str:
    """Returns a value as text for messages: its repr, shortened if it is long."""
    try:
        text = repr(value)
    except Exception as error:
        # Python refuses to convert integers of thousands of digits, and the ``__repr__`` of a class that the config
        # defines may raise any error.
        digits = isinstance(error, ValueError) and "digits" in str(error)
        why = "with thousands of digits" if digits else "that cannot be shown as text"
        text = f"a value of type {type(value).__name__} {why}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"


def check_arguments(arguments: Mapping[str, Any], path: str) -> list[str]:
    """Checks undeclared arguments: numbers must be finite, and strings must not contain the character NUL.

    Args:
      arguments: the arguments in the config.
      path: path of the arguments in the config, for messages.

    Returns:
      The problems found, one sentence each.
    """
    fault = _fault(Param(object))
    wanted = {name: next(filter(None, map(fault, _leaves(value))), "") for name, value in arguments.items()}
    return [f"'{path}/{name}' is {shown(arguments[name])} but has to be {words}."
            for name, words in wanted.items() if words]


def _leaves(value: Any) -> Iterator[Any]:
    """Yields the values in nested lists and tuples; a dict is one value, because its entries have their own specs."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _fault(param: Param) -> Callable[[Any], str]:
    """Returns a function that says what a number or string must be instead, or "" if it is valid."""
    or_none = " or None" if isinstance(param.type, tuple) and type(None) in param.type else ""

    def fault(value: Any) -> str:
        if isinstance(value, str):  # ``resolve_name`` checks the names of objects
            return "text without the character NUL" if "\0" in value and not param.names else ""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return ""
        if value != value:  # NaN
            return (describe_range(param) or "a number") + or_none
        if not ((param.minimum is None or value >= param.minimum) and (param.maximum is None or value <= param.maximum)
                and (param.above is None or value > param.above) and (param.below is None or value < param.below)):
            return describe_range(param) + or_none
        if abs(value) == math.inf:
            return "" if value in (param.minimum, param.maximum) else f"a finite number{or_none}"
        if isinstance(value, int) and abs(value) > _LARGEST_INT:
            return f"from -2^63 to 2^63 - 1{or_none}"
        return f"from -3.4e38 to 3.4e38 (the range of FP32){or_none}" if abs(value) > _LARGEST_FLOAT else ""

    return fault


def check_params(params: Mapping[str, Any], required: Specs, optional: Specs, path: str = "",
                 suggest: Callable[[str, Iterable[str]], str] = did_you_mean) -> tuple[dict[str, Any], list[str]]:
    """Checks a dict of parameters against their declarations and converts the values to the declared types.

    Args:
      params: the dict in the config.
      required: specs, by name, of the parameters that must be present.
      optional: specs, by name, of all other parameters.
      path: the dict's path in the config, such as ``encoder_params``, for messages.
      suggest: (unknown name, known names) → a question that names a similar parameter, or "".

    Returns:
      The parameters with defaults filled in, and the problems found, one sentence each.
    """
    declared = as_params({**optional, **required})
    prefix = f"{path}/" if path else ""
    problems: list[str] = []
    checked: dict[str, Any] = {}
    for name, value in params.items():
        if name not in declared:
            problems.append(f"Unknown parameter '{prefix}{name}'." + suggest(str(name), declared))
            continue
        checked[name], problem = check_value(value, declared[name], prefix + name, name in required)
        if name.endswith("_params") and isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
            problem = f"'{prefix}{name}' is {shown(value)} but has to be a dict whose keys are strings."
        problems += [problem] if problem else []
    for name in required:
        if name not in params:
            problems.append(f"'{prefix}{name}' is missing: give {describe_type(declared[name])}.")
    for name in optional:
        if name not in checked and declared[name].has_default:
            checked[name] = copy.deepcopy(declared[name].default)
    return checked, problems


def check_entries(entries: Sequence[Any], required: Specs, optional: Specs, path: str,
                  problems_of: Callable[[Mapping[str, Any], str], list[str]] = lambda entry, place: [],
                  ) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Checks a list of dicts of parameters, such as the layers of an encoder; see ``check_params``.

    Args:
      entries: the list in the config.
      required: specs, by name, of the parameters that each entry must have.
      optional: specs, by name, of all other parameters of an entry.
      path: the list's path in the config, for messages.
      problems_of: (entry, its path) → further problems of an entry whose names and types are valid.

    Returns:
      The entries without problems, by path, with defaults filled in; and the problems found, one sentence each.
    """
    checked: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for number, entry in enumerate(entries):
        place = f"{path}/{number}"
        if not isinstance(entry, Mapping):
            problems.append(f"'{place}' is {shown(entry)} but has to be a dict.")
            continue
        params, found = check_params(entry, required, optional, place)
        found = found or problems_of(params, place)
        problems += found
        if not found:
            checked[place] = params
    return checked, problems
