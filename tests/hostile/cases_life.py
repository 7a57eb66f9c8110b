"""Unusual environments, outputs that are also inputs, and runs that are interrupted at every stage."""

from __future__ import annotations

import dataclasses
import itertools
import signal
from collections.abc import Sequence

from tests.hostile.case import (
    CHECK,
    CONFIG,
    EVALUATE,
    INFER,
    INFER_SPEECH,
    INFER_TEXT,
    RESUME,
    TRAIN_ANEW,
    Case,
    Ended,
    Expectation,
    Fault,
    Place,
    Refused,
    Said,
    Same,
    Works,
)
from tests.hostile.faults import after, both, copy, edit, hard_link, rename, replace_by_link, send_signal, write

TALK = (CONFIG, "--mode=interactive_infer")
MODES: dict[str, Sequence[str]] = {"training": TRAIN_ANEW, "resuming": RESUME, "evaluation": EVALUATE,
                                   "inference": INFER, "a prompt": TALK, "a check": CHECK}
# A file that each command must write, which the shell checks: lost output must not mean lost work.
LEAVES = {"training": "new/model.ckpt-20/state.json", "resuming": "run/model.ckpt-80/state.json",
          "inference": "out.txt"}
PIPE = 128 + signal.SIGPIPE


def redirected(mode: str, how: str) -> str:
    """Returns a line of bash that redirects the command and exits with its code, or with 9 if its file is missing."""
    found = f'test -s {LEAVES[mode]} || exit 9' if mode in LEAVES else "true"
    return f'"$@" {how}; code=${{PIPESTATUS[0]}}; [ $code != 0 ] || {found}; exit $code'


def streams() -> list[Case]:
    """Returns cases with standard streams that are closed, full, or not read by anybody."""
    faults = {"is closed": ">&-", "is a full disk": ">/dev/full", "goes to head": "| head -n 1 >/dev/null"}
    cases = []
    for (mode, command), (fault, how) in itertools.product(MODES.items(), faults.items()):
        quiet: Expectation = Said("Standard output cannot be written") if mode in LEAVES else (
            Ended(PIPE) if "head" in fault else Refused("Standard output cannot be written"))
        cases.append(Case(f"standard output of {mode} {fault}", command, quiet, shell=redirected(mode, how),
                          stdin=b"a b c\n" * 2000))
    for mode, fault in itertools.product(("training", "evaluation", "inference"), ("2>&-", "2>/dev/full", "<&-")):
        cases.append(Case(f"{mode} with {fault}", MODES[mode], Same(), shell=f'exec "$@" {fault}'))
    for mode in ("training", "inference"):
        cases.append(Case(f"all streams of {mode} are closed, speech", MODES[mode], Works(), task="speech",
                          shell=redirected(mode, "<&- >&- 2>&-")))
    cases += [
        Case("standard error of a mistake is closed", (CONFIG, "--mode=trian"), Ended(2), shell='exec "$@" 2>&-'),
        Case("standard input of a prompt is closed", TALK, Works(), shell='exec "$@" <&-'),
        Case("results go to standard output, which is closed", (*INFER[:-1], "--infer_output_file=/dev/stdout"),
             Refused("started with that stream closed"), shell='exec "$@" >&-'),
        Case("results go to standard output, which is a full disk", (*INFER[:-1], "--infer_output_file=/dev/stdout"),
             Refused("No space left"), shell='exec "$@" >/dev/full'),
        Case("results go to standard output, of which head reads a line",
             (*INFER[:-1], "--infer_output_file=/dev/stdout"), Ended(PIPE),
             shell=redirected("evaluation", "| head -n 1 >/dev/null")),
        Case("the help goes to head", ("--help",), Ended(0), shell='"$@" | head -n 1'),
    ]
    return cases


def environments() -> list[Case]:
    """Returns cases with environment variables that are missing or wrong."""
    variables = {
        "without HOME": {"HOME": None}, "with a missing HOME": {"HOME": "/proc/nowhere/at/all"},
        "with a file as HOME": {"HOME": "/etc/hostname", "XDG_CACHE_HOME": None},
        "with a missing TMPDIR": {"TMPDIR": "/proc/nowhere"}, "with COLUMNS=0": {"COLUMNS": "0"},
        "with a relative XDG_CACHE_HOME": {"XDG_CACHE_HOME": "cache"},
        "with TERM unknown": {"TERM": "no-such-terminal"}, "without PATH": {"PATH": ""},
    }
    cases = [Case(f"{mode} {fault}", MODES[mode], Same(), env=env, task=task)
             for (fault, env), (mode, task) in itertools.product(
                 variables.items(), (("training", "text"), ("evaluation", "speech"), ("inference", "text")))]
    shells: dict[str, dict[str, str | None]] = {
        "in ASCII": {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        "without assertions": {"PYTHONOPTIMIZE": "2"}, "with warnings as errors": {"PYTHONWARNINGS": "error"},
        "without a buffer": {"PYTHONUNBUFFERED": "1"}}
    cases += [Case(f"{mode} {fault}", MODES[mode], Same(), env=env, shell='exec "$@"')
              for (fault, env), mode in itertools.product(shells.items(), ("training", "inference"))]
    cases += [Case(f"{mode} with 1 GB of addresses", command, Refused("ulimit -v"), quick=True,
                   shell='ulimit -v 1000000; exec "$@"')
              for mode, command in MODES.items()]
    cases += [
        Case("training may write no large files", TRAIN_ANEW, Refused("File too large"),
             shell='ulimit -f 4; exec "$@"'),
        Case("an overview may be no large file", TRAIN_ANEW, Refused("The config and variables cannot be written"),
             shell='ulimit -f 1; exec "$@"'),
        # The overview of 5.6 KB is written before the first event.
        Case("events may be no large files", (*TRAIN_ANEW, "--save_summaries_steps=1", "--save_checkpoint_steps=None",
                                              "--max_steps=100"),
             Refused("TensorBoard's events cannot be written"), shell='ulimit -f 6; exec "$@"'),
        # The output goes through a pipe, because the limit also applies to the files that capture it.
        *(Case(f"{what} may be no large files", command, Refused(words),
               shell='(ulimit -f 0; exec "$@") 2>&1 | cat >&2; exit ${PIPESTATUS[0]}')
          for what, command, words in (
              ("results", INFER, "The results cannot be written"),
              ("logs", (*TRAIN_ANEW, "--enable_logs", "--save_checkpoint_steps=None"), "File too large"))),
        Case("a small stack", TRAIN_ANEW, Same(), shell='ulimit -s 256; exec "$@"'),
        Case("few open files", TRAIN_ANEW, Same(), shell='ulimit -n 32; exec "$@"'),
        Case("a working folder that is gone", lambda place: (f"--config_file={place.root}/config.py", "--mode=eval"),
             Works(), shell='mkdir gone; cd gone; rmdir ../gone; exec "$@"'),
        Case("a config relative to a working folder that is gone", EVALUATE, Refused("No such file"),
             shell='mkdir gone; cd gone; rmdir ../gone; exec "$@"'),
        *(Case(f"{mode} of {task} without any temporary folder", MODES[mode], Same(), task=task,
               fault=write("sitecustomize.py", "import tempfile\n"
                           "tempfile._candidate_tempdir_list = lambda: ['/proc/nowhere']\n"),
               shell='PYTHONPATH="$PWD:$PYTHONPATH" exec "$@"')
          for mode, task in itertools.product(("training", "evaluation", "inference"), ("text", "speech"))),
        Case("an umask that takes all rights", TRAIN_ANEW, Same(), shell='umask 777; exec "$@"'),
    ]
    return cases


def outputs() -> list[Case]:
    """Returns cases in which results would overwrite a file that the run reads or keeps, under any name of the file."""
    inputs = {
        "text": ["dev.src", "dev.tgt", "train.src", "vocab.txt", "config.py", "run/.lock",
                 *(f"run/model.ckpt-60/{name}" for name in (
                     "weights.safetensors", "optimizer.safetensors", "state.json", "config.yaml",
                     "assets/src_vocab_file")),
                 "run/model.ckpt-20/weights.safetensors"],
        "speech": ["dev.csv", "vocab.txt", "config.py", "wav/dev-0000.wav", "wav/dev-0002.wav",
                   "run/model.ckpt-60/weights.safetensors", "run/model.ckpt-40/state.json"]}
    ways = ("itself", "a link to it", "a hard link to it", "a long way to it")
    refused = Refused("reads or keeps")
    cases = []
    for task, way in itertools.product(inputs, ways):
        for name in inputs[task] if way == "itself" else inputs[task][:4]:
            fault: Fault = both()
            output = name
            if way == "a link to it":
                fault, output = replace_by_link("out.txt", name), "out.txt"
            elif way == "a hard link to it":
                fault, output = hard_link(name, "other/out.txt"), "other/out.txt"
            elif way == "a long way to it":
                output = f"./home/.././{name}"
            cases.append(Case(f"the output is {way}: {name} ({task})", (*INFER[:-1], f"--infer_output_file={output}"),
                              refused, fault=fault, task=task))
    side = (*INFER[:-1], "--infer_output_file=x.csv", "--write_word_times=True",
            "--infer_params/data_layer_params/dataset_files=[x.words.csv]")
    cases += [
        Case("a side file of the output is the list", side, refused, fault=copy("dev.csv", "x.words.csv"),
             task="speech"),
        Case("the output is a file of --infer_files", ("--mode=infer", "--logdir=run", "--infer_output_file=dev.tgt",
                                                       "--infer_files", "dev.src", "dev.tgt"), refused),
        Case("the output is a recording of --infer_files", ("--mode=infer", "--logdir=run",
                                                            "--infer_output_file=wav/dev-0001.wav", "--infer_files",
                                                            "wav"), refused, task="speech"),
        Case("the output is a full device", (*INFER[:-1], "--infer_output_file=/dev/full"), Refused("No space left")),
        Case("the output is a full device, speech", (*INFER[:-1], "--infer_output_file=/dev/full"),
             Refused("No space left"), task="speech"),
        Case("the output replaces earlier results", INFER, Same(), fault=write("out.txt", "old\n"), writes=["out.txt"]),
    ]
    names = {"of 300 characters": ("x" * 300, "File name too long"), "with NUL": ("a\0b", "embedded null"),
             "that is empty": ("", "is empty"), "that is a folder": ("wanted", "is a folder"),
             "below a file": ("vocab.txt/out.txt", "is a file, not a folder")}
    for (what, (name, words)), task in itertools.product(names.items(), inputs):
        cases.append(Case(f"an output {what} ({task})", (*INFER[:-1], f"--infer_output_file={name}"), Refused(words),
                          fault=write("wanted/own.txt", "the user's own\n"), task=task, quick=True))
    cases.append(Case("a side file with too long a name", (*INFER[:-1], f"--infer_output_file={'x' * 250}.csv",
                                                           "--write_word_times=True"), Refused("File name too long"),
                      task="speech"))
    return cases


HOOK = """
import os, signal
from open_seq2seq.training.hooks import Hook

class Trouble(Hook):
    def {method}(self, trainer{more}):
        if trainer.step == {step}:
            {action}
"""


def hook(action: str, step: int = 5, method: str = "after_step") -> Fault:
    """Writes a user file with a hook that executes ``action`` in a step."""
    return write("trouble.py", HOOK.format(method=method, action=action, step=step,
                                           more=", results" if method == "after_step" else ""))


TROUBLE = (*TRAIN_ANEW, "--hooks=['trouble.py:Trouble']", "--eval_steps=10", "--print_loss_steps=5")


def errors_between_steps() -> list[Case]:
    """Returns cases in which evaluation, data, a hook or a file fails during training.

    The state must be saved, and one sentence must give the reason.
    """
    actions = {
        "raises an error": ("raise ValueError('no luck')", "trouble.py, line 8: ValueError: no luck"),
        "asks for too much memory": ("raise MemoryError('no room')", "ran out of memory"),
        "finds no file": ("open('nowhere.txt')", "nowhere.txt: No such file or directory"),
        "divides by zero": ("1 / 0", "trouble.py, line 8: ZeroDivisionError"),
        "finds a full disk": ("open('/dev/full', 'w', buffering=1).write('x\\n')", "No space left on device"),
        "has an error of TensorFlow": ("__import__('tensorflow').constant([1]) + __import__('tensorflow').ones([2, 3], "
                                       "'int32') @ [1]", "trouble.py, line 8: "),
        "starts no thread": ("raise RuntimeError(\"can't start new thread\")", "cannot start more threads"),
        "raises an error of its own": ("raise type('Mine', (Exception,), {})()", "trouble.py, line 8: Mine"),
    }
    saved = "Training ended after step 5, which is saved"
    cases = [Case(f"a hook {what} ({task})", TROUBLE, Refused(words, saved), fault=hook(action), task=task)
             for (what, (action, words)), task in itertools.product(actions.items(), ("text", "speech"))]
    gone = {"text": ["dev.tgt"], "speech": ["wav/dev-0000.wav"]}
    for task, names in gone.items():
        for name in names:
            cases.append(Case(f"{name} goes away before an evaluation ({task})", TROUBLE,
                              Refused(name, "Training ended after step 10, which is saved"), task=task, writes=[name],
                              fault=hook(f"os.rename('{name}', 'moved')"), keeps=["new/model.ckpt-10/*"]))
    cases += [
        Case("a recording of the training goes away", TROUBLE, Refused("train-000", "which is saved"), task="speech",
             fault=hook("[os.remove(f'wav/train-000{i}.wav') for i in range(8)]"), writes=["wav/*"]),
        Case("a hook fails when the run begins", TROUBLE, Refused("no luck", "Training ended after step 0."),
             fault=hook("raise ValueError('no luck')", 0, "begin")),
        Case("a hook fails when the run ends", TROUBLE, Refused("no luck", "step 20, which is saved"),
             fault=hook("raise ValueError('no luck')", 20, "end")),
        Case("a hook ends the process", TROUBLE, Ended(7), fault=hook("raise SystemExit(7)")),
        Case("a hook closes standard output", TROUBLE, Said("Standard output cannot be written"),
             fault=hook("__import__('sys').stdout.close()"), shell='exec "$@"'),
        Case("a hook prints to a pipe that nobody reads", TROUBLE, Said("Standard output cannot be written"),
             fault=hook("print('x' * 10**6)"), shell=redirected("training", "| head -n 1 >/dev/null")),
        Case("a hook removes the working folder's temporary files", TROUBLE, Works(),
             fault=hook("__import__('shutil').rmtree(os.environ['TMPDIR'])"), writes=["home/tmp"]),
        Case("evaluation asks for a metric that is not there",
             (*TRAIN_ANEW, "--best_metric=Nothing", "--eval_steps=10"),
             Refused("'best_metric' is 'Nothing'", "which is saved")),
    ]
    return cases


LONG = (CONFIG, "--mode=train_eval", "--logdir=new", "--max_steps=200000", "--print_loss_steps=5",
        "--save_checkpoint_steps=None", "--num_checkpoints=2")
HUP, INT, TERM = signal.SIGHUP, signal.SIGINT, signal.SIGTERM


def signals() -> list[Case]:
    """Returns cases with signals while a run starts, trains, evaluates and saves."""
    saved = "resume with --continue_learning"
    cases = [Case(f"{number.name} while {what} ({task})", (*LONG, *more), Ended(128 + number, saved), task=task,
                  meanwhile=after(words, send_signal(number)))
             for number, (what, more, words), task in itertools.product(
                 (HUP, INT, TERM),
                 (("it trains", ("--eval_steps=100000",), "Step 5:"),
                  ("it evaluates", ("--eval_steps=5",), "Evaluation at step"),
                  ("it saves", ("--eval_steps=100000", "--save_checkpoint_steps=5"), "Step 5:")),
                 ("text", "speech"))]
    trains = (*LONG, "--eval_steps=100000")
    cases += [
        Case(f"{first.name} and {second.name} while it trains", trains, Ended(128 + first, saved),
             meanwhile=after("Step 5:", both(send_signal(first), send_signal(second))))
        for first, second in ((HUP, HUP), (TERM, TERM), (HUP, TERM))]
    cases += [
        Case("SIGHUP under nohup", (*TRAIN_ANEW, "--hooks=['trouble.py:Trouble']"), Works(),
             fault=hook("os.kill(os.getpid(), signal.SIGHUP)"), shell="trap '' HUP; " + redirected("training", "")),
        Case("SIGPIPE while it trains", (*TRAIN_ANEW, "--hooks=['trouble.py:Trouble']"), Works(),
             fault=hook("os.kill(os.getpid(), signal.SIGPIPE)"), shell=redirected("training", "")),
        Case("SIGTERM after the last step", (*TRAIN_ANEW, "--hooks=['trouble.py:Trouble']"), Ended(128 + TERM),
             fault=hook("os.kill(os.getpid(), signal.SIGTERM)", 20)),
        Case("SIGTERM while it starts", LONG, Ended(-TERM), meanwhile=after("Training", send_signal(TERM))),
    ]
    return cases


def names() -> list[Case]:
    """Returns cases with file names in the home folder, and file names that are not valid UTF-8."""
    odd = "new\udcff"
    infer = INFER[:-1]

    def prepared(place: Place) -> None:
        both(copy("dev.src", "home/dev.src"), copy("vocab.txt", "home/vocab.txt"), copy("config.py", "home/config.py"))(
            place)

    cases = [
        Case("the logdir is in the home folder", (*TRAIN_ANEW, "--logdir=~/new"), Works()),
        Case("the output is in the home folder", (*infer, "--infer_output_file=~/out.txt"), Works()),
        Case("the input is in the home folder", ("--mode=infer", "--logdir=run", "--infer_output_file=out.txt",
                                                 "--infer_files=~/dev.src"), Works(), fault=prepared),
        Case("the config is in the home folder", ("--config_file=~/config.py", "--mode=eval"), Works(), fault=prepared),
        Case("the data are in the home folder", (*INFER, "--infer_params/data_layer_params/source_file=~/dev.src"),
             Works(), fault=prepared),
        Case("the vocabulary is in the home folder", (*EVALUATE, "--data_layer_params/src_vocab_file=~/vocab.txt",
                                                      "--data_layer_params/tgt_vocab_file=~/vocab.txt"), Works(),
             fault=prepared),
        Case("the logdir is in the home of nobody", (*TRAIN_ANEW, "--logdir=~no-such-user/new"),
             Refused("the home folder ~no-such-user is not known"), quick=True),
        Case("the config's logdir is in the home of nobody", EVALUATE, Refused("the home folder is not known"),
             fault=edit("config.py", 'root + "/run"', '"~no-such-user/run"')),
        Case("the logdir is no UTF-8", (*TRAIN_ANEW, f"--logdir={odd}"), Works()),
        Case("the logdir is no UTF-8, with logs", (*TRAIN_ANEW, f"--logdir={odd}", "--enable_logs"), Works()),
        Case("the logdir is no UTF-8, speech", (*TRAIN_ANEW, f"--logdir={odd}"), Works(), task="speech"),
        Case("the logdir of an evaluation is no UTF-8", (*EVALUATE, f"--logdir={odd}"), Works(),
             fault=rename("run", odd)),
        Case("the logdir that is resumed is no UTF-8", (*RESUME, f"--logdir={odd}"), Works(), fault=rename("run", odd),
             writes=(f"{odd}/*",)),
        Case("the output is no UTF-8", (*infer, f"--infer_output_file={odd}"), Works()),
        Case("the input is no UTF-8", ("--mode=infer", "--logdir=run", "--infer_output_file=out.txt", "--infer_files",
                                       odd), Works(), fault=copy("dev.src", odd)),
        Case("an unknown key is no UTF-8", (*EVALUATE, f"--{odd}=1"), Refused("new"), quick=True),
        Case("the mode is no UTF-8", (CONFIG, f"--mode={odd}"), Refused("new"), quick=True),
    ]
    for name, command, task in (("text", INFER_TEXT, "text"), ("speech", INFER_SPEECH, "speech")):
        cases.append(Case(f"inference of {name} from a logdir that is no UTF-8",
                          [argument.replace("=run", f"={odd}") for argument in command], Works(),
                          fault=rename("run", odd), task=task))
    return cases


# A new process has to import TensorFlow, which takes long if other processes do so at the same time.
CASES = [case if case.shell is None else dataclasses.replace(case, timeout=200) for case in (
    *streams(), *environments(), *outputs(), *errors_between_steps(), *signals(), *names())]
