"""Tests that the driver detects misbehaving commands; the commands are lines of bash that misbehave on purpose."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.case import Case, Ended, Expectation, Place, Refused, Said, Same, Works
from tests.hostile.driver import Driver
from tests.hostile.faults import (
    after,
    append,
    both,
    delete,
    edit,
    flip,
    hard_link,
    rename,
    replace_by_fifo,
    replace_by_link,
    send_signal,
    swap,
    truncate,
    write,
)
from tests.hostile.judge import FILES, HANG, OTHER, SILENT, TRACEBACK, summary
from tests.hostile.workspaces import Workspace

REFUSE = "echo 'Error: no such thing.' >&2; exit 2"
CHECKPOINT = "run/model.ckpt-1/weights.safetensors"
INFER = "cp data.txt out.txt; echo '*** BLEU: 12.34'"


def write_files(root: Path) -> None:
    (root / "data.txt").write_text("data\n")
    (root / "linked.txt").write_text("linked\n")
    (root / "link").symlink_to("linked.txt")


# A run that writes a checkpoint.
TRAIN = Case("training", (), Ended(0), shell=f"mkdir -p run/model.ckpt-1; cp data.txt {CHECKPOINT}; echo x > run/.lock")
WORKSPACES = {"text": Workspace(write_files, TRAIN)}


def bad(name: str, shell: str, kind: str, expect: Expectation | None = None, **more) -> tuple[Case, list[str]]:
    return Case(name, (), expect or Works(), shell=shell, **more), [kind]


def good(name: str, shell: str, expect: Expectation, **more) -> tuple[Case, list[str]]:
    return Case(name, (), expect, shell=shell, **more), []


RUNS = [
    bad("a file is changed", "echo more >> data.txt", FILES),
    bad("a file is removed", "rm data.txt", FILES),
    bad("a file is renamed", "mv data.txt other.txt", FILES),
    bad("a file is replaced by a link", "cp data.txt copy; ln -sf copy data.txt", FILES),
    bad("a file is written through a link", "echo more > link", FILES),
    bad("a link leads elsewhere", "ln -sf data.txt link", FILES),
    bad("a file is written through its second name", "echo more > run/.lock", FILES,
        fault=both(delete("run/.lock"), hard_link("data.txt", "run/.lock"))),
    bad("a file is changed and that is said", f"rm data.txt; {REFUSE}", FILES, Refused("no such thing")),
    bad("a file that the fault put into the run is removed", "rm run/mine", FILES, fault=write("run/mine", "x")),
    bad("a pipe in the place of a checkpoint's file is replaced", f"rm {CHECKPOINT}; echo > {CHECKPOINT}", FILES,
        fault=replace_by_fifo(CHECKPOINT)),
    bad("a link in the place of a checkpoint's file is replaced", f"rm {CHECKPOINT}; echo > {CHECKPOINT}", FILES,
        fault=replace_by_link(CHECKPOINT)),
    bad("a file of HOME is removed", "rm $HOME/letter.txt", FILES, fault=write("home/letter.txt", "x")),
    bad("a checkpoint is lost by a command that was refused", f"rm {CHECKPOINT}; {REFUSE}", FILES, Refused("no such")),
    bad("a checkpoint is lost that had to stay", f"rm {CHECKPOINT}", FILES, keeps=["run/model.ckpt-1/*"]),
    good("a run's own files are rotated", f"rm -r run/model.ckpt-1 run/.lock; {INFER}", Works()),
    good("a run's own damaged checkpoint is replaced", f"echo new > {CHECKPOINT}", Works(), fault=flip(CHECKPOINT)),
    good("a file is overwritten as the command was told to", "echo more > data.txt", Works(), writes=["data.txt"]),
    good("what comes before the fault makes is removed", 'if [ "$6" ]; then touch made; else rm made; fi', Works(),
         before=("--make",)),
    bad("a command hangs", "sleep 100", HANG, timeout=0.5),
    bad("a command waits at a pipe", "cat data.txt", HANG, timeout=0.5, fault=replace_by_fifo("data.txt")),
    bad("a traceback on standard error", "echo 'Traceback (most recent call last):' >&2", TRACEBACK),
    bad("a traceback on standard output", "echo 'Traceback (most recent call last):'", TRACEBACK),
    bad("an end by a signal", "kill -SEGV $$", TRACEBACK),
    good("an end by the signal that was sent", "echo begun; exec sleep 100", Ended(-signal.SIGTERM),
         meanwhile=after("begun", send_signal(signal.SIGTERM))),
    good("a refusal", REFUSE, Refused("no such thing")),
    bad("a refusal of two lines", f"echo 'Error: this.' >&2; {REFUSE}", OTHER, Refused("no such thing")),
    good("two mistakes in two lines", f"echo 'Error: this.' >&2; {REFUSE}", Refused("no such", "this", several=True)),
    bad("a refusal without a word", "exit 2", OTHER, Refused()),
    bad("a refusal of other words", "echo 'Error: nothing.' >&2; exit 2", OTHER, Refused("no such thing")),
    bad("what should be refused goes on", INFER, SILENT, Refused()),
    bad("what should work is refused", REFUSE, OTHER),
    bad("an exit code of a bug", "exit 1", OTHER),
    good("the same result", INFER, Same(), fault=append("linked.txt", "more")),
    bad("another result", INFER, SILENT, Same(), fault=append("data.txt", "more")),
    bad("another metric", 'cp data.txt out.txt; echo "*** BLEU: $(wc -c < linked.txt)"', SILENT, Same(),
        fault=append("linked.txt", "more")),
    bad("other weights", "mkdir -p run/model.ckpt-2; cp data.txt run/model.ckpt-2/weights.safetensors", SILENT, Same(),
        fault=edit("data.txt", "data", "date")),
    good("another result that is named", f"echo data.txt has changed; {INFER}", Said("has changed"),
         fault=truncate("data.txt", 2)),
    bad("another result that is not named", INFER, SILENT, Said("has changed"), fault=swap("data.txt", "linked.txt")),
    good("a file goes while the command runs", "echo begun; while [ -e data.txt ]; do sleep 0.01; done", Works(),
         meanwhile=after("begun", rename("data.txt", "gone.txt"))),
]


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver([case for case, _ in RUNS], 2, WORKSPACES, bare=True) as driver:
        yield driver


@pytest.mark.parametrize(("case", "kinds"), RUNS, ids=[case.name for case, _ in RUNS])
def test_what_a_command_does_wrong_is_seen(driver: Driver, case: Case, kinds: list[str]):
    outcome = driver.outcome(case)
    assert sorted({finding.kind for finding in outcome.findings}) == kinds, outcome.report()


def test_a_hanging_process_shows_where_it_is():
    case = Case("hangs", (), Works(), timeout=4, shell='exec "$1" -X faulthandler -c "import time; time.sleep(100)"')
    with Driver([case], 1, {"text": Workspace(write_files, None)}, bare=True) as driver:
        assert "Fatal Python error: Aborted" in driver.outcome(case).report()


def test_the_summary_counts_cases():
    assert summary({"a": [FILES, TRACEBACK], "b": [], "c": [FILES]}) == [
        "3 hostile cases: 2 files of the user's changed, 0 hangs, 1 tracebacks or ends by a signal, "
        "0 silent differences, 0 other surprises"]


def test_faults_do_what_they_say(tmp_path):
    place = Place(tmp_path)
    write_files(tmp_path)
    swap("data.txt", "linked.txt")(place)
    assert (tmp_path / "link").read_text() == "data\n"
    flip("data.txt", 0)(place)
    assert (tmp_path / "data.txt").read_bytes() == b"minked\n"
