"""What a model declares of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from open_seq2seq.config.names import kind_of
from open_seq2seq.config.params import Param

MODES = ("train", "eval", "infer", "interactive_infer")


@dataclass(frozen=True)
class Part:
    """Declaration of one part of a model; ``Model.get_parts`` returns them by name.

    The part called ``speaker_encoder`` is named in configs by ``speaker_encoder``, has its parameters in
    ``speaker_encoder_params``, and becomes the model's attribute ``speaker_encoder``, which is where the names of its
    variables begin.

    Attributes:
      base: class that the part's class has to be a subclass of.
      doc: one sentence for the parameter reference.
      optional: whether configs may leave it out; the attribute is not there then.
      follows_dtype: whether its parameter ``dtype`` is by default the arithmetic type of the model; if not, it is what
        the part itself declares.
      inherits: whether it uses the model's initialiser and regulariser where it is given none.
      modes: the modes in which it is built.
    """

    base: type
    doc: str = ""
    optional: bool = False
    follows_dtype: bool = True
    inherits: bool = True
    modes: tuple[str, ...] = MODES

    @property
    def kind(self) -> str:
        """The kind of its name: ``encoder`` if ``base`` is ``Encoder`` or a subclass; "" for a new kind of part."""
        return kind_of(self.base)

    def required_params(self, name: str) -> dict[str, Any]:
        """Returns the keys that a model with this part requires in configs."""
        # None is for modes in which it is not built.
        return {} if self.optional else {name: Param((type, str, type(None)), doc=self._text(name), names=self.kind)}

    def optional_params(self, name: str) -> dict[str, Any]:
        """Returns the optional keys of a model with this part."""
        own = {name: Param((type, str, type(None)), None, self._text(name), names=self.kind)} if self.optional else {}
        return {**own, f"{name}_params": Param(dict, {}, f"Parameters of the {name.replace('_', ' ')}.")}

    def _text(self, name: str) -> str:
        return self.doc or f"{name[:1].upper()}{name[1:].replace('_', ' ')} class."
