"""A thread in each process of a run that monitors the heartbeats of other processes."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from open_seq2seq.runners.watchdog.failure import DIED, FAILED, SILENT, Failure
from open_seq2seq.runners.watchdog.links import Link, Message, Network, listen
from open_seq2seq.runners.watchdog.members import Member, neighbours
from open_seq2seq.utils.launcher import announce_by, end_all, say
from open_seq2seq.utils.trail import TRAIL, Trail

if TYPE_CHECKING:
    from open_seq2seq.runners.runner import Runner

# Seconds between two checks by the thread; a process reports what it is working on at most this often.
_TICK_SECONDS = 0.1
_HEARTBEAT_SECONDS = 1.0  # longest time between two heartbeats
# Seconds that each process waits for the one before it in the queue (see ``_turn``) to print the message. From position
# _MOST_TURNS on, all wait equally long.
_TURN_SECONDS = 0.5
_MOST_TURNS = 8
_SEND_SECONDS = 1.0  # longest time for which a message is waited for to be sent

OnFailure = Callable[[Failure], None]


def end_here(failure: Failure) -> None:
    """Ends this process: the default reaction to a failure of another process."""
    end_all(failure.code)


class Watchdog:
    """A thread that receives the heartbeats of neighbouring processes and sends this one's.

    A process that ends normally first sends a goodbye. A neighbour whose connection closes without one has died; a
    neighbour that sends no heartbeat for too long is stopped, stuck or disconnected. Either failure is reported to all
    processes. One of them prints a message: rank 0, or, if rank 0 failed or does not print, a neighbour of the failed
    rank, lowest rank first. Each process then kills the silent process if both run on the same machine, and calls
    ``on_failure``.

    The thread sends heartbeats independently of the main thread. If this thread could not run for some time (a
    suspended machine, a long call that holds Python's GIL), only a quarter of ``seconds`` at most of this time counts
    as silence of the other processes.

    Args:
      members: all processes of the run, by rank.
      rank: rank of this process.
      listener: the listening socket whose port is in this process's entry of ``members``.
      token: a secret that all processes of the run know.
      seconds: time without a heartbeat that counts as a failure, in seconds.
      on_failure: called once, in the thread, after the first failure of any other process.
      goes_on: whether the other processes continue without a rank that died or is silent; the message is then a
        warning.
      trail: records what this process is working on.
    """

    def __init__(self, members: list[Member], rank: int, listener: Any, token: str, seconds: float,
                 on_failure: OnFailure = end_here, trail: Trail = TRAIL, goes_on: bool = False) -> None:
        self._members, self._rank, self._seconds, self._goes_on = members, rank, seconds, goes_on
        self._on_failure, self._trail = on_failure, trail
        self._network = Network(listener, members, rank, token)
        self._places = dict.fromkeys(range(len(members)), "")
        self._tick = min(_TICK_SECONDS, seconds / 10)
        self._heartbeat = min(_HEARTBEAT_SECONDS, seconds / 5)
        self._next_heartbeat, self._told = 0.0, (-1, 0)
        self._missed = 0.0
        self._failure: Failure | None = None
        self._speak_at = float("inf")
        self._own: Failure | None = None
        self._own_is_told = threading.Event()
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._forget: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Starts to watch other processes and to report this process's errors to them (``launcher.announce``)."""
        self._thread.start()
        self._forget = announce_by(self.announce)

    def announce(self, problem: str, code: int) -> None:
        """Reports to the others that this process ends because of its own error, which it has already printed.

        Args:
          problem: the error as a sentence.
          code: the exit code.
        """
        me = self._members[self._rank]
        self._own = Failure(FAILED, me.rank, me.host, self._trail.last, problem, code, told=True)
        self._own_is_told.wait(_SEND_SECONDS)

    def leave(self) -> None:
        """Says goodbye, so that other processes do not treat the end of this one as a failure, and stops watching."""
        self._forget()
        self._leaving.set()
        self._thread.join(_SEND_SECONDS + 10 * self._tick)

    def _run(self) -> None:
        try:
            if self._watch():
                self._network.broadcast({"bye": True})
        except Exception:  # without this goodbye, the others would report that this process has died
            self._network.broadcast({"bye": True})
            say(f"WARNING: the watchdog of rank {self._rank} stopped: {traceback.format_exc()}")
        finally:
            self._network.flush(_SEND_SECONDS)
            self._network.close()

    def _watch(self) -> bool:
        """Watches until this process leaves or another one fails; returns True if this process leaves."""
        last = time.monotonic()
        while not self._leaving.is_set():
            news = self._network.poll(self._tick)
            now = time.monotonic()
            # If this thread was delayed, messages sent in the meantime have just been read.
            elapsed, last = min(now - last, self._seconds / 4), now
            self._send_heartbeat(now)
            for link, message in news:
                self._hear(link, message, now)
            if self._own is not None and not self._own_is_told.is_set():
                self._tell(self._own)
                self._own_is_told.set()
            if self._failure is None and self._own is None:
                self._judge(elapsed, now)
            if self._failure is not None and self._act(now):
                return False
        return True

    def _send_heartbeat(self, now: float) -> None:
        news = self._trail.count, len(self._network.links)
        if news != self._told or now >= self._next_heartbeat:
            self._told, self._next_heartbeat = news, now + self._heartbeat
            self._network.broadcast({"at": self._trail.last})

    def _hear(self, link: Link, message: Message, now: float) -> None:
        if "at" in message and link.rank is not None:
            self._places[link.rank] = str(message["at"])
        if "bye" in message:
            link.left = True
        if "failure" in message:
            with contextlib.suppress(TypeError):
                self._learn(Failure.from_message(message["failure"]), now)

    def _judge(self, elapsed: float, now: float) -> None:
        for rank, link in self._network.links.items():
            link.silence += elapsed
            if link.left:
                continue
            if link.closed:
                self._learn(self._about(rank, DIED), now)
            elif link.silence > self._seconds:
                self._learn(self._about(rank, SILENT), now)
        self._judge_missing(elapsed, now)

    def _judge_missing(self, elapsed: float, now: float) -> None:
        """Handles neighbours that have never connected.

        They have died, are stuck or, if they are on another network, may be behind a firewall.
        """
        self._missed += elapsed
        for rank in self._network.missing:
            if self._members[rank].is_gone_for(self._members[self._rank]):
                self._learn(self._about(rank, DIED), now)
        if not self._network.missing or self._missed < self._seconds:
            return
        me = self._members[self._rank]
        for rank in sorted(self._network.missing):
            other = self._members[rank]
            if other.network == me.network:
                self._learn(self._about(rank, SILENT), now)
            else:
                called, caller = sorted((me, other), key=lambda member: member.rank)
                say(f"WARNING: rank {caller.rank} on host {caller.host} has not connected to rank {called.rank} on "
                    f"host {called.host}, port {called.port} at {', '.join(called.addresses)}: neither will notice at "
                    "once if the other ends. Check that no firewall separates the hosts.\n")
        self._network.missing.clear()

    def _about(self, rank: int, kind: str) -> Failure:
        return Failure(kind, rank, self._members[rank].host, self._places[rank], seconds=self._seconds)

    def _learn(self, failure: Failure, now: float) -> None:
        """Stores and forwards the first failure, which is taken as the cause of all later ones.

        A later report replaces it only if it says that a process has already printed a message.
        """
        if self._failure is None:
            self._failure = failure
            self._network.broadcast({"failure": failure.message()})
            self._speak_at = now + self._turn(failure.rank) * _TURN_SECONDS
        elif failure.told and not self._failure.told:
            self._tell(failure)
            self._failure = failure

    def _tell(self, failure: Failure) -> None:
        self._network.broadcast({"failure": failure.message()})
        self._network.flush(_SEND_SECONDS)

    def _turn(self, failed: int) -> int:
        """Returns this process's position in the queue of processes that may print the message."""
        around = set(neighbours(failed, len(self._members)))
        line = [rank for rank in (0, *sorted(around - {0})) if rank != failed]
        return min(line.index(self._rank) if self._rank in line else len(line), _MOST_TURNS)

    def _act(self, now: float) -> bool:
        """Reacts to the failure if this process has to print the message now, or another one has printed it.

        Returns:
          Whether this process has reacted; if not, call this again at the next check.
        """
        failure = self._failure
        assert failure is not None
        if self._own is not None:  # the main thread has printed the error and ends this process
            return False
        if not failure.told and now < self._speak_at:
            return False
        if not failure.told or (self._rank == 0 and failure.kind == FAILED):
            survived = self._goes_on and failure.kind != FAILED
            say(f"{'WARNING' if survived else 'Error'}: {failure.sentence()}\n")
        self._tell(dataclasses.replace(failure, told=True))
        if failure.kind == SILENT:
            self._members[failure.rank].kill_from(self._members[self._rank])
        if self._rank > 0 and failure.told:
            time.sleep(_TURN_SECONDS)  # lets the process that prints finish before the launcher ends it
        self._on_failure(failure)
        return True


@contextlib.contextmanager
def watched(runner: Runner, seconds: float | None, on_failure: OnFailure = end_here,
            goes_on: bool = False) -> Iterator[Watchdog | None]:
    """Context manager in which the processes of a runner watch one another; all processes must enter it.

    At the end of the ``with`` block, each process waits, still watching the others, until all have reached it. After an
    exception the watchdog keeps running, so that it can report the error to the others (``launcher.announce``).

    Args:
      runner: only ``gather``, ``share`` and ``process_rank`` are used.
      seconds: time without a heartbeat that counts as a failure, in seconds; None for no watchdog.
      on_failure: called in the watchdog's thread when another process fails.
      goes_on: whether the other processes continue without a lost rank.

    Yields:
      The watchdog; None if there is none, because ``seconds`` is None or the run has only one process.
    """
    if seconds is None or len(runner.gather([runner.process_rank])) == 1:
        yield None
        return
    listener = listen()
    members = runner.gather([Member.here(runner.process_rank, listener.getsockname()[1])])
    token = runner.share(secrets.token_hex())
    watchdog = Watchdog(members, runner.process_rank, listener, token, seconds, on_failure, goes_on=goes_on)
    watchdog.start()
    yield watchdog
    runner.gather([])
    watchdog.leave()
