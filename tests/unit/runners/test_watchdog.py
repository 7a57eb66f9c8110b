"""The watchdog, over processes that do nothing else and over threads."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from open_seq2seq.runners.runner import Runner
from open_seq2seq.runners.watchdog import (
    FAILED,
    SILENT,
    Failure,
    Member,
    Watchdog,
    interface_addresses,
    listen,
    start_time,
    watched,
)
from open_seq2seq.utils.trail import Trail
from tests.unit.runners.horovod.test_runner import Meeting

ROOT = Path(__file__).parents[3]
# A rank: writes what it is to a file, reads what all are, is watched, and acts as it is told by lines on stdin.
RANK = '''
import pathlib, pickle, sys, time, types
package = types.ModuleType("open_seq2seq.runners")  # without its __init__, which imports TensorFlow
package.__path__ = [sys.argv[5]]
sys.modules[package.__name__] = package
from open_seq2seq.runners.watchdog import Member, Watchdog, listen
from open_seq2seq.utils.trail import Trail
folder, rank, size, seconds = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
listener = listen() if rank == 0 else None
(folder / f"new-{rank}").write_bytes(pickle.dumps(Member.here(rank, listener.getsockname()[1] if listener else 0)))
(folder / f"new-{rank}").rename(folder / f"member-{rank}")
while len(list(folder.glob("member-*"))) < size:
    time.sleep(0.01)
members = [pickle.loads((folder / f"member-{n}").read_bytes()) for n in range(size)]
trail = Trail()
trail.note("step", 7 + rank, [[3 + rank, 17]])
watchdog = Watchdog(members, rank, listener, b"secret", seconds, trail=trail)
watchdog.start()
while not all(peer.place for peer in watchdog._peers.values()):
    time.sleep(0.01)
(folder / f"ready-{rank}").touch()
for line in sys.stdin:
    exec(line)
'''


def until(condition: Callable[[], bool]) -> None:
    """Waits until something holds, for as long as a busy machine may need."""
    end = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class Job:
    """Some ranks as processes of this machine."""

    def __init__(self, folder: Path, size: int, seconds: float) -> None:
        self.processes = [
            subprocess.Popen([sys.executable, "-c", RANK, str(folder), str(rank), str(size), str(seconds),
                              str(ROOT / "open_seq2seq" / "runners")],
                             stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(size)]
        until(lambda: len(list(folder.glob("ready-*"))) == size)
        self.began = time.monotonic()

    def signal(self, rank: int, signum: int) -> None:
        self.processes[rank].send_signal(signum)

    def tell(self, rank: int, line: str) -> None:
        self.processes[rank].stdin.write(line + "\n")
        self.processes[rank].stdin.flush()

    def end(self, seconds: float = 50.0) -> tuple[list[int], str, float]:
        """Waits until all have ended: (exit codes, what they wrote to stderr, seconds since they were ready)."""
        until = time.monotonic() + seconds
        for process in self.processes:
            process.wait(max(until - time.monotonic(), 0.1))
        took = time.monotonic() - self.began
        words = [process.communicate()[1] for process in self.processes]
        return [process.returncode for process in self.processes], "".join(words), took

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


@pytest.mark.parametrize(("size", "victim"), [(2, 0), (2, 1), (8, 0), (8, 5)])
def test_a_death_ends_all_at_once_and_is_told_once(tmp_path, size, victim):
    with Job(tmp_path, size, 60.0) as job:
        job.signal(victim, signal.SIGKILL)
        codes, words, took = job.end()
    assert codes == [-signal.SIGKILL if rank == victim else 1 for rank in range(size)]
    assert words.count("Error:") == 1, words
    assert f"rank {victim} on host" in words and f"step {7 + victim}, on examples {3 + victim}, 17" in words
    assert took < 30.0  # and not after 60 s of silence


@pytest.mark.parametrize(("size", "victim"), [(2, 0), (2, 1), pytest.param(6, 0, marks=pytest.mark.long)])
def test_a_stopped_process_is_noticed_told_and_killed(tmp_path, size, victim):
    with Job(tmp_path, size, 2.0) as job:
        job.signal(victim, signal.SIGSTOP)
        codes, words, took = job.end()
    assert codes == [-signal.SIGKILL if rank == victim else 1 for rank in range(size)]
    assert words.count("Error:") == 1, words
    assert f"rank {victim} on host" in words and "no heartbeat for 2 s" in words and f"step {7 + victim}" in words
    assert took > 1.0  # the last heartbeat came 0.4 s before the signal, or longer on a busy machine


@pytest.mark.long
def test_a_short_stop_and_a_stop_of_all_are_no_failures(tmp_path):
    with Job(tmp_path, 3, 4.0) as job:
        job.signal(1, signal.SIGSTOP)
        time.sleep(0.8)
        job.signal(1, signal.SIGCONT)
        time.sleep(0.5)
        for rank in range(3):
            job.signal(rank, signal.SIGSTOP)
        time.sleep(5.5)
        for rank in range(3):
            job.signal(rank, signal.SIGCONT)
        time.sleep(2.5)
        assert [process.poll() for process in job.processes] == [None] * 3
        for rank in range(3):
            job.tell(rank, "watchdog.leave(); sys.exit()")
        assert job.end()[:2] == ([0, 0, 0], "")


@pytest.mark.long
def test_a_process_that_computes_in_python_is_not_hung(tmp_path):
    with Job(tmp_path, 2, 2.0) as job:
        job.tell(1, "end = time.time() + 3.5; exec('while time.time() < end: sum(range(1000))')")
        job.tell(1, "watchdog.leave(); sys.exit()")
        time.sleep(4.0)
        job.tell(0, "watchdog.leave(); sys.exit()")
        assert job.end()[:2] == ([0, 0], "")


@pytest.mark.long
def test_one_that_left_in_good_order_is_not_missed(tmp_path):
    with Job(tmp_path, 3, 2.0) as job:
        job.tell(1, "watchdog.leave(); sys.exit()")
        job.processes[1].wait(50)
        time.sleep(3.0)
        assert [process.poll() for process in job.processes] == [None, 0, None]
        job.signal(2, signal.SIGKILL)
        codes, words, _ = job.end()
    assert codes == [1, 0, -signal.SIGKILL] and "rank 2" in words


def test_an_error_that_is_announced_ends_all_with_its_code(tmp_path):
    with Job(tmp_path, 6, 60.0) as job:
        job.tell(4, "watchdog.announce('bad line 7 of b.txt', 2); import os; os._exit(2)")
        codes, words, took = job.end()
    assert codes == [2] * 6
    assert words.count("Error:") == 1 and "stopped because rank 4" in words and "bad line 7 of b.txt" in words
    assert "died" not in words and took < 30.0


def two_watchdogs(seconds, failures, secrets=(b"secret", b"secret"), trail=None):
    listener = listen()
    # Without a start time, because this very process is not to be killed.
    members = [replace(Member.here(rank, listener.getsockname()[1]), started="") for rank in range(2)]
    dogs = [Watchdog(members, rank, None if rank else listener, secrets[rank], seconds, failures[rank].append,
                     trail or Trail()) for rank in range(2)]
    for dog in dogs:
        dog.start()
    return dogs


def connect(*dogs):
    until(lambda: all(peer.connection for dog in dogs for peer in dog._peers.values()))


def test_the_action_is_the_callers(capsys):
    failures = [[], []]
    first, second = two_watchdogs(60.0, failures)
    connect(first, second)
    second.announce("no more", 3)
    first._thread.join(50.0)
    assert [(f.kind, f.rank, f.problem, f.code) for f in failures[0]] == [(FAILED, 1, "no more", 3)]
    assert failures[1] == []
    assert "rank 1" in capsys.readouterr().err
    second.leave()


def test_a_process_that_never_comes_is_silent(capsys):
    failures = []
    listener = listen()
    members = [Member.here(rank, listener.getsockname()[1]) for rank in range(2)]
    members[1] = replace(members[1], started="")  # this very process: not to be killed
    dog = Watchdog(members, 0, listener, b"secret", 1.0, failures.append, Trail())
    dog.start()
    dog._thread.join(50.0)
    assert [(f.kind, f.rank) for f in failures] == [(SILENT, 1)]
    assert "had not begun its first step" in capsys.readouterr().err


def test_a_silent_process_is_killed_by_those_on_its_machine():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        members = [Member.here(rank, 0) for rank in range(3)]
        members[0] = replace(members[0], machine="elsewhere")
        members[1] = replace(members[1], pid=process.pid, started=start_time(process.pid))
        os.kill(process.pid, signal.SIGSTOP)
        failures = []
        failure = Failure(SILENT, 1, "b")
        Watchdog(members, 0, None, b"secret", 1.0, failures.append)._react(failure)
        survived = process.poll() is None
        Watchdog(members, 2, None, b"secret", 1.0, failures.append)._react(failure)
        ended = process.wait(50)
    assert survived and ended == -signal.SIGKILL and failures == [failure] * 2


def test_a_process_behind_a_firewall_is_named_and_not_watched(capsys):
    failures = []
    listener = listen()
    members = [Member.here(rank, listener.getsockname()[1]) for rank in range(2)]
    members[1] = replace(members[1], network="elsewhere", host="b")
    dog = Watchdog(members, 0, listener, b"secret", 0.5, failures.append, Trail())
    dog.start()
    until(lambda: dog._peers[1].left)
    dog.leave()
    assert failures == [] and "rank 1 on host b has not connected to rank 0" in capsys.readouterr().err


def test_a_stranger_is_not_admitted(capsys):
    failures = [[], []]
    first, second = two_watchdogs(60.0, failures, (b"secret", b"guess"))
    with socket.create_connection(("127.0.0.1", first._listener.getsockname()[1])) as stranger:
        stranger.sendall(pickle.dumps("not a challenge"))
        time.sleep(0.3)
        assert first._peers[1].connection is None and second._peers[0].connection is None
    first.leave()
    second.leave()


def test_a_broken_watchdog_says_so_and_is_not_taken_for_a_dead_process(capsys, monkeypatch):
    failures = [[], []]
    first, second = two_watchdogs(2.0, failures)
    connect(first, second)
    monkeypatch.setattr(second, "_judge", lambda *_: 1 / 0)
    second._thread.join(50.0)
    time.sleep(2.5)
    assert failures == [[], []] and first._thread.is_alive()
    assert "ZeroDivisionError" in capsys.readouterr().err
    first.leave()


class OneOfSome(Runner):
    """A rank in a thread."""

    def __init__(self, meeting, rank):
        self._meeting, self.process_rank = meeting, rank

    def gather(self, results):
        brought = self._meeting.exchange(self.process_rank, "gather", results)
        return [item for items in brought for item in items]

    def share(self, value):
        return self._meeting.exchange(self.process_rank, "share", value)[0]


def test_the_context_leaves_together_and_a_failure_inside_is_no_goodbye(capsys, monkeypatch):
    failures, left, leave = [[], [], []], [], Watchdog.leave

    def noted_leave(dog):
        left.append(dog)
        leave(dog)

    monkeypatch.setattr(Watchdog, "leave", noted_leave)

    def work(rank, meeting):
        with contextlib.suppress(ZeroDivisionError), watched(OneOfSome(meeting, rank), 30.0,
                                                             failures[rank].append) as dog:
            connect(dog)
            if rank == 1 and fails:
                dog.announce("divided by zero", 7)
                raise ZeroDivisionError
            if fails:
                dog._thread.join(25.0)
                raise ZeroDivisionError
        return dog

    for fails in (False, True):
        meeting = Meeting(3)
        with ThreadPoolExecutor(3) as pool:
            dogs = list(pool.map(lambda rank, meeting=meeting: work(rank, meeting), range(3)))
        assert set(left) == (set() if fails else set(dogs))
        assert fails or not any(dog._thread.is_alive() for dog in dogs)
        # Rank 1 may hear afterwards that the others have ended.
        assert [len(failures[rank]) for rank in (0, 2)] == ([1, 1] if fails else [0, 0])
        assert fails or not failures[1]
        left.clear()
    assert failures[0][0].code == 7 and "divided by zero" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", [None, 5.0])
def test_a_process_alone_is_not_watched(seconds):
    with watched(Runner(), seconds) as dog:
        assert dog is None


def test_heartbeats_cost_next_to_nothing():
    """The threads' own processor time, both of them together: below 2 % of a core."""
    trail = Trail()
    dogs = two_watchdogs(60.0, [[], []], trail=trail)
    connect(*dogs)
    used = []
    for _ in range(3):  # other threads of this process may work, too
        before = time.process_time()
        for step in range(150):
            trail.note("step", step, [list(range(300))])
            time.sleep(0.01)
        used.append(time.process_time() - before)
        if used[-1] < 0.15:
            break
    for dog in dogs:
        dog.leave()
    assert min(used) / 1.5 < 0.1, used


def test_a_process_knows_how_it_is_reached():
    me = Member.here(3, 1234)
    assert me.rank == 3 and me.port == 1234 and me.pid == os.getpid()
    assert me.addresses[-1] == socket.gethostname() == me.host
    assert me.addresses_from(replace(me, rank=4)) == ("127.0.0.1",)
    assert me.addresses_from(replace(me, network="elsewhere")) == me.addresses
    assert not any(address.startswith("127.") for address in interface_addresses())


def test_only_the_very_process_on_the_same_machine_is_killed():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        me = Member.here(0, 1)
        other = replace(me, rank=1, pid=process.pid, started=start_time(process.pid))
        os.kill(process.pid, signal.SIGSTOP)
        assert not replace(other, machine="elsewhere").kill_from(me)
        assert not replace(other, started="1").kill_from(me)
        assert not replace(other, started="").kill_from(me)
        assert process.poll() is None
        assert other.kill_from(me)
        assert process.wait(50) == -signal.SIGKILL
        assert not other.kill_from(me)
