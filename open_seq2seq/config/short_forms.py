"""Short forms of the command for inference with a trained model: ``translate LOGDIR < in > out``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from open_seq2seq.utils.errors import UserError, did_you_mean

SHORT_FORMS = ("translate", "transcribe", "classify")

EXAMPLES = """\
with a trained model, wherever its logdir is:
  python run.py --mode=infer --logdir=LOGDIR --infer_files my.txt --infer_output_file=out.txt
  python run.py translate LOGDIR < my.txt > out.txt
  python run.py transcribe LOGDIR recordings/ > out.csv
  python run.py classify LOGDIR pictures/ > out.csv
"""


def written_out(arguments: Sequence[str]) -> list[str]:
    """Returns the arguments of the command in full if they are a short form, otherwise unchanged.

    ``translate LOGDIR [FILE ...]``, ``transcribe …`` and ``classify …`` read the files, or stdin without files, and
    write to stdout. They mean the same; the trained model determines the task. Other arguments may follow.

    >>> written_out(["translate", "run", "--decoder_params/beam_size=1"])
    ['--mode=infer', '--logdir=run', '--infer_output_file=-', '--infer_files', '-', '--decoder_params/beam_size=1']

    Raises:
      UserError: the log directory is missing, or the first argument is a misspelt short form.
    """
    if not arguments or arguments[0].startswith("-"):
        return list(arguments)
    if arguments[0] not in SHORT_FORMS:
        if hint := did_you_mean(arguments[0], SHORT_FORMS):
            raise UserError(f"The argument '{arguments[0]}' is not understood.{hint}")
        return list(arguments)
    rest = arguments[1:]
    names = list(itertools.takewhile(lambda argument: argument == "-" or not argument.startswith("-"), rest))
    if not names:
        raise UserError(f"The logdir of a trained model is missing: {arguments[0]} LOGDIR [FILE ...].")
    return ["--mode=infer", f"--logdir={names[0]}", "--infer_output_file=-", "--infer_files", *(names[1:] or ["-"]),
            *rest[len(names):]]
