"""Effects of the system on a run: file permissions, other processes, jumping clocks, network file systems."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator

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
    Command,
    Expectation,
    Fault,
    Place,
    Refused,
    Said,
    Same,
    Works,
)
from tests.hostile.faults import after, both, edit, write

COMMANDS: dict[str, Command] = {"a new run": TRAIN_ANEW, "resuming": RESUME, "evaluation": EVALUATE,
                                "inference": INFER}
DENIED = "Permission denied"


def rights(name: str, mode: int) -> Fault:
    """Sets the permissions of a file or folder."""
    return lambda place: os.chmod(place / name, mode)


def below(name: str, mode: int) -> Fault:
    """Sets the permissions of a folder and all folders below it."""
    def fault(place: Place) -> None:
        for folder, _, _ in os.walk(place / name, topdown=False):
            os.chmod(folder, mode)

    return fault


def access_rights() -> Iterator[Case]:
    """Yields cases with unreadable files and read-only folders, for each command that uses them."""
    unreadable: dict[str, tuple[str, dict[str, Expectation]]] = {
        "text": ("config.py", dict.fromkeys(COMMANDS, Refused("config.py", DENIED))),
    }
    for task, (name, expectations) in unreadable.items():
        for what, expect in expectations.items():
            yield Case(f"{name} may not be read, {what}", COMMANDS[what], expect, fault=rights(name, 0), task=task,
                       ordinary=True, quick=what == "evaluation")
    reads = {"train.src": ("a new run",), "dev.tgt": ("evaluation", "a new run"), "dev.src": ("inference",),
             "vocab.txt": ("a new run",), "run/.lock": ("resuming",),
             "run/model.ckpt-60/weights.safetensors": ("evaluation", "inference", "resuming"),
             "run/model.ckpt-60/state.json": ("evaluation", "resuming"),
             "run/model.ckpt-60/config.yaml": ("evaluation", "resuming"), "run": ("evaluation", "resuming"),
             "run/model.ckpt-60": ("evaluation", "resuming")}
    for name, modes in reads.items():
        for what in modes:
            yield Case(f"{name} may not be read, {what}", COMMANDS[what], Refused(name, DENIED), fault=rights(name, 0),
                       ordinary=True, quick=name.endswith("state.json"))
    for name in ("train.csv", "wav/train-0000.wav", "wav", "vocab.txt"):
        yield Case(f"{name} may not be read, speech", TRAIN_ANEW, Refused(name.partition("/")[2] or name, DENIED),
                   fault=rights(name, 0), task="speech", ordinary=True)
    for name, what, expect in (
            ("run", "resuming", Refused("run", DENIED)), ("run", "evaluation", Same()), ("run", "inference", Same()),
            ("run/model.ckpt-60", "evaluation", Same()), ("run/model.ckpt-60", "resuming", Same()),
            ("run/best_models", "resuming", Refused("run/best_models", "cannot be written")),
            ("home", "a new run", Same()), ("home/.cache", "a new run", Same()), ("home/tmp", "a new run", Same()),
            ("index", "a new run", Same()), ("index", "evaluation", Same()),
            (".", "inference", Refused("out.txt", "cannot be written")), (".", "a new run", Refused("new", DENIED)),
            (".", "evaluation", Same())):
        yield Case(f"{name} may not be written, {what}", COMMANDS[what], expect, fault=rights(name, 0o555),
                   ordinary=True)
    yield Case("no folder of a logdir may be written, inference from it", INFER_TEXT, Same(), fault=below("run", 0o555),
               ordinary=True)
    yield Case("no folder of a logdir may be written, inference of speech from it", INFER_SPEECH, Same(),
               fault=below("run", 0o555), task="speech", ordinary=True)
    yield Case("the home folder may not even be seen", TRAIN_ANEW, Same(), fault=rights("home", 0), ordinary=True)
    yield Case("earlier results may not be written", INFER, Refused("out.txt cannot be written"),
               fault=both(write("out.txt", "old\n"), rights("out.txt", 0o444)), ordinary=True)
    yield Case("results that may not be written, in a folder that may not", INFER, Refused("out.txt cannot be written"),
               fault=both(write("out.txt", "old\n"), rights("out.txt", 0o444), rights(".", 0o555)), ordinary=True)
    yield Case("rights to the logdir are taken away while it trains", LONG, Refused(DENIED),
               meanwhile=after("Step 5:", rights("new", 0o555)), ordinary=True)
    yield Case("rights to the data are taken away while it starts", TRAIN_ANEW, Refused("train.src", DENIED),
               meanwhile=after("Training", rights("train.src", 0)), ordinary=True, writes=["new"])


LONG = (CONFIG, "--mode=train_eval", "--logdir=new", "--max_steps=200000", "--print_loss_steps=5",
        "--eval_steps=100000", "--save_checkpoint_steps=50", "--num_checkpoints=2")
TWICE = '"$@" & first=$!; "$@"; own=$?; wait $first; other=$?; '
BOTH_WORK = TWICE + "exit $((own | other))"
ONE_WORKS = TWICE + "test $((own + other)) = 2"  # one is refused
# The same for commands so short that one may end before the other opens its output: tried until they meet.
ONE_WORKS_IF_THEY_MEET = f"for i in 1 2 3 4 5 6; do {TWICE} test $((own + other)) = 0 || break; done; " \
                         "test $((own + other)) = 2"


def several_processes() -> Iterator[Case]:
    """Yields cases with two commands on the same files at the same time."""
    for task in ("text", "speech"):
        yield Case(f"evaluation of {task} twice at once", EVALUATE, Same(), task=task, shell=BOTH_WORK)
        yield Case(f"inference of {task} twice at once into one file", INFER,
                   Said("out.txt is being written by another process"), task=task, shell=ONE_WORKS_IF_THEY_MEET)
    yield Case("two new runs at once in one logdir", TRAIN_ANEW, Said("is in use by process"), shell=ONE_WORKS)
    yield Case("two runs resumed at once", RESUME, Said("is in use by process"), shell=ONE_WORKS)
    yield Case("two checks at once make one index", CHECK, Works(), fault=lambda place: _remove_index(place),
               shell=BOTH_WORK)
    other = '"${@:1:5}" --config_file=config.py '
    yield Case("evaluation while a run is resumed", (*RESUME, "--max_steps=300", "--save_checkpoint_steps=5"),
               Works(), shell=f'"$@" & for i in 1 2 3; do {other} --mode=eval || exit 3; done; wait $!')
    # A checkpoint may be removed while its files are read: the command then reports it, and succeeds if repeated.
    yield Case("inference while a run keeps one checkpoint",
               (*RESUME, "--max_steps=300", "--save_checkpoint_steps=2", "--num_checkpoints=1"), Works(),
               shell=f'"$@" & for i in 1 2 3; do for try in 1 2 3; do {other} --mode=infer --infer_output_file=o$i '
                     "&& break || test $? = 2 || exit 3; done; test -e o$i || exit 4; done; wait $!")


def _remove_index(place: Place) -> None:
    for path in (place / "index").iterdir():
        path.unlink()


def times(seconds: float, *patterns: str) -> Fault:
    """Sets the times of files, as a wrong clock would have done."""
    def fault(place: Place) -> None:
        for pattern in patterns:
            for path in place.root.glob(pattern):
                os.utime(path, (seconds, seconds))

    return fault


# The config is user code, which can patch a module for the rest of the process.
JUMPING = """
import time as _time
_real, _calls = _time.time, [0]
def _jumping():
    _calls[0] += 1
    return _real() + ({jump})
_time.time = _jumping
root ="""
JUMPS = {"goes back by an hour at every look": "-3600 * _calls[0]", "jumps to and fro by a year":
         "31536000 * (-1) ** _calls[0]", "stands still": "-_real() + 1.6e9", "is at the beginning of time": "-_real()",
         "is in the year 9999": "2.5e11 - _real()"}


def clocks() -> Iterator[Case]:
    """Yields cases with jumping clocks, and with files that have impossible times."""
    for (how, jump), (what, command) in itertools.product(JUMPS.items(), COMMANDS.items()):
        yield Case(f"the clock {how}, {what}", command, Same(),
                   fault=edit("config.py", "root =", JUMPING.format(jump=jump)))
    moments = {"of 1970": 0.0, "before 1970": -1e6, "of 2100": 4.1e9, "of 2500": 1.67e10}
    files = {"the data": ("*.src", "*.tgt", "vocab.txt"), "the index": ("index/*", "index/*/*"),
             "the run": ("run", "run/*", "run/*/*", "run/.lock")}
    for (when, seconds), (whose, patterns), (what, command) in itertools.product(
            moments.items(), files.items(), (("resuming", RESUME), ("evaluation", EVALUATE))):
        yield Case(f"{whose}: times {when}, {what}", command, Same(), fault=times(seconds, *patterns))
    for when, seconds in moments.items():
        yield Case(f"recordings with times {when}", RESUME, Same(), task="speech",
                   fault=times(seconds, "wav/*", "*.csv", ".os2s_cache/*", "run/*", "run/*/*"))


# Ways in which network file systems differ from local disks, as patches of functions of the modules os and fcntl.
NETWORK = {
    "is slow": "for _n in ('replace', 'rename', 'fsync', 'open', 'unlink', 'mkdir', 'link', 'stat', 'scandir'):\n"
               "    def _f(*a, _g=getattr(os, _n), **k):\n"
               "        __import__('time').sleep(0.002)\n"
               "        return _g(*a, **k)\n"
               "    setattr(os, _n, _f)\n",
    "knows no locks": "import fcntl\n"
                      "def _f(*a):\n    raise OSError(errno.ENOLCK, 'No locks available')\n"
                      "fcntl.flock = fcntl.lockf = _f\n",
    "knows no hard links": "def _f(*a, **k):\n    raise PermissionError(errno.EPERM, 'Operation not permitted')\n"
                           "os.link = _f\n",
    "cannot sync folders": "import stat\n_g = os.fsync\n"
                           "def _f(n):\n"
                           "    if stat.S_ISDIR(os.fstat(n).st_mode):\n"
                           "        raise OSError(errno.EINVAL, 'Invalid argument')\n"
                           "    return _g(n)\n"
                           "os.fsync = _f\n",
    "has no access rights": "def _f(*a, **k):\n    raise PermissionError(errno.EPERM, 'Operation not permitted')\n"
                            "os.chmod = os.fchmod = os.chown = _f\n",
    "lists folders late": "_g = os.listdir\n_seen = {}\n"
                          "def _f(path='.'):\n    return list(_seen.setdefault(str(path), _g(path)))\n"
                          "os.listdir = _f\n",
    "has times of whole seconds": "_g = os.utime\n"
                                  "def _f(path, times=None, **k):\n"
                                  "    ns = k.pop('ns', None)\n"
                                  "    return _g(path, tuple(n // 10**9 for n in ns) if ns else times, **k)\n"
                                  "os.utime = _f\n",
}


def networks() -> Iterator[Case]:
    """Yields cases with network file systems, simulated by different behaviour of system calls."""
    for (how, code), (what, command) in itertools.product(NETWORK.items(), COMMANDS.items()):
        yield Case(f"the file system {how}, {what}", command, Same(), timeout=120,
                   fault=edit("config.py", "root =", f"import errno\nimport os\n{code}root ="))


CASES = [case if case.shell is None else dataclasses.replace(case, timeout=200) for case in (
    *access_rights(), *several_processes(), *clocks(), *networks())]
