"""The JSON schema of YAML configs, made of the declarations of parameters: editors complete and check configs by it.

A schema sees the file as it is written. So it knows the parameters of a class only where the same section, or
``base_params``, names the class by its exported name, and it reports no parameter that is missing, because another
section or a base may give it. Everything else, such as the parameters of a user's class, is accepted.
"""

from __future__ import annotations

import inspect
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

from open_seq2seq import data, decoders, encoders, losses, models, optimizers  # noqa: F401 (they register names)
from open_seq2seq.config.base_config import BASE_CONFIG, CONFIG_KEYS
from open_seq2seq.config.known_names import known_parameters
from open_seq2seq.config.merge import DROP
from open_seq2seq.config.names import kinds, registered
from open_seq2seq.config.overrides import SECTIONS
from open_seq2seq.config.params import PARAMS, Param, as_params, declared_by
from open_seq2seq.config.resolve import DTYPES, LOSS_SCALERS
from open_seq2seq.config.serialize import to_plain

Schema = dict[str, Any]
_TYPES = {bool: "boolean", int: "integer", float: "number", dict: "object", list: "array", tuple: "array",
          type(None): "null"}
_BOUNDS = {"minimum": "minimum", "maximum": "maximum", "above": "exclusiveMinimum", "below": "exclusiveMaximum"}
_NUMBER = r"[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?"  # that an editor, or a quotation mark, makes a string
_ELSEWHERE = r"[.:]"  # in package.module.Name and path/to/file.py:Name
# Parameters of models whose strings are checked without a kind of names.
_SPELLINGS = {"dtype": rf"^(tf\.)?({'|'.join(DTYPES)})$",
              "loss_scaling": "|".join((_ELSEWHERE, f"^{_NUMBER}$", *(
                  f"^[{name[0]}{name[0].lower()}]{name[1:]}$" for name in LOSS_SCALERS)))}
_KINDS = {"loss_scaling": "loss_scaler"}  # of the names of these parameters


def config_schema() -> Schema:
    """Returns the schema of whole configs, and of those that are based on another."""
    return _ConfigSchema().whole()


class _ConfigSchema:
    """Makes the schema; definitions of classes are shared, because several parameters can name the same class."""

    def __init__(self) -> None:
        elsewhere: Schema = {"type": "string", "pattern": _ELSEWHERE}
        self._definitions: dict[str, Schema] = {
            f"names.{kind}": {"anyOf": [*([{"enum": names}] if (names := _short_names(kind)) else []), elsewhere]}
            for kind in kinds()}

    def whole(self) -> Schema:
        model_classes = registered("model")
        by_model = [_if({"base_model": {"enum": names}}, {section: self._of_class("model", name)
                                                         for section in SECTIONS})
                    for name, (_, names) in model_classes.items()]
        params = {name: param for model, _ in model_classes.values() for name, param in declared_by(model).all.items()}
        self._definitions["any_model"] = {"properties": self._properties(params), "allOf": self._choices(params)}
        unknown = {"if": {"required": ["base_model"]},
                   "else": {"properties": {section: _reference("any_model") for section in SECTIONS}}}
        keys: Schema = {name: {"type": ["object", "null"]} for name in CONFIG_KEYS}
        keys |= {"base_model": _names("model"), BASE_CONFIG: {"type": "string", "description": (
            "The config that this one is based on: a path, relative to this file, or recipe:NAME.")}}
        return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Config of OpenSeq2Seq",
                "type": "object", "properties": keys, "additionalProperties": False,
                "anyOf": [{"required": ["base_model", "base_params"]}, {"required": [BASE_CONFIG]}],
                "allOf": [*by_model, unknown, *self._inherited(params)], "definitions": self._definitions}

    def _inherited(self, params: Mapping[str, Param]) -> list[Schema]:
        """Returns, for classes that ``base_params`` names, the parameters that other sections can give them."""
        conditions = []
        for name, kind in _named(params).items():
            for choice, (_, names) in registered(kind).items():
                inherited = f"inherited.{name}.{choice}"
                self._definitions[inherited] = {
                    "if": {"required": [name]},
                    "else": {"properties": {name + PARAMS: self._of_class(kind, choice)}}}
                chosen = {"required": [name], "properties": {name: {"enum": names}}}
                references = {section: _reference(inherited) for section in SECTIONS[1:]}
                conditions.append(_if({"base_params": chosen}, references))
        return conditions

    def _of_class(self, kind: str, name: str) -> Schema:
        """Returns a reference to the schema of the parameters of a class or function."""
        place = f"{kind}.{name}"
        if place not in self._definitions:
            self._definitions[place] = {}  # before the classes that it can name, one of which may be itself
            params = _parameters(registered(kind)[name][0])
            if params is not None:
                choices = self._choices(params)
                self._definitions[place] |= {"properties": self._properties(params), "additionalProperties": False,
                                             **({"allOf": choices} if choices else {})}
        return _reference(place)

    def _choices(self, params: Mapping[str, Param]) -> list[Schema]:
        """Returns references to the parameters of what each parameter can name."""
        references = []
        for name, kind in _named(params).items():
            place = f"choice.{name}.{kind}"
            if place not in self._definitions:
                self._definitions[place] = {}
                self._definitions[place] |= {"allOf": [
                    _if({name: {"enum": names}}, {name + PARAMS: self._of_class(kind, choice)})
                    for choice, (_, names) in registered(kind).items()]}
            references.append(_reference(place))
        return references

    def _properties(self, params: Mapping[str, Param]) -> Schema:
        properties = {name: _of_param(param) for name, param in params.items()}
        if "larc_params" in params:  # the parameters of a model
            larc = self._properties(_parameters(optimizers.Larc) or {})
            properties["larc_params"] |= {"properties": larc, "additionalProperties": False}
            for name, spelling in _SPELLINGS.items():
                properties[name]["pattern"] = "|".join((spelling, f"^({DROP}|None)$"))
        return properties


def _short_names(kind: str) -> list[str]:
    return [name for _, names in registered(kind).values() for name in names if "." not in name]


def _reference(place: str) -> Schema:
    return {"$ref": f"#/definitions/{place}"}


def _if(properties: Schema, then: Schema) -> Schema:
    return {"if": {"required": list(properties), "properties": properties}, "then": {"properties": then}}


def _named(params: Mapping[str, Param]) -> dict[str, str]:
    """Returns the kinds of what the parameters name that have parameters themselves, as ``x`` has ``x_params``."""
    named = {name: param.names or _KINDS.get(name, "") for name, param in params.items()}
    return {name: kind for name, kind in named.items() if kind and name + PARAMS in params}


def _parameters(value: Any) -> dict[str, Param] | None:
    """Returns the parameters that a class or function accepts; None if it accepts any."""
    if hasattr(value, "declared_params"):
        return declared_by(value).all
    if inspect.isclass(value) and hasattr(value, "get_optional_params"):
        return as_params({**value.get_optional_params(), **getattr(value, "get_required_params", dict)()})
    names = known_parameters(value)
    if names is None:
        return None
    hints = {} if inspect.isclass(value) else typing.get_type_hints(value)
    return {name: Param(_types_of(hints.get(name)), has_default=False) for name in names}


def _types_of(hint: Any) -> Any:
    plain = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    known = all(kind in (int, float, bool, str, type(None)) for kind in plain)
    return (*plain, type(None)) if known else object  # None: not given


def _of_param(param: Param) -> Schema:
    """Returns the schema of a parameter's value."""
    unit = f" Unit: {param.unit}." if param.unit else ""
    schema: Schema = {"description": param.doc + unit} if param.doc + unit else {}
    if param.has_default and param.default is not None:
        schema |= _default(param.default)
    return schema | _of_value(param)


def _default(value: Any) -> Schema:
    plain = to_plain(value)
    try:
        json.dumps(plain, allow_nan=False)
    except ValueError:  # infinity
        return {}
    return {"default": plain}


def _of_value(param: Param) -> Schema:
    accepted = param.type if isinstance(param.type, tuple) else (param.type,)
    nothing = [None, "None"] if type(None) in accepted or (param.has_default and param.default is None) else []
    if isinstance(param.type, list):
        return {"enum": list(dict.fromkeys([*param.type, *nothing, DROP]))}
    if object in accepted:
        return {}
    allowed = list(dict.fromkeys([*(_TYPES.get(kind, "string") for kind in accepted), *(["null"] if nothing else [])]))
    bounds = {key: bound for attribute, key in _BOUNDS.items()
              if (bound := getattr(param, attribute)) is not None and math.isfinite(bound)}
    items = {"items": _names(param.names) if param.names else bounds} if "array" in allowed and (
        param.names or bounds) else {}
    if param.names and "string" in allowed:
        return _names(param.names, nothing)
    words = [f"^{word}$" for word in (DROP, *nothing[1:])]
    if "string" not in allowed:
        numbers = [f"^{_NUMBER}$"] if {"integer", "number"} & {*allowed} else []
        return {"type": [*allowed, "string"], **bounds, **items, "pattern": "|".join(words + numbers)}
    return {"type": allowed, **bounds, **items}


def _names(kind: str, others: list[Any] | None = None) -> Schema:
    """Returns the schema of a string that names something, or of a value of ``others``."""
    return {"anyOf": [_reference(f"names.{kind}"), {"enum": [DROP, *(others or [])]}]}
