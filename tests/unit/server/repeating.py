"""A model that only repeats what it reads, in the place of a trained one."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any


class Repeating:
    """Stands for a ``TrainedModel`` with a function from an input to its result.

    Args:
      verb: what the model does.
      function: the function; of a language model also from the number of tokens to generate.
      reads_lines: whether inputs are texts.
      more: further attributes of the data layer.

    Attributes:
      variants: values with which the model was asked for.
    """

    def __init__(self, verb: str, function: Callable[..., Any], reads_lines: bool = True, **more: Any) -> None:
        layer = types.SimpleNamespace(counts_examples=True, batch_budget=8, reads_lines=reads_lines,
                                      settings=types.SimpleNamespace(sample_freq=8000), class_names=["cat", "dog"],
                                      ids_to_text=lambda ids: " ".join(f"w{one}" for one in ids), **more)
        self.model = types.SimpleNamespace(verb=verb, data_layer=layer, decoder=types.SimpleNamespace(
            params={"beam_size": 2}, at_speed=None))
        self.variants: list[Any] = []
        self._function = function

    def infer(self, inputs: list[Any], first: int = 0, generation: Mapping[str, Any] | None = None) -> list[Any]:
        more = () if generation is None else (generation["num_tokens_gen"],)
        return [self._function(one, *more) for one in inputs]

    def variant(self, values: Any) -> Repeating:
        if values not in self.variants:
            self.variants.append(values)
        return self
