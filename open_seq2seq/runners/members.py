"""The processes of a run: who they are, on which machine, and how they are reached."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

_SIOCGIFADDR = 0x8915
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Member:
    """One process of a run.

    Attributes:
      rank: its number.
      host: name of its host.
      pid: its process id, which means something on the same machine only.
      started: when it started, in the kernel's ticks: tells it from a later process of the same id.
      machine: equal for processes that can send each other signals.
      network: equal for processes that reach each other by the loopback address.
      addresses: where others may reach it, in the order to be tried.
      port: where it listens.
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
        """Returns what this process is."""
        host, pid = socket.gethostname(), os.getpid()
        return cls(rank, host, pid, start_time(pid), _space("pid"), _space("net"),
                   (*interface_addresses(), host), port)

    def addresses_from(self, other: Member) -> tuple[str, ...]:
        """Returns the addresses by which another process may reach this one."""
        return (_LOOPBACK,) if self.network == other.network else self.addresses

    def is_gone_for(self, other: Member) -> bool:
        """Whether the other process, which calls, can see that this one has ended."""
        return self.machine == other.machine and bool(self.started) and start_time(self.pid) != self.started

    def kill_from(self, other: Member) -> bool:
        """Kills this process, stopped or not, if the other one, which calls, runs on the same machine."""
        if self.machine != other.machine or not self.started or start_time(self.pid) != self.started:
            return False
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            return True
        return False


def start_time(pid: int) -> str:
    """Returns when a process started, in ticks since boot; empty where there is no such process, or only its shell."""
    try:
        # The command's name, in brackets, may hold spaces.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return ""


def _space(kind: str) -> str:
    """Names one of this process's namespaces, unlike any on another machine."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {os.readlink(f'/proc/self/ns/{kind}')}"
    except OSError:
        return f"{socket.gethostname()} {kind}"


def interface_addresses() -> list[str]:
    """Returns the IPv4 addresses of this host's network interfaces, without the loopback."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an address
                answer = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found.append(socket.inet_ntoa(answer[20:24]))
    return [address for address in dict.fromkeys(found) if not address.startswith("127.")]


def neighbours(rank: int, size: int) -> list[int]:
    """Returns the ranks that one is connected with: those at distance 1, 2, 4, 8, … on a ring.

    Every rank is then watched by 2 log2(size) others (all others up to five ranks), and news reach all
    ranks within log2(size) hops.
    """
    steps = [1 << power for power in range(size.bit_length()) if 1 << power < size]
    return sorted({(rank + sign * step) % size for step in steps for sign in (1, -1)} - {rank})
