"""Declarations of a model's parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from open_seq2seq.config.names import in_package, kind_of
from open_seq2seq.config.params import Param

MODES = ("train", "eval", "infer", "interactive_infer")


@dataclass(frozen=True)
class Part:
    """Declaration of one part of a model; ``Model.get_parts`` returns the declarations by name.

    For example, configs give the class of the part ``speaker_encoder`` under the key ``speaker_encoder`` and its
    parameters under ``speaker_encoder_params``. The part becomes the model's attribute ``speaker_encoder``, and the
    names of its variables begin with ``speaker_encoder``.

    Attributes:
      base: required base class of the part's class.
      doc: one sentence for the parameter reference.
      optional: whether configs may omit the part; without the part, the model does not have the attribute.
      follows_dtype: whether the part's parameter ``dtype`` is by default the model's compute dtype; if not, the part's
        own default is used.
      inherits: whether the part uses the model's initialiser and regulariser if its own parameters set none.
      modes: the modes in which the part is built.
    """

    base: type
    doc: str = ""
    optional: bool = False
    follows_dtype: bool = True
    inherits: bool = True
    modes: tuple[str, ...] = MODES

    @property
    def kind(self) -> str:
        """The registered kind of ``base``: ``encoder`` for ``Encoder`` and its subclasses; "" if there is none."""
        return kind_of(self.base)

    def required_params(self, name: str) -> dict[str, Any]:
        """Returns the keys that a model with this part requires in configs."""
        # None is allowed for modes in which the part is not built.
        return {} if self.optional else {name: Param((type, str, type(None)), doc=self._text(name), names=self.kind)}

    def optional_params(self, name: str) -> dict[str, Any]:
        """Returns the optional keys of a model with this part."""
        class_params = {name: Param((type, str, type(None)), None, self._text(name), names=self.kind)} \
            if self.optional else {}
        return {**class_params, f"{name}_params": Param(dict, {}, f"Parameters of the {name.replace('_', ' ')}.")}

    def _text(self, name: str) -> str:
        return self.doc or f"{name[:1].upper()}{name[1:].replace('_', ' ')} class."


def unfit_class(name: str, cls: Any, fitting: type, task: str) -> list[str]:
    """Returns a sentence if the class of a part is one of this package that does not suit a task, otherwise nothing.

    Classes of users are not judged, because they may do what the task needs in their own way.

    Args:
      name: name of the part, such as ``loss``.
      cls: the class; None if there is none.
      fitting: the class that suits the task, as its subclasses do.
      task: what needs it, such as ``a language model``.
    """
    if cls is None or not in_package(cls) or issubclass(cls, fitting):
        return []
    return [f"'{name}' is {cls.__name__}, but {task} needs {fitting.__name__} or a subclass of it: set '{name}' to "
            f"{fitting.__name__}."]
