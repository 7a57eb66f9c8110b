"""Log probabilities of texts under a trained language model, for rescoring n-best lists."""

from __future__ import annotations

import os
from collections.abc import Iterable

from open_seq2seq.run.run import load
from open_seq2seq.utils.errors import UserError


def log_probs(logdir: str | os.PathLike[str], texts: Iterable[str], trust_code: bool = False) -> dict[str, float]:
    """Returns the natural logarithm of each text's probability, by text; the probability includes the end of the line.

    Each text is scored independently of the others, and a text that occurs several times is scored once.

    Args:
      logdir: folder that the training of a language model has written to, or one of its checkpoints.
      texts: lines of text.
      trust_code: whether the config in the log directory may import and run code from outside the package.

    Raises:
      UserError: the log directory has no usable checkpoint, or not one of a language model.
    """
    lines = sorted(set(texts))
    model = load(logdir, trust_code=trust_code)
    if model.model.verb != "generate":
        raise UserError(f"{os.fspath(logdir)} does not contain a language model, which rescoring needs: give the "
                        "folder of a language model's run.")
    return {line: log_prob for line, (log_prob, _) in zip(lines, model.score(lines), strict=True)}
