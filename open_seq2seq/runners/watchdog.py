"""Heartbeats between the processes of a run, so that none waits forever for a lost process.

Launchers and communication libraries notice a process that has died, but not one that is stopped or stuck, and they
cannot distinguish it from one that waits for its data; see docs/distributed.md.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import struct
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import TYPE_CHECKING, Any

from open_seq2seq.utils.launcher import announce_by, end_all, say
from open_seq2seq.utils.posix import fcntl
from open_seq2seq.utils.trail import TRAIL, Trail

if TYPE_CHECKING:
    from open_seq2seq.runners.runner import Runner

_SIOCGIFADDR = 0x8915  # Linux: the ioctl request for the IPv4 address of a network interface
_LOOPBACK = "127.0.0.1"
DIED, SILENT, FAILED = "died", "silent", "failed"

# Seconds between two checks by the thread, and seconds per process, so that checks cost rank 0 little in large runs. A
# process reports what it is working on at most this often.
_TICK_SECONDS = 0.1
_TICK_SECONDS_OF_RANK = 0.002
_HEARTBEAT_SECONDS = 1.0  # longest time between two heartbeats
_CONNECT_SECONDS = 5.0  # longest time of an attempt to connect
# When rank 0 is lost, seconds that the other ranks leave rank 1 to print this: the end of a rank, or of rank 0, may end
# rank 1 or change what it sees.
_TURN_SECONDS = 1.0
_LEAVE_SECONDS = 2.0  # longest time that the end of the thread is waited for
_SECRET_BYTES = 32
# No heartbeats are sent to a process that has been silent for so long, because its buffer may be full.
_UNREAD_SECONDS = 30.0


@dataclass(frozen=True)
class Member:
    """One process of a run.

    Attributes:
      rank: rank of the process.
      host: name of the host.
      pid: process id on the host.
      started: start time in ticks since boot, as text, which distinguishes the process from a later one with the same
        id; empty if it is unknown.
      machine: identifier that is equal for processes that can send signals to each other.
      network: identifier that is equal for processes that reach each other at the loopback address.
      addresses: addresses of the process, in the order in which others try them.
      port: the port on which the process listens; 0 if it does not.
    """

    rank: int
    host: str
    pid: int
    started: str
    machine: str
    network: str
    addresses: tuple[str, ...]
    port: int

    @classmethod
    def here(cls, rank: int, port: int) -> Member:
        """Returns the entry of the calling process.

        Args:
          rank: rank of the process.
          port: the port on which it listens, or 0.
        """
        host, pid = socket.gethostname(), os.getpid()
        return cls(rank, host, pid, start_time(pid), _space("pid"), _space("net"),
                   (*interface_addresses(), host), port)

    def addresses_from(self, other: Member) -> tuple[str, ...]:
        """Returns the addresses at which the process ``other`` can reach this one."""
        return (_LOOPBACK,) if self.network == other.network else self.addresses

    def kill_from(self, other: Member) -> bool:
        """Kills this process if ``other``, the calling process, is on its machine; returns whether it was killed."""
        if self.machine != other.machine or not self.started or start_time(self.pid) != self.started:
            return False
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            return True
        return False


@dataclass(frozen=True)
class Failure:
    """The failure of a process.

    Attributes:
      kind: ``died`` (the connection closed although the process had not announced its end), ``silent`` (no heartbeat
        for too long), or ``failed`` (the process reported its error).
      rank: rank of the process that failed.
      host: host of the process.
      place: what the process was last working on, such as ``step 7, on examples 3, 17``; may be empty.
      problem: error message of the process, if ``kind`` is ``failed``.
      code: exit code with which all processes end.
      seconds: time without a heartbeat that counts as a failure, in seconds; stated in the message of a silent process.
    """

    kind: str
    rank: int
    host: str
    place: str = ""
    problem: str = ""
    code: int = 1
    seconds: float = 0.0

    def sentence(self) -> str:
        """Returns the message for the user."""
        who = f"rank {self.rank} on host {self.host}"
        if self.kind == FAILED:
            at = f" at {self.place}" if self.place else ""
            return f"stopped because {who} ended with an error{at}: {self.problem}"
        place = f"Its last heartbeat came at {self.place}." if self.place else "It had not begun its first step."
        if self.kind == DIED:
            return (f"{who} died. {place} It crashed or was killed: see its own output above for the cause, and the "
                    "kernel's log on that host (dmesg) for whether it ran out of memory.")
        return (f"{who} has sent no heartbeat for {self.seconds:.0f} s. {place} It is stopped or stuck, or its host "
                "cannot be reached. 'watchdog_seconds' sets how long the others wait.")


OnFailure = Callable[[Failure], None]


def end_here(failure: Failure) -> None:
    """Ends this process: the default reaction to a failure of another process."""
    end_all(failure.code)


@dataclass
class _Peer:
    """A process that this one exchanges heartbeats with.

    Attributes:
      member: the process.
      connection: the connection; None until there is one.
      silence: seconds since its last message, or since the start.
      place: what it was last working on.
      left: whether it has announced its end, or cannot be reached.
    """

    member: Member
    connection: Connection | None = None
    silence: float = 0.0
    place: str = ""
    left: bool = False
    sending: threading.Lock = field(default_factory=threading.Lock)

    def send(self, message: Any) -> None:
        """Sends a message, unless there is no connection; a connection that has ended is noticed when it is read."""
        if self.connection is not None:
            with self.sending, contextlib.suppress(OSError):
                self.connection.send(message)


class Watchdog:
    """A thread that exchanges heartbeats: rank 0 with all other processes, each of these with rank 0.

    A process that ends normally announces its end. A process whose connection closes without this has died; one that
    sends no heartbeat for too long is stopped, stuck or disconnected. Rank 0 prints the failure of another process and
    reports it to the others; if rank 0 itself is lost, rank 1 prints that. Each process then kills the silent process
    if both run on the same machine, and calls ``on_failure``.

    The thread sends heartbeats independently of the main thread. If this thread could not run for some time (a
    suspended machine, a long call that holds Python's GIL), only a quarter of ``seconds`` at most of this time counts
    as silence of the other processes.

    Args:
      members: all processes of the run, by rank.
      rank: rank of this process.
      listener: on rank 0, the listening socket whose port is in its entry of ``members``; otherwise None.
      secret: a key by which the processes of the run recognise one another.
      seconds: time without a heartbeat that counts as a failure, in seconds.
      on_failure: called once, in the thread, after the first failure of any other process.
      goes_on: whether the other processes continue without a rank that died or is silent; the message is then a
        warning.
      trail: records what this process is working on.
    """

    def __init__(self, members: list[Member], rank: int, listener: socket.socket | None, secret: bytes, seconds: float,
                 on_failure: OnFailure = end_here, trail: Trail = TRAIL, goes_on: bool = False) -> None:
        self._members, self._member = members, members[rank]
        self._listener, self._secret = listener, secret
        self._seconds, self._on_failure, self._trail, self._goes_on = seconds, on_failure, trail, goes_on
        self._peers = {one.rank: _Peer(one) for one in (members[1:] if rank == 0 else members[:1])}
        self._tick = min(max(_TICK_SECONDS, _TICK_SECONDS_OF_RANK * len(members)), seconds / 10)
        self._pause = min(_HEARTBEAT_SECONDS, seconds / 5)
        self._next_heartbeat, self._reported = 0.0, -1
        self._failed = False
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Starts to watch other processes and to report this process's errors to them (``launcher.announce``)."""
        self._thread.start()
        threading.Thread(target=self._accept if self._member.rank == 0 else self._connect, daemon=True).start()
        announce_by(self.announce)

    def announce(self, problem: str, code: int) -> None:
        """Reports to the others that this process ends because of its own error, which it has already printed.

        Args:
          problem: the error as a sentence.
          code: the exit code.
        """
        self._failed = True
        self._broadcast(Failure(FAILED, self._member.rank, self._member.host, self._trail.last, problem, code))

    def leave(self) -> None:
        """Announces this process's end, so that others do not treat it as a failure, and stops watching."""
        announce_by(None)
        self._leaving.set()
        self._thread.join(_LEAVE_SECONDS)

    def _accept(self) -> None:
        """Waits for connections until the listener is closed."""
        assert self._listener is not None
        with contextlib.suppress(OSError):
            while True:
                connection = self._listener.accept()[0]
                threading.Thread(target=self._admit, args=(connection,), daemon=True).start()

    def _connect(self) -> None:
        """Connects to rank 0, at any of its addresses, until this succeeds or the watchdog stops."""
        hub = self._peers[0].member
        while not self._leaving.wait(self._tick):
            for address in hub.addresses_from(self._member):
                with contextlib.suppress(OSError):
                    if self._admit(socket.create_connection((address, hub.port), _CONNECT_SECONDS)):
                        return

    def _admit(self, stream: socket.socket) -> bool:
        """Adds a connection if the process at its other end has the run's secret; returns whether it has."""
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.settimeout(None)
        connection = Connection(stream.detach())
        try:
            if self._member.rank == 0:
                deliver_challenge(connection, self._secret)
                answer_challenge(connection, self._secret)
                rank = connection.recv()
            else:
                answer_challenge(connection, self._secret)
                deliver_challenge(connection, self._secret)
                connection.send(self._member.rank)
                rank = 0
            connection.send(self._trail.last)
            self._peers[rank].connection = connection
        except (AuthenticationError, OSError, EOFError, KeyError):
            connection.close()
            return False
        return True

    def _run(self) -> None:
        try:
            self._watch()
        except Exception:
            say(f"WARNING: the watchdog of rank {self._member.rank} stopped: {traceback.format_exc()}")
            self._broadcast(None)  # without it, the others would report that this process has died
        finally:
            if self._listener is not None:
                self._listener.shutdown(socket.SHUT_RDWR)  # ends ``accept``
                self._listener.close()
            for peer in self._peers.values():
                if peer.connection is not None:
                    peer.connection.close()

    def _watch(self) -> None:
        """Watches until this process leaves or another one fails."""
        last = time.monotonic()
        while not self._leaving.wait(self._tick):
            failure = self._receive()
            now = time.monotonic()
            # If this thread was delayed, messages sent in the meantime have just been read.
            elapsed, last = min(now - last, self._seconds / 4), now
            if self._trail.count != self._reported or now >= self._next_heartbeat:
                self._reported, self._next_heartbeat = self._trail.count, now + self._pause
                for peer in self._peers.values():
                    if peer.silence < _UNREAD_SECONDS:
                        peer.send(self._trail.last)
            failure = failure or self._judge(elapsed)
            if failure is not None and not self._failed:
                return self._react(failure)
        self._broadcast(None)

    def _receive(self) -> Failure | None:
        """Reads new messages; returns the failure that one reports, or that the end of a connection shows."""
        for peer in self._peers.values():
            try:
                while peer.connection is not None and not peer.left and peer.connection.poll():
                    peer.silence = 0.0
                    message = peer.connection.recv()
                    if isinstance(message, Failure):
                        return message
                    peer.left = message is None
                    peer.place = message or peer.place
            except (OSError, EOFError):
                return self._about(peer, DIED)
        return None

    def _judge(self, elapsed: float) -> Failure | None:
        """Returns the failure of a process that has been silent for too long."""
        for peer in self._peers.values():
            peer.silence += elapsed
            if peer.left:
                continue
            if peer.silence > self._seconds:
                if peer.connection is not None or peer.member.network == self._member.network:
                    return self._about(peer, SILENT)
                peer.left = True
                me, other = self._member, peer.member
                if me.rank == 0:
                    say(f"WARNING: rank {other.rank} on host {other.host} has not connected to rank 0 on host "
                        f"{me.host}, port {me.port} at {', '.join(me.addresses)}: the others will not notice at once "
                        "if it ends. Check that no firewall separates the hosts.\n")
        return None

    def _about(self, peer: _Peer, kind: str) -> Failure:
        return Failure(kind, peer.member.rank, peer.member.host, peer.place, seconds=self._seconds)

    def _broadcast(self, message: Any) -> None:
        for peer in self._peers.values():
            peer.send(message)

    def _react(self, failure: Failure) -> None:
        """Prints the failure if this process has to, reports it to the others, and calls ``on_failure``."""
        hub_lost = failure.rank == 0
        if self._member.rank == (1 if hub_lost else 0) and not (hub_lost and failure.kind == FAILED):
            survived = self._goes_on and failure.kind != FAILED
            say(f"{'WARNING' if survived else 'Error'}: {failure.sentence()}\n")
        if self._member.rank == 0:
            self._broadcast(failure)
        elif self._member.rank > 1 and hub_lost:
            time.sleep(_TURN_SECONDS)
        if failure.kind == SILENT:
            self._members[failure.rank].kill_from(self._member)
        self._on_failure(failure)


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
    listener = listen() if runner.process_rank == 0 else None
    members = runner.gather([Member.here(runner.process_rank, listener.getsockname()[1] if listener else 0)])
    secret = runner.share(secrets.token_bytes(_SECRET_BYTES))
    watchdog = Watchdog(members, runner.process_rank, listener, secret, seconds, on_failure, goes_on=goes_on)
    watchdog.start()
    yield watchdog
    runner.gather([])
    watchdog.leave()


def listen() -> socket.socket:
    """Returns a socket that listens on a free port at all of the host's addresses."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # IPv6 may be disabled
            return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    return socket.create_server(("", 0), backlog=1024)


def start_time(pid: int) -> str:
    """Returns a process's start time in ticks since boot; empty if the process has ended or is a zombie."""
    try:
        # The fields are separated by spaces, but the second, the command's name in brackets, may contain spaces itself.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return ""


def _space(kind: str) -> str:
    """Returns an identifier, unique across machines, of one of this process's Linux namespaces: ``pid`` or ``net``."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {os.readlink(f'/proc/self/ns/{kind}')}"
    except OSError:
        return f"{socket.gethostname()} {kind}"


def interface_addresses() -> list[str]:
    """Returns the IPv4 addresses of this host's network interfaces, except loopback addresses."""
    addresses: list[str] = []
    if fcntl is None:
        return addresses
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an address
                # In the kernel's struct ifreq, the name has at most 15 bytes, and the address is in bytes 20 to 23.
                answer = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                addresses.append(socket.inet_ntoa(answer[20:24]))
    return [address for address in dict.fromkeys(addresses) if not address.startswith("127.")]
