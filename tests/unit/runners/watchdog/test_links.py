"""Members, the graph of neighbours, and the connections between them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from open_seq2seq.runners.watchdog.links import Network, listen
from open_seq2seq.runners.watchdog.members import Member, interface_addresses, neighbours, start_time


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8, 13, 64, 1000, 1024])
def test_neighbours_are_mutual_few_and_reach_everybody_soon(size):
    graph = {rank: neighbours(rank, size) for rank in range(size)}
    for rank, others in graph.items():
        assert rank not in others and all(rank in graph[other] for other in others)
        assert len(others) <= 2 * size.bit_length()
    if size <= 5:
        assert all(len(others) == size - 1 for others in graph.values())
    reached, hops = {0}, 0
    while len(reached) < size:
        reached |= {other for rank in reached for other in graph[rank]}
        hops += 1
    assert hops <= size.bit_length()


@pytest.mark.parametrize("size", [6, 64])
def test_the_news_go_round_two_dead_ranks(size):
    dead = {1, size // 2}
    reached = {0}
    for _ in range(size):
        reached |= {other for rank in reached for other in neighbours(rank, size) if other not in dead}
    assert reached == set(range(size)) - dead


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


def networks(size, tokens=None):
    listeners = [listen() for _ in range(size)]
    members = [Member.here(rank, listener.getsockname()[1]) for rank, listener in enumerate(listeners)]
    return [Network(listener, members, rank, (tokens or ["secret"] * size)[rank])
            for rank, listener in enumerate(listeners)]


def poll_all(all_networks, until, seconds=5.0):
    """Polls networks in turn until a condition holds: what each has heard."""
    heard = [[] for _ in all_networks]
    end = time.monotonic() + seconds
    while not until(heard) and time.monotonic() < end:
        for network, news in zip(all_networks, heard, strict=True):
            news += [(link.rank, message) for link, message in network.poll(0.001)]
    return heard


def test_messages_arrive_in_order_and_the_end_is_seen():
    first, second, third = three = networks(3)
    poll_all(three, lambda _: not any(network.missing for network in three))
    assert sorted(first.links) == [1, 2] and sorted(second.links) == [0, 2]
    for number in range(100):
        first.broadcast({"number": number, "text": "x" * 1000})
    heard = poll_all(three, lambda heard: len(heard[1]) == len(heard[2]) == 100)
    assert [message["number"] for _, message in heard[1]] == list(range(100))
    first.broadcast({"last": True})
    first.flush(1.0)
    first.close()
    heard = poll_all([second, third], lambda _: second.links[0].closed and third.links[0].closed)
    assert heard == [[(0, {"last": True})]] * 2
    assert not second.links[2].closed
    second.close()
    third.close()


def test_a_stranger_is_not_admitted():
    first, second = networks(2, ["secret", "guess"])
    with socket.create_connection(("127.0.0.1", first._listener.getsockname()[1])) as stranger:
        stranger.sendall(b'{"rank": 1, "proof": "x"}\n{"failure": {}}\n')
        assert poll_all([first, second], lambda _: False, 0.3) == [[], []]
        assert stranger.recv(1000) == b""  # the listener shows nobody its proof who has none
    assert first.missing == {1} and second.missing == {0}
    first.close()
    second.close()


def test_one_that_does_not_read_holds_nobody_up():
    first, second = networks(2)
    poll_all([first, second], lambda _: not first.missing and not second.missing)
    began = time.monotonic()
    for _ in range(3000):
        first.broadcast({"text": "x" * 10000})
    assert time.monotonic() - began < 5.0
    heard = []
    while not (messages := poll_all([first, second], lambda heard: bool(heard[1]), 0.5)[1]) == []:
        heard += messages
    assert heard and all(message == {"text": "x" * 10000} for _, message in heard)
    assert not second.links[0].closed
    first.close()
    second.close()
