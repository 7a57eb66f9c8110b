"""The command line: parses flags and config values, starts the run, and reports each error in one sentence."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from open_seq2seq import __version__
from open_seq2seq.config.data_note import names_missing_path, remedy
from open_seq2seq.config.loader import ConfigFile, check_exists, possible_keys
from open_seq2seq.config.options import RunOptions
from open_seq2seq.config.overrides import Override, parse_overrides
from open_seq2seq.config.resolve import MODES, Benchmark, ResolvedConfig, check_mode, resolve
from open_seq2seq.config.short_forms import EXAMPLES, written_out
from open_seq2seq.utils.console import deco_print, enduring_output, need_output, print_to_stderr
from open_seq2seq.utils.data_files import is_count
from open_seq2seq.utils.environment import (
    accept_missing_temporary_folder,
    failing_line,
    problem_in,
    problem_of,
    with_home,
)
from open_seq2seq.utils.errors import ConfigError, DataError, UserError
from open_seq2seq.utils.launcher import announce, end_all, is_alone, launched_as, let_others_speak, who
from open_seq2seq.utils.output_file import STANDARD_OUTPUT, check_output_file, is_standard_output
from open_seq2seq.utils.tensorflow_import import import_tensorflow
from open_seq2seq.utils.trail import TRAIL

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
REPORT_MODE = "report"
_ALL_MODES = (*MODES, REPORT_MODE)

_LONGEST_WORD = 1000  # characters; longer words of a message are shortened

_VALUE_FLAGS = ("--config_file", "--mode", "--infer_output_file", "--bench_steps", "--bench_start",
                "--infer_files")
_SWITCHES = {
    "--continue_learning": "resume training from the newest checkpoint in logdir",
    "--no_dir_check": "only warn about problems of the logdir and about a config that does not fit its checkpoint",
    "--enable_logs": "save output, config, command line and git state in logdir, and checkpoints in logdir/logs",
    "--use_xla_jit": "compile the training step with XLA",
    "--elastic": "continue when processes are lost or join, under horovodrun's elastic mode (docs/distributed.md)",
    "--check": "check config, data and model, estimate the time of a training, and stop",
    "--trust_code": "let a config in a logdir import and run code from outside the package",
    "--verbose": "print the config and all variables, which training writes to the logdir in any case",
    "--benchmark": "measure training speed without saving anything",
}

_USAGE = "run.py --config_file=FILE [--mode=MODE] [flags] [--key/subkey=value ...]"
_EXAMPLES = """\
config values:
  Any value of the config can be overridden after the flags:
    --max_steps=1000                         in all sections
    --lr_policy_params/learning_rate=1e-3    inside a dict
    --eval_params/batch_size_per_gpu=8       in one section only

examples:
  python run.py --config_file=config.py --mode=train_eval
  python run.py --config_file=config.py --mode=train_eval --continue_learning
  python run.py --config_file=config.py --mode=infer --infer_output_file=out.txt
  python run.py --config_file=config.py --benchmark --bench_steps=50 --dtype=mixed
  python run.py --config_file=config.py --mode=train --check
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (--\w+): must", r"\1 must", message)
        raise UserError(message[:1].upper() + message[1:] + ". See --help.")


def _plain_switches(arguments: Sequence[str]) -> list[str]:
    """Replaces ``--check=True`` by ``--check`` and drops ``--check=False``."""
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    plain = []
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if name not in _SWITCHES or not equals:
            plain.append(argument)
        elif text.lower() not in words:
            raise UserError(f"{name} must be either True or False, got {text!r}.")
        elif words[text.lower()]:
            plain.append(name)
    return plain


def _positive(text: str) -> int:
    if not is_count(text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)


def _from_zero(text: str) -> int:
    if not is_count(text):
        raise argparse.ArgumentTypeError(f"must be an integer of at least 0, got {text!r}")
    return int(text)


def make_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command's own flags; it leaves config values unparsed."""
    parser = _Parser(prog="run.py", usage=_USAGE, allow_abbrev=False, epilog=f"{_EXAMPLES}\n{EXAMPLES}",
                     description="Train, evaluate or run the model that a config file describes.",
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config_file", "--config", metavar="FILE",
                        help="the config: a .py or .yaml file; without it, evaluation, inference and "
                        "--continue_learning use the config saved in a checkpoint in --logdir")
    parser.add_argument("--mode", default="train", help="one of " + ", ".join(_ALL_MODES)
                        + f" (default: train); {REPORT_MODE} writes a page about the run in --logdir")
    parser.add_argument("--infer_output_file", metavar="FILE", default="infer-out.txt",
                        help="output file of infer mode (default: infer-out.txt); - for stdout, and messages then go "
                        "to stderr")
    parser.add_argument("--infer_files", metavar="FILE", nargs="+",
                        help="infer mode only: files or folders to read instead of the config's data, or - for stdin")
    for name, text in _SWITCHES.items():
        parser.add_argument(name, action="store_true", help=text)
    parser.add_argument("--bench_steps", metavar="N", type=_positive, default=20,
                        help="number of steps of the benchmark (default: 20)")
    parser.add_argument("--bench_start", metavar="N", type=_from_zero,
                        help="number of steps before timing begins (default: the config's bench_start, or 10)")
    parser.add_argument("--version", action="version", version=f"open-seq2seq {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
      argv: arguments without the program's name; ``sys.argv[1:]`` by default.

    Returns:
      The exit code: 0 on success, 2 after a user error, 130 after an interrupt. Any other error is a bug and is raised.
      In a run of several processes, an error ends this process at once, so that the launcher ends the others.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    accept_missing_temporary_folder()
    with enduring_output(needed=True):
        if is_alone():
            return _exit_code(arguments)
        try:
            code = _exit_code(arguments)
        except Exception as error:
            # A collective operation fails on all ranks when one rank has died. The watchdog (``runners.watchdog``) then
            # reports the actual cause and may end this process while it waits.
            let_others_speak(after_collective=_is_from_tensorflow(error))
            sys.stderr.write(f"{traceback.format_exc()}Error{who()}: see the lines above.{_place()}\n")
            announce(f"{type(error).__name__}: {_first_line(error)}", 1)
            code = 1
        return end_all(code) if code in (1, EXIT_USER_ERROR, EXIT_INTERRUPTED) else code


def _exit_code(arguments: list[str]) -> int:
    try:
        return _run(arguments)
    except SystemExit as end:  # raised by --help, by --version, or by the user's code
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if code and launched_as()[1] > 1:  # a hook called sys.exit; the other processes must not wait for this one
            announce(f"it called sys.exit({end.code!r})", code)
            end_all(code)
        return code
    except ConfigError as error:
        _report([*error.problems[:-1], _with_notes(error.problems[-1], error)])
    except UserError as error:
        _report([_with_notes(str(error), error)])
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        announce("it was interrupted", EXIT_INTERRUPTED)
        return EXIT_INTERRUPTED
    except Exception as error:
        problem = _explained(error)
        if problem is None:
            raise
        _report([_with_notes(problem, error)])
    return EXIT_USER_ERROR


def _explained(error: Exception) -> str | None:
    """Returns a message for an error that the user may be able to fix; None for other errors, such as bugs."""
    # TensorFlow reports a full disk as exhausted resources, as it does a full memory.
    if _is_from_tensorflow(error) and (problem := problem_in(_first_line(error))):
        return problem
    if _is_out_of_memory(error):
        return (f"The {'process' if isinstance(error, MemoryError) else 'device'} ran out of memory "
                f"({_first_line(error)[:200]}): use a smaller batch_size_per_gpu (with a larger iter_size to keep the "
                "batch of each update the same), a smaller max_length, or dtype=mixed.")
    if problem := problem_of(error):
        return problem
    # Training adds a note to errors raised between two updates, where the user's code, such as hooks, runs.
    if hasattr(error, "__notes__") and (is_alone() or not _is_from_tensorflow(error)) and (line := failing_line(error)):
        return f"{line}{type(error).__name__}: {_first_line(error)}"
    return None


def _with_notes(text: str, error: BaseException) -> str:
    notes = getattr(error, "__notes__", ())
    return " ".join([text if not notes or text.endswith((".", "?", "!")) else f"{text}.", *notes])


def _report(problems: Sequence[str]) -> None:
    need_output(False)
    sys.stdout.flush()
    let_others_speak()
    for problem in problems:
        sys.stderr.write(f"Error{who()}: {_one_line(problem)}{_place()}\n")
    sys.stderr.flush()
    announce(_one_line(problems[0]), EXIT_USER_ERROR)


def _one_line(text: str) -> str:
    # Names may come from untrusted files; the terminal must not interpret control characters in them.
    text = "".join(char if char.isprintable() or char.isspace() else repr(char)[1:-1] for char in text)
    words = " ".join(line.strip() for line in text.splitlines()).split(" ")
    return " ".join(word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…" for word in words)


def _place() -> str:
    """Returns a sentence that says which batch this rank was processing; "" if unknown, or without other ranks."""
    return f" This rank was at {TRAIL.last}." if TRAIL.last and launched_as()[1] > 1 else ""


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _is_out_of_memory(error: Exception) -> bool:
    tf = sys.modules.get("tensorflow")
    return isinstance(error, MemoryError) or (tf is not None and isinstance(error, tf.errors.ResourceExhaustedError))


def _is_from_tensorflow(error: Exception) -> bool:
    tf = sys.modules.get("tensorflow")
    return tf is not None and isinstance(error, tf.errors.OpError)


def _run(arguments: list[str]) -> int:
    if (folder := _folder_of_report(arguments)) is not None:
        from open_seq2seq.report.page import write_report

        deco_print(f"Report: {write_report(folder)}")
        return 0
    options = parse_options(arguments)
    from open_seq2seq.run import session

    try:
        return session.run(options)
    except DataError as error:
        config = options.config
        if "does not exist" in str(error) or any(
                names_missing_path(config.params(section).get("data_layer_params")) for section in config.sections):
            error.add_note(remedy(config.config_file.data_note))
        raise


def _folder_of_report(arguments: list[str]) -> Path | None:
    """Returns the logdir of ``--mode=report``, which needs no config, or None in another mode.

    Raises:
      UserError: the logdir is missing, or another config value is given.
    """
    flags, leftover = make_parser().parse_known_args(_plain_switches(
        [with_home(argument) for argument in written_out(arguments)]))
    if flags.mode != REPORT_MODE:
        return None
    overrides = parse_overrides(leftover, [*_SWITCHES, *_VALUE_FLAGS])
    if [one.keys for one in overrides] != [("logdir",)] or not overrides[0].text:
        raise UserError("--mode=report needs --logdir and no other config value: "
                        "run.py --mode=report --logdir=my_run.")
    return Path(overrides[0].text)


def parse_options(arguments: Sequence[str]) -> RunOptions:
    """Parses and checks the command line and the config; imports TensorFlow but builds no model.

    If results go to stdout, everything that is printed from now on goes to stderr.

    Raises:
      UserError: the command line or the config has a mistake; a ``ConfigError`` lists all mistakes of the config.
    """
    parser = make_parser()
    given = [with_home(argument) for argument in written_out(arguments)]
    flags, leftover = parser.parse_known_args(_plain_switches(given))
    check_mode(flags.mode, _ALL_MODES)
    if flags.infer_output_file == "-":
        flags.infer_output_file = STANDARD_OUTPUT
        if flags.mode == "infer":
            print_to_stderr()
    need_output(flags.check or flags.benchmark or flags.mode in ("eval", "interactive_infer")
                or (flags.mode == "infer" and is_standard_output(flags.infer_output_file)))
    if flags.mode == "infer":
        check_output_file(flags.infer_output_file)
    overrides = parse_overrides(leftover, [*_SWITCHES, *_VALUE_FLAGS])
    if flags.infer_files is not None and flags.mode != "infer":
        raise UserError(f"--infer_files is for --mode=infer, but the mode is {flags.mode}.")
    if flags.config_file is not None:
        check_exists(flags.config_file)
        if (known := possible_keys(flags.config_file)) is not None:
            _misspelt_flags(overrides, known)
    import_tensorflow()
    from open_seq2seq.run.config_source import config_of_run

    mode = "train" if flags.benchmark else flags.mode
    source = config_of_run(flags.config_file, mode, overrides, flags.infer_files or (), flags.trust_code,
                           flags.continue_learning and not flags.benchmark)
    flags.mode = source.mode
    options = _options(flags, _resolve(flags, source.file, source.overrides), list(arguments))
    return dataclasses.replace(options, moved_files=source.moved_files)


def _resolve(flags: argparse.Namespace, file: ConfigFile, overrides: list[Override]) -> ResolvedConfig:
    if flags.bench_start is not None:
        overrides = [*overrides, Override(None, ("bench_start",), str(flags.bench_start))]
    if flags.use_xla_jit:
        overrides = [*overrides, Override(None, ("use_xla_jit",), "True")]
    _misspelt_flags(overrides, {key for section in file.sections.values() for key in section})
    import open_seq2seq.models.builder  # noqa: F401  # registers the names of the package's classes
    from open_seq2seq.models.missing_files import half_replaced, missing_files

    benchmark = Benchmark(flags.bench_steps, flags.bench_start) if flags.benchmark else None

    missing: list[str] = []

    def problems(base_model: Any, params: dict[str, Any], section: str, given: dict[str, Any]) -> list[str]:
        found = missing_files(base_model, params, section, flags.continue_learning)
        missing.extend(found)
        own = ResolvedConfig(file, flags.mode).merge(section)[0]
        halves = half_replaced(base_model, params, own, section, overrides)
        return [*_model_problems(base_model, params, section, given), *halves, *found]

    try:
        return resolve(file, flags.mode, overrides, benchmark, problems)
    except ConfigError as error:
        if missing:
            error.add_note(remedy(file.data_note))
        raise


def _misspelt_flags(overrides: list[Override], known: set[str]) -> None:
    """Raises ConfigError if an override such as ``--output_file=x`` is not a key of the config and resembles a flag."""
    flags = [*_SWITCHES, *_VALUE_FLAGS]
    problems = []
    for override in overrides:
        if override.name not in flags and override.keys[0] not in known and len(override.keys) == 1:
            # With this cutoff, no name of a parameter of the package's models resembles a flag.
            near = difflib.get_close_matches(override.name, flags, n=1, cutoff=0.75)
            problems += [f"'{override.name}' is neither a flag nor a key of the config. Did you mean '{flag}'?"
                         for flag in near]
    if problems:
        raise ConfigError(problems)


def _model_problems(base_model: Any, params: dict[str, Any], section: str, given: dict[str, Any]) -> list[str]:
    from open_seq2seq.models.builder import description_problems

    return description_problems(base_model, params, section, given)


def _options(flags: argparse.Namespace, config: ResolvedConfig, arguments: list[str]) -> RunOptions:
    return RunOptions(
        mode=config.mode, config=config, infer_output_file=flags.infer_output_file,
        infer_files=flags.infer_files or (),
        continue_learning=flags.continue_learning, no_dir_check=flags.no_dir_check or flags.benchmark,
        benchmark=flags.benchmark, enable_logs=flags.enable_logs, elastic=flags.elastic,
        check=flags.check, verbose=flags.verbose, argv=arguments)


def load_interactive(arguments: Sequence[str]) -> Any:
    """Loads a trained model for use from Python, for instance in a notebook.

    Args:
      arguments: arguments as on the command line, without the mode:
        ``["--config_file=…", "--logdir=…", "--decoder_params/beam_size=1"]``.

    Returns:
      A ``inference.interactive.InteractiveModel``, whose ``infer(inputs)`` returns the model's result for
      each input.

    Raises:
      UserError: the arguments, the config or the checkpoint cannot be used; the command would report the same error.
    """
    options = parse_options([*arguments, "--mode=interactive_infer"])
    import_tensorflow()
    from open_seq2seq.inference.interactive import InteractiveModel
    from open_seq2seq.run import session

    return InteractiveModel(session.load_model(options))
