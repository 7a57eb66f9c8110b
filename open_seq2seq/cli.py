"""The command line: parses flags and config values, starts the run, and reports each error in one sentence."""

from __future__ import annotations

import argparse
import itertools
import os
import re
import sys
import traceback
import zipfile
from collections.abc import Sequence
from typing import Any, NoReturn

from open_seq2seq.config.old_names import port_of
from open_seq2seq.config.overrides import Override, parse_overrides
from open_seq2seq.config.resolve import MODES, Benchmark, RunOptions, check_mode
from open_seq2seq.export.formats import FORMATS, check_format
from open_seq2seq.run.run import Run
from open_seq2seq.run.tools import TOOLS
from open_seq2seq.utils.console import deco_print, enduring_output, need_output, print_to_stderr
from open_seq2seq.utils.data_files import is_count
from open_seq2seq.utils.environment import (
    accept_missing_temporary_folder,
    failing_line,
    problem_in,
    problem_of,
    with_home,
)
from open_seq2seq.utils.errors import ConfigError, UserError, did_you_mean
from open_seq2seq.utils.given_files import given_texts
from open_seq2seq.utils.launcher import announce, end_all, is_alone, launched_as, let_others_speak, who
from open_seq2seq.utils.output_file import STANDARD_OUTPUT, check_output_file, is_standard_output
from open_seq2seq.utils.shipped import TOY, as_usable
from open_seq2seq.utils.tensorflow_import import import_tensorflow, in_own_process
from open_seq2seq.utils.trail import TRAIL
from open_seq2seq.version import __version__

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
REPORT_MODE, EXPORT_MODE = "report", "export"
_CARD = ("license", "language", "dataset")  # what the user says about a model card
_ALL_MODES = (*MODES, REPORT_MODE, EXPORT_MODE)

_LONGEST_WORD = 1000  # characters; longer words of a message are shortened

_VALUE_FLAGS = ("--config_file", "--mode", "--infer_output_file", "--bench_steps", "--bench_start",
                "--infer_files", "--export_format", "--export_dir", "--sweep", "--sweep_processes")
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
_WITHOUT_XLA = "--no_xla_jit"

_WORDS = (*_SWITCHES, *_VALUE_FLAGS)

# Verb → (what it does, what it reads, what it writes).
VERBS = {
    "translate": ("Translate text.", "text files with one sentence per line", "one translation per line"),
    "transcribe": ("Transcribe recordings.", "recordings, folders of them, or lists",
                   "a CSV table of transcripts, or what --format says"),
    "classify": ("Classify texts or images.", "text files with one text per line; or images, folders of them, or lists",
                 "one class per line; or a CSV table of classes"),
    "generate": ("Continue texts.", "text files with one beginning of a text per line", "one text per line"),
    "speak": ("Speak texts.", "texts in quotation marks, or text files with one text per line",
              "a 16-bit WAV file or, unless the name ends with .wav, a folder with files for each text"),
}

TRANSCRIPT_FORMATS = ("csv", "srt", "vtt", "json")

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
  python run.py --config_file=config.py --mode=train_eval --logdir=my_sweep \
      --sweep lr_policy_params/learning_rate=1e-3,2e-3 --sweep random_seed=0,1,2

without a config of your own (run.py COMMAND --help):
  python run.py recipes                                          lists the recipes
  python run.py recipes copy own-text my.yaml                    writes one to a file
  python run.py script create_toy_data                           runs a program of scripts/
  python run.py schema > config.schema.json                      for editors of YAML configs
  python run.py doctor                                           versions, devices, speeds, optional parts
  python run.py --config_file=recipe:nmt-reversal-TT --mode=train_eval

with a trained model, wherever its logdir is (run.py VERB --help):
  python run.py translate LOGDIR < my.txt > out.txt
  python run.py translate LOGDIR1 LOGDIR2 < my.txt > out.txt     an ensemble
  python run.py transcribe LOGDIR recordings/ --output=out.csv
  python run.py classify LOGDIR pictures/ > out.csv
  python run.py generate LOGDIR < beginnings.txt
  python run.py speak LOGDIR "a text" > out.wav
  python run.py serve en-de=LOGDIR asr=LOGDIR                    pages and APIs on this machine
  python run.py export LOGDIR --export_format=savedmodel --export_dir=exported
  python run.py pack LOGDIR model.zip                            one file, which LOGDIR can also be
"""


class _Parser(argparse.ArgumentParser):
    def format_help(self) -> str:
        return as_usable(super().format_help())

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (--\w+): must", r"\1 must", message)
        raise UserError(message[:1].upper() + message[1:] + ". See --help.")


_NOT_OF_SWEEPS = ("check", "benchmark", "continue_learning", "elastic", "verbose")
_NOT_OF_EXPORTS = ("check", "benchmark", "continue_learning", "no_dir_check", "enable_logs")


def _plain_switches(arguments: Sequence[str]) -> list[str]:
    """Replaces ``--check=True`` by ``--check``, and drops ``--check=False``.

    ``--use_xla_jit=False``, which a config may contradict, becomes a switch of its own.
    """
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
        elif name == "--use_xla_jit":
            plain.append(_WITHOUT_XLA)
    return plain


def _with_logdirs(words: Sequence[str]) -> list[str]:
    """Joins several words after ``--logdir``, the models of an ensemble, to one word with a list."""
    words = list(words)
    place = words.index("--logdir") + 1 if "--logdir" in words else len(words)
    logdirs = [*itertools.takewhile(lambda word: not word.startswith("-"), words[place:])]
    return [*words[:place], repr(logdirs), *words[place + len(logdirs):]] if logdirs[1:] else words


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
    parser = _Parser(prog="run.py", usage=_USAGE, allow_abbrev=False, epilog=_EXAMPLES,
                     description="Train, evaluate or run the model that a config file describes.",
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config_file", "--config", metavar="FILE",
                        help="the config: a .py or .yaml file, or recipe:NAME; without it, evaluation, inference and "
                        "--continue_learning use the config saved in a checkpoint in --logdir")
    parser.add_argument("--mode", default="train", help="one of " + ", ".join(_ALL_MODES)
                        + f" (default: train); {REPORT_MODE} writes a page and a model card about the run in "
                        f"--logdir, or a page about several, and {EXPORT_MODE} its model for another program")
    parser.add_argument("--infer_output_file", metavar="FILE", default="infer-out.txt",
                        help="output file of infer mode (default: infer-out.txt); - for stdout, and messages then go "
                        "to stderr")
    parser.add_argument("--infer_files", metavar="FILE", nargs="+",
                        help="infer mode: files or folders to read instead of the config's data, or - for stdin; "
                        "export mode: the same, for the comparison with inference")
    parser.add_argument("--export_format", metavar="FORMAT",
                        help=f"export mode only: one of {', '.join(FORMATS)} (default: {FORMATS[0]})")
    parser.add_argument("--export_dir", metavar="FOLDER",
                        help="export mode only: folder to write; an earlier export is replaced")
    _add_sweep(parser)
    for name, text in _SWITCHES.items():
        parser.add_argument(name, action="store_true", help=text)
    parser.add_argument(_WITHOUT_XLA, dest="use_xla_jit", action="store_false", help=argparse.SUPPRESS)
    parser.set_defaults(use_xla_jit=None)  # the config decides
    parser.add_argument("--bench_steps", metavar="N", type=_positive, default=20,
                        help="number of steps of the benchmark (default: 20)")
    parser.add_argument("--bench_start", metavar="N", type=_from_zero,
                        help="number of steps before timing begins (default: the config's bench_start, or 10)")
    parser.add_argument("--version", action="version", version=f"open-seq2seq {__version__}")
    return parser


def _add_sweep(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sweep", metavar="KEY=VALUE,VALUE", action="append", default=[],
                        help="train with each value, and with each combination if given several times, in folders of "
                        "--logdir; random_seed is for repetitions, of which the table has mean and deviation. The "
                        "same command continues a sweep")
    parser.add_argument("--sweep_processes", metavar="N", type=_positive,
                        help="number of trainings of a sweep at the same time (default: 1)")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command.

    Args:
      argv: arguments without the program's name; ``sys.argv[1:]`` by default.

    Returns:
      The exit code: 0 on success, 2 after a user error, 130 after an interrupt. Any other error is a bug and is raised.
      In a run of several processes, an error ends this process at once, so that the launcher ends the others.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        in_own_process()
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
        if end.code is not None and not isinstance(end.code, int):
            sys.stderr.write(f"{_with_notes(str(end.code), end)}\n")
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
    if (port := port_of(error)) and (line := failing_line(error)):
        return f"{line}{_first_line(error)}. {port}"
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
    if arguments and arguments[0] == "serve":
        from open_seq2seq.server.command import serve_command

        return serve_command(arguments[1:])
    if arguments and arguments[0] in TOOLS:
        return TOOLS[arguments[0]](arguments[1:])
    if arguments and arguments[0] in VERBS:
        return _run_verb(arguments[0], arguments)
    if arguments and arguments[0] == EXPORT_MODE:
        arguments = _of_export(arguments)
    flags, overrides = parse_words(arguments)
    if flags.sweep:
        return _sweep(flags, arguments)
    if flags.sweep_processes:
        raise UserError("--sweep_processes is for sweeps: add --sweep key=value,value, or leave it out.")
    if flags.mode == REPORT_MODE:
        return _report_on(overrides)
    if flags.mode == EXPORT_MODE:
        _run_of(flags, overrides).export(flags.export_format, flags.export_dir, flags.infer_files or (),
                                         verbose=flags.verbose)
        return 0
    outcome = _run_of(flags, overrides).perform(flags.mode, **_options(flags, arguments))
    return 0 if outcome.signum is None else 128 + outcome.signum


def _run_verb(verb: str, arguments: list[str]) -> int:
    """Uses a trained model: ``translate LOGDIR [FILE ...] [--output=FILE] [--key=value ...]``."""
    does, reads, writes = VERBS[verb]
    parser = _Parser(prog=f"run.py {verb}", usage=f"run.py {verb} LOGDIR [FILE ...] [--output=FILE] [--key=value ...]",
                     description=does, allow_abbrev=False)
    several = "; several models translate as an ensemble" if verb == "translate" else ""
    parser.add_argument("logdir", metavar="LOGDIR",
                        help=f"folder that training has written to, a checkpoint in it, or a packed model{several}")
    parser.add_argument("files", metavar="FILE", nargs="*", help=f"{reads}; - for stdin, which is the default")
    parser.add_argument("--output", metavar="FILE", default="-",
                        help=f"{writes}; - for stdout, which is the default, and messages then go to stderr")
    for name in ("--trust_code", "--verbose"):
        parser.add_argument(name, action="store_true", help=_SWITCHES[name])
    if verb == "transcribe":
        parser.add_argument("--format", metavar="FORMAT", choices=TRANSCRIPT_FORMATS,
                            help="csv, the default; or srt, vtt or json with the times of words: in a file of this "
                            "ending for one recording, else in a folder")
    # Values of the config may be given as `--key value`, so files are only those before the first option.
    words = [with_home(word) for word in arguments[1:]]
    first = list(itertools.takewhile(lambda word: word == "-" or not word.startswith("-"), words))
    if not first and not {"-h", "--help"} & {*words}:
        raise UserError(f"The logdir of a trained model is missing: {verb} LOGDIR [FILE ...].")
    names, (flags, leftover) = first or ["-"], parser.parse_known_args(["-", *words[len(first):]])
    if flags.output == "-":
        flags.output = STANDARD_OUTPUT
        print_to_stderr()
    need_output(is_standard_output(flags.output))
    check_output_file(flags.output, "--output")
    # Folders and packed models contain no texts to translate.
    others = itertools.takewhile(_is_model, names[1:] if verb == "translate" else ())
    logdirs = [names[0], *others]
    overrides = [*parse_overrides(leftover, ("--output",)),
                 Override(None, ("logdir",), logdirs if logdirs[1:] else names[0], names[0])]
    if getattr(flags, "format", None):
        overrides.append(Override(None, ("transcript_format",), flags.format))
    run = Run.of_command(None, overrides, flags.trust_code, ("--output", "--trust_code", "--verbose"))
    files = given_texts(names[len(logdirs):]) if verb == "speak" else names[len(logdirs):]
    run.perform("infer", verb=verb, infer_files=files or ["-"], infer_output_file=flags.output,
                verbose=flags.verbose, argv=arguments)
    return 0


def _is_model(name: str) -> bool:
    if os.path.isfile(name):  # not a pipe, of which a look would take the beginning
        return zipfile.is_zipfile(name)
    return os.path.isdir(name) or name.startswith(TOY)


def _of_export(arguments: list[str]) -> list[str]:
    """Returns the words of the mode for ``export LOGDIR [FILE ...] --export_dir=FOLDER [flags] [--key=value ...]``."""
    names = [*itertools.takewhile(lambda word: not word.startswith("-"), arguments[1:])]
    others = arguments[1 + len(names):]
    if {"-h", "--help"} & {*others}:
        return others
    if not names:
        raise UserError("The logdir of a trained model is missing: export LOGDIR [FILE ...] --export_dir=FOLDER.")
    files = ["--infer_files", *names[1:]] if names[1:] else []
    return [f"--mode={EXPORT_MODE}", f"--logdir={names[0]}", *files, *others]


def _sweep(flags: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Trains with each combination of the values of ``--sweep``."""
    if not flags.mode.startswith("train"):
        raise UserError(f"--sweep is for the modes train and train_eval, but the mode is {flags.mode}.")
    if name := next((name for name in _NOT_OF_SWEEPS if getattr(flags, name)), ""):
        raise UserError(f"--{name} has no meaning with --sweep: leave it out. The same command continues a sweep.")
    if not is_alone():
        raise UserError("A sweep starts processes itself: start it without mpiexec or horovodrun, and without "
                        "TF_CONFIG.")
    import_tensorflow()
    from open_seq2seq.run.sweep import Sweep, folder_of, parse_grid

    parser = _Parser(allow_abbrev=False, add_help=False)
    _add_sweep(parser)
    parser.add_argument("--logdir")
    own, words = parser.parse_known_args([with_home(word) for word in arguments])
    grid = parse_grid(own.sweep)

    def options_of(more: Sequence[str]) -> RunOptions:
        return parse_options([*words, *more])

    root = folder_of(own.logdir, grid, options_of)
    signum = Sweep(grid, root, words, options_of, own.sweep_processes or 1).run()[1]
    return 0 if signum is None else 128 + signum


def _report_on(overrides: list[Override]) -> int:
    values = {one.keys[0]: one.value for one in overrides if len(one.keys) == 1}
    if len(values) < len(overrides) or not values.get("logdir") or {*values} - {"logdir", *_CARD}:
        raise UserError("--mode=report needs --logdir, and takes only --license, --language and --dataset for the "
                        "model card: run.py --mode=report --logdir=my_run.")
    # The texts are not read as YAML, in which no, the code of Norwegian, is a truth value.
    license, *lists = ({one.keys[0]: one.text or "" for one in overrides}.get(name, "") for name in _CARD)
    languages, datasets = ([one.strip(" '\"") for one in text.strip("[] ").split(",") if one.strip()] for text in lists)
    logdirs = [one for one in overrides if one.keys == ("logdir",)]
    path = Run.of_command(None, logdirs, False, ()).report(license=license, languages=languages, datasets=datasets)
    deco_print(f"Report: {path}")
    return 0


def parse_words(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[Override]]:
    """Parses the words of the command line; returns the flags and the config values.

    If results go to stdout, everything that is printed from now on goes to stderr.

    Raises:
      UserError: a word is not understood.
    """
    flags, leftover = make_parser().parse_known_args(_plain_switches([with_home(word) for word in arguments]))
    commands = (*VERBS, EXPORT_MODE, *TOOLS)
    if leftover and not leftover[0].startswith("-") and (hint := did_you_mean(leftover[0], commands)):
        raise UserError(f"The argument '{leftover[0]}' is not understood.{hint}")
    check_mode(flags.mode, _ALL_MODES)
    if flags.infer_output_file == "-":
        flags.infer_output_file = STANDARD_OUTPUT
        if flags.mode == "infer":
            print_to_stderr()
    need_output(flags.check or flags.benchmark or flags.mode in ("eval", "interactive_infer")
                or (flags.mode == "infer" and is_standard_output(flags.infer_output_file)))
    if flags.mode == "infer":
        check_output_file(flags.infer_output_file)
    overrides = parse_overrides(_with_logdirs(leftover), _WORDS)
    if flags.infer_files is not None and flags.mode not in ("infer", EXPORT_MODE):
        raise UserError(f"--infer_files is for --mode=infer, but the mode is {flags.mode}.")
    if flags.mode == EXPORT_MODE:
        _check_export(flags)
    elif name := next((name for name in ("export_format", "export_dir") if getattr(flags, name) is not None), ""):
        raise UserError(f"--{name} is for --mode={EXPORT_MODE}, but the mode is {flags.mode}.")
    return flags, overrides


def _check_export(flags: argparse.Namespace) -> None:
    flags.export_format = FORMATS[0] if flags.export_format is None else flags.export_format
    check_format(flags.export_format)
    if not flags.export_dir:
        raise UserError("--mode=export needs --export_dir, the folder to write.")
    if name := next((name for name in _NOT_OF_EXPORTS if getattr(flags, name)), ""):
        raise UserError(f"--{name} has no meaning with --mode={EXPORT_MODE}: leave it out.")


def _run_of(flags: argparse.Namespace, overrides: list[Override]) -> Run:
    for key, value in (("bench_start", flags.bench_start), ("use_xla_jit", flags.use_xla_jit)):
        if value is not None:
            overrides = [*overrides, Override(None, (key,), value)]
    return Run.of_command(flags.config_file, overrides, flags.trust_code, _WORDS)


def _options(flags: argparse.Namespace, arguments: Sequence[str]) -> dict[str, Any]:
    names = ("infer_output_file", "continue_learning", "enable_logs", "elastic", "check", "verbose")
    return {**{name: getattr(flags, name) for name in names}, "infer_files": flags.infer_files or (),
            "no_dir_check": flags.no_dir_check or flags.benchmark, "argv": list(arguments),
            "benchmark": Benchmark(flags.bench_steps, flags.bench_start) if flags.benchmark else None}


def run_of(arguments: Sequence[str]) -> Run:
    """Returns the run of a command line, for scripts that use its models in their own way.

    Raises:
      UserError: the command line has a mistake.
    """
    return _run_of(*parse_words(arguments))


def parse_options(arguments: Sequence[str]) -> RunOptions:
    """Parses and checks the command line and the config; builds no model.

    Raises:
      UserError: the command line or the config has a mistake; a ``ConfigError`` lists all mistakes of the config.
    """
    flags, overrides = parse_words(arguments)
    return _run_of(flags, overrides).options(flags.mode, **_options(flags, arguments))
