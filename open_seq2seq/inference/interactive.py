"""Interactive use of a trained model: at a prompt, or line by line on standard input."""

from __future__ import annotations

import sys

from open_seq2seq.inference.trained_model import TrainedModel
from open_seq2seq.models.results import open_results
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.given_files import arriving_lines

_MOST_LINES = 4096  # maximum number of lines processed together; sorting so many by length avoids nearly all padding


def prompt(model: TrainedModel) -> None:
    """Reads lines from standard input until it ends, and prints the model's answer to each.

    On a terminal, the answer to a line that cannot be used is a message, and the next line can be typed.

    Raises:
      UserError: standard input is not a terminal, and a line cannot be used.
    """
    on_terminal = sys.stdin.isatty()
    if on_terminal:
        deco_print(f"{model.model.interactive_hint}; end with Ctrl-D.")
    while True:
        try:
            line = input("> " if on_terminal else "")
        except EOFError:
            return
        if line.strip():
            try:
                print(model.model.prompt_answer(model.infer([line])[0]), flush=True)
            except UserError as error:
                if not on_terminal:
                    raise
                print(f"Error: {error}", file=sys.stderr, flush=True)
        elif not on_terminal:
            print(flush=True)  # an empty answer, so that answers and lines correspond


def answer_lines(model: TrainedModel, output_file: str) -> int:
    """Writes the result of each line of standard input as soon as it is known; returns the number of lines.

    Lines that arrive while others are processed are processed together afterwards.

    Args:
      model: the model.
      output_file: path of the file for the results.

    Raises:
      UserError: standard input is empty, or the results cannot be written.
      DataError: a line cannot be used.
    """
    count = 0
    with open_results(model.model, output_file) as writer:
        for lines in arriving_lines(_MOST_LINES):
            writer.write_batches([list(enumerate(model.infer(lines, count), count))])
            count += len(lines)
        if not count:
            raise UserError("--infer_files - reads from standard input, but standard input is empty: "
                            "give at least one line.")
    return count
