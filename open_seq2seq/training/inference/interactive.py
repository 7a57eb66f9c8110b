"""Interactive use of a trained model, at a prompt in the terminal or as a Python object."""

from __future__ import annotations

import sys
from typing import Any

from open_seq2seq.models.model import Model
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.passes import InferencePass
from open_seq2seq.utils.console import deco_print


class InteractiveModel:
    """A restored model that answers one list of inputs at a time.

    Args:
      model: a model that was built for ``interactive_infer`` and whose weights have been restored.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._pass = InferencePass(model, Runner())

    def infer(self, inputs: list[Any]) -> list[Any]:
        """Returns the model's result for each input, in order.

        Args:
          inputs: inputs for the data layer's ``make_interactive_batch``.
        """
        if not inputs:
            return []
        batch = self.model.data_layer.make_interactive_batch(inputs)
        return [result for _, result in sorted(self._pass.predict([batch])[0], key=lambda row: row[0])]


def prompt(interactive: InteractiveModel) -> None:
    """Reads lines until end of file, and prints the best result for each."""
    on_terminal = sys.stdin.isatty()
    if on_terminal:
        deco_print(f"{interactive.model.interactive_hint}; end with Ctrl-D.")
    while True:
        try:
            line = input("> " if on_terminal else "")
        except EOFError:
            return
        if line.strip():
            print(interactive.model.answer(interactive.infer([line])[0]), flush=True)
