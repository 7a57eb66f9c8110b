"""The processes of a run: their ids, machines and addresses."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

_SIOCGIFADDR = 0x8915  # Linux: the ioctl request for the IPv4 address of a network interface
_LOOPBACK = "127.0.0.1"


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
      port: the port on which the process listens.
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
          port: the port on which it listens.
        """
        host, pid = socket.gethostname(), os.getpid()
        return cls(rank, host, pid, start_time(pid), _space("pid"), _space("net"),
                   (*interface_addresses(), host), port)

    def addresses_from(self, other: Member) -> tuple[str, ...]:
        """Returns the addresses at which the process ``other`` can reach this one."""
        return (_LOOPBACK,) if self.network == other.network else self.addresses

    def is_gone_for(self, other: Member) -> bool:
        """Returns whether the calling process, ``other``, can see that this process has ended."""
        return self.machine == other.machine and bool(self.started) and start_time(self.pid) != self.started

    def kill_from(self, other: Member) -> bool:
        """Kills this process if ``other``, the calling process, is on its machine; returns whether it was killed."""
        if self.machine != other.machine or not self.started or start_time(self.pid) != self.started:
            return False
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
            return True
        return False


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
    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an address
                # In the kernel's struct ifreq, the name has at most 15 bytes, and the address is in bytes 20 to 23.
                answer = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                addresses.append(socket.inet_ntoa(answer[20:24]))
    return [address for address in dict.fromkeys(addresses) if not address.startswith("127.")]
