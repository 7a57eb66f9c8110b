"""The toolkit's YAML: PyYAML's safe subset with numbers and None as people write them."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

# PyYAML follows YAML 1.1, in which 1e-3 is a string because it has no dot.
_FLOAT = re.compile(r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)[eE][-+]?\d+$")
_NONE = re.compile(r"None$")
# Far more than any config has. A few lines of anchors can stand for more values than fit into memory.
_MOST_VALUES = 100_000


class Loader(yaml.SafeLoader):
    """Safe loader that also reads ``1e-3`` and ``None``, and refuses repeated keys and too many values."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._composed = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Reads a value; checks the limit before the rest of a long text is read."""
        self._composed += 1
        if self._composed > _MOST_VALUES:
            raise yaml.composer.ComposerError(None, None, f"it has more than {_MOST_VALUES:,} values",
                                              self.peek_event().start_mark)
        return super().compose_node(parent, index)

    def get_single_node(self) -> yaml.Node | None:
        """Reads the document; refuses one whose anchors stand for too many values."""
        root = super().get_single_node()
        if root is not None:
            _count_values(root, {})
        return root

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Makes a value; an invalid number or date, for example, is an error with its place."""
        try:
            return super().construct_object(node, deep=deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # PyYAML does not catch them
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"{repr(node.value)[:60]} cannot be read as {kind}", node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Makes a dict; a repeated key is an error."""
        seen: set[Any] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key != "<<" and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key '{key}' comes twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


class Dumper(yaml.SafeDumper):
    """Safe dumper that quotes exactly the strings that ``Loader`` would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        """Returns True, so that every value is written in full, without anchors."""
        return True


for _class in (Loader, Dumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
    _class.add_implicit_resolver("tag:yaml.org,2002:null", _NONE, ["N"])


def _count_values(node: yaml.Node, counts: dict[int, int]) -> int:
    """Returns how many values a node stands for if anchors are expanded.

    Args:
      node: a part of a document.
      counts: of nodes counted before, by identity; 0 marks nodes that contain this one.

    Raises:
      yaml.YAMLError: an anchor within itself, or too many values.
    """
    known = counts.get(id(node))
    if known == 0:
        raise yaml.composer.ComposerError(None, None, "an anchor stands within itself", node.start_mark)
    if known is not None:
        return known
    counts[id(node)] = 0
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        children = [child for pair in node.value for child in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    counts[id(node)] = 1 + sum(_count_values(child, counts) for child in children)
    if counts[id(node)] > _MOST_VALUES:
        raise yaml.composer.ComposerError(
            None, None, f"its anchors stand for more than {_MOST_VALUES:,} values", node.start_mark)
    return counts[id(node)]


def load_yaml(text: str) -> Any:
    """Reads a YAML document.

    Raises:
      yaml.YAMLError: it is not YAML, names Python objects, repeats a key, is nested too deeply, or has too many
        values.
    """
    loader = None
    try:
        loader = Loader(text)
        return loader.get_single_data()
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except ValueError as error:  # of an escaped character beyond Unicode
        raise yaml.scanner.ScannerError(None, None, str(error), loader.get_mark() if loader else None) from error


def load_yaml_value(text: str, default: Any) -> Any:
    """Reads one value, or returns ``default`` when it is not YAML."""
    try:
        return load_yaml(text)
    except yaml.YAMLError:
        return default


def dump_yaml(value: Any) -> str:
    """Writes plain Python values as YAML, keys in their order."""
    return yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)


def describe_yaml_error(error: yaml.YAMLError) -> tuple[int | None, str]:
    """Returns (line, what is wrong) of an error."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(error).split("\n")[0]
    return (mark.line + 1 if mark else None), problem
