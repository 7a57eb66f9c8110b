"""Two hosts on one machine: a network namespace each, joined by a virtual cable, with an ``ssh`` between them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TOOLS = {"ip": "iproute2", "unshare": "util-linux", "mount": "mount"}  # program → Debian's package

# As if logged in on a host: its network, its name, and a list of hosts that knows both.
LOGIN = '''#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts --mount sh -c \\
  'hostname "$0" && mount --bind {root}/hosts /etc/hosts && exec "$@"' "$host" "$@"
'''

# Like the real one it takes options before and after the host, and gives the command none of the caller's variables.
SSH = '''#!/bin/sh
host=
while :; do
  case $1 in
    -[oplFi]) shift 2 ;;
    -*) shift ;;
    *) [ -z "$host" ] || break; host=$1; shift ;;
  esac
done
exec env -i HOME="$HOME" PATH="{root}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" {root}/login "$host" sh -c "$*"
'''


def why_not() -> str | None:
    """Returns why two hosts cannot be made here, or None."""
    if os.getuid() != 0:
        return "network namespaces need root"
    for program, package in TOOLS.items():
        if shutil.which(program) is None:
            return f"there is no {program}: on Debian apt-get install {package}"
    name = f"probe{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if tried.returncode == 0:
        tried = subprocess.run(["ip", "netns", "exec", name, "unshare", "--uts", "--mount", "hostname", name],
                               capture_output=True, text=True, check=False)
        subprocess.run(["ip", "netns", "del", name], check=True)
    return None if tried.returncode == 0 else f"network namespaces are not permitted here: {tried.stderr.strip()}"


class Hosts:
    """Two hosts that share the file system.

    Attributes:
      names: what they are called, and what their namespaces are called.
      root: folder of the programs ``login`` and ``ssh``.
    """

    def __init__(self, root: Path, names: tuple[str, str]) -> None:
        self.root, self.names = root, names

    def login(self, number: int, *command: str) -> list[str]:
        """Returns what runs a command on a host."""
        return [str(self.root / "login"), self.names[number], *command]

    def sent(self, number: int) -> int:
        """Returns how many bytes have left a host."""
        shown = subprocess.run(["ip", "-n", self.names[number], "-s", "-j", "link", "show", "dev", "cable"],
                               stdout=subprocess.PIPE, check=True).stdout
        return json.loads(shown)[0]["stats64"]["tx"]["bytes"]


@contextmanager
def two_hosts(root: Path) -> Iterator[Hosts]:
    """Makes the hosts, and removes them whatever happens; what still runs there is killed."""
    root.mkdir(parents=True, exist_ok=True)
    names = (f"host-a-{os.getpid()}", f"host-b-{os.getpid()}")
    addresses = ("10.213.7.1", "10.213.7.2")
    (root / "hosts").write_text("127.0.0.1 localhost\n" + "".join(
        f"{address} {name}\n" for address, name in zip(addresses, names, strict=True)))
    for program, text in (("login", LOGIN), ("ssh", SSH)):
        (root / program).write_text(text.format(root=root))
        (root / program).chmod(0o755)
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        for name, address in zip(names, addresses, strict=True):
            _ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "cable", "up")
        yield Hosts(root, names)
    finally:
        for name in names:
            _remove(name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _remove(name: str) -> None:
    processes = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
    for process in processes.split():
        subprocess.run(["kill", "-9", process], check=False)
    subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)
