"""Reads and writes the toolkit's YAML: PyYAML's safe subset, but ``1e-3`` is a number and ``None`` is None."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

# Numbers with an exponent. PyYAML follows YAML 1.1, where such a number needs a dot, so that 1e-3 would be a string.
_FLOAT = re.compile(r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)[eE][-+]?\d+$")
_NONE = re.compile(r"None$")
# Limit far above what a real config needs. A few lines with anchors can expand to more values than fit in memory.
_MOST_VALUES = 100_000


class Loader(yaml.SafeLoader):
    """Safe loader that also reads ``1e-3`` and ``None`` as Python does; rejects duplicate keys and too many values."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._composed = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Composes a node; raises an error as soon as the limit is exceeded, before the rest of the text is read."""
        self._composed += 1
        if self._composed > _MOST_VALUES:
            raise yaml.composer.ComposerError(None, None, f"it has more than {_MOST_VALUES:,} values",
                                              self.peek_event().start_mark)
        return super().compose_node(parent, index)

    def get_single_node(self) -> yaml.Node | None:
        """Reads the document; raises an error if its anchors expand to too many values."""
        root = super().get_single_node()
        if root is not None:
            _count_values(root, {})
        return root

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Constructs a value; an invalid number or date, for example, raises an error that gives its position."""
        try:
            return super().construct_object(node, deep=deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # PyYAML does not catch them
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"{repr(node.value)[:60]} cannot be read as {kind}", node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Constructs a dict; a duplicate key is an error."""
        seen: set[Any] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key != "<<" and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' occurs twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


class Dumper(yaml.SafeDumper):
    """Safe dumper that also quotes strings that ``Loader`` would otherwise read as numbers, None or other text."""

    def ignore_aliases(self, data: Any) -> bool:
        """Returns True, so that repeated values are written in full instead of as anchors."""
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Represents a string; outside of double quotes, the line break U+0085 would be read as a space."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, '"' if "\x85" in data else None)


Dumper.add_representer(str, Dumper.represent_str)
for _class in (Loader, Dumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
    _class.add_implicit_resolver("tag:yaml.org,2002:null", _NONE, ["N"])


def _count_values(node: yaml.Node, counts: dict[int, int]) -> int:
    """Returns the number of values that a node has when its anchors are expanded.

    Args:
      node: a node of the document.
      counts: the results for the nodes visited so far, by ``id(node)``; 0 for the nodes that contain this one.

    Raises:
      yaml.YAMLError: an anchor contains itself, or the limit is exceeded.
    """
    count = counts.get(id(node))
    if count == 0:
        raise yaml.composer.ComposerError(None, None, "an anchor contains itself", node.start_mark)
    if count is not None:
        return count
    counts[id(node)] = 0
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        children = [child for pair in node.value for child in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    counts[id(node)] = 1 + sum(_count_values(child, counts) for child in children)
    if counts[id(node)] > _MOST_VALUES:
        raise yaml.composer.ComposerError(
            None, None, f"its anchors expand to more than {_MOST_VALUES:,} values", node.start_mark)
    return counts[id(node)]


def load_yaml(text: str) -> Any:
    """Reads a YAML document.

    Raises:
      yaml.YAMLError: the text is not valid YAML, names Python objects, repeats a key, is nested too deeply, or has too
        many values.
    """
    loader = None
    try:
        loader = Loader(text)
        return loader.get_single_data()
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except ValueError as error:  # an escape sequence beyond the Unicode range
        raise yaml.scanner.ScannerError(None, None, str(error), loader.get_mark() if loader else None) from error


def load_yaml_value(text: str, default: Any) -> Any:
    """Parses one value, or returns ``default`` if the text is not valid YAML."""
    try:
        return load_yaml(text)
    except yaml.YAMLError:
        return default


def dump_yaml(value: Any) -> str:
    """Returns plain Python values as YAML text, with dict keys in their order."""
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)


def describe_yaml_error(error: yaml.YAMLError) -> tuple[int | None, str]:
    """Returns the line number of an error, counted from 1 (None if unknown), and a description of the error."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(error).split("\n")[0]
    return (mark.line + 1 if mark else None), problem
