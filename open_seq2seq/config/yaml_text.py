"""The toolkit's YAML: PyYAML's safe subset with numbers and None as people write them."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

# PyYAML follows YAML 1.1, where 1e-3 is a string for want of a dot.
_FLOAT = re.compile(r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)[eE][-+]?\d+$")
_NONE = re.compile(r"None$")


class Loader(yaml.SafeLoader):
    """Safe loader that also reads ``1e-3`` and ``None``, and refuses repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Makes a dict; a key that comes twice is an error, not a silent replacement."""
        seen: set[Any] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key != "<<" and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key '{key}' comes twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


class Dumper(yaml.SafeDumper):
    """Safe dumper that quotes exactly what ``Loader`` would read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        """Writes every value out in full: anchors help no reader of a config."""
        return True


for _class in (Loader, Dumper):
    _class.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
    _class.add_implicit_resolver("tag:yaml.org,2002:null", _NONE, ["N"])


def load_yaml(text: str) -> Any:
    """Reads a YAML document.

    Raises:
      yaml.YAMLError: it is not YAML, names Python objects, or repeats a key.
    """
    return yaml.load(text, Loader=Loader)  # noqa: S506 (Loader is a SafeLoader)


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
