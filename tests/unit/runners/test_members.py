"""The processes of a run: their addresses, and which may be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace

from open_seq2seq.runners.members import Member, interface_addresses, start_time


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
        assert process.wait(10) == -signal.SIGKILL
        assert not other.kill_from(me)
