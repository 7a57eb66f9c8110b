"""Who belongs to an elastic job, and which errors come from the others: over a stand-in for Horovod."""

from __future__ import annotations

import os
import socket

import pytest
import tensorflow as tf

from open_seq2seq.runners.horovod import elastic
from open_seq2seq.runners.horovod.elastic import Connections, Membership, RanksLost, join
from open_seq2seq.runners.watchdog import DIED, FAILED, SILENT, Failure
from open_seq2seq.utils.errors import ConfigError, DataError, UserError

SHUT_DOWN = "Horovod has been shut down. This was caused by an exception on one of the ranks."


class Notifications:
    def __init__(self) -> None:
        self.listeners: list[Membership] = []

    def init(self) -> None:
        """Nothing to listen at."""

    def register_listener(self, listener: Membership) -> None:
        self.listeners.append(listener)


class LonelyHorovod:
    """Horovod with one process, which can fail to start."""

    Sum = "sum"

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.starts, self.ends = error, 0, 0

    def init(self) -> None:
        self.starts += 1
        if self.error is not None:
            raise self.error

    def shutdown(self) -> None:
        self.ends += 1

    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return 1

    local_rank, local_size = rank, size

    def allgather_object(self, value, name):
        return [value]


@pytest.fixture
def membership(monkeypatch) -> Membership:
    monkeypatch.setattr(elastic, "_VERDICT_SECONDS", 0.05)
    monkeypatch.setattr(elastic, "_DOUBTFUL_SECONDS", 0.05)
    return Membership(LonelyHorovod(), Notifications())


@pytest.mark.parametrize("error", [
    tf.errors.UnknownError(None, None, f"{{{{node any/name/at/all}}}} {SHUT_DOWN}"),
    tf.errors.AbortedError(None, None, SHUT_DOWN),
    tf.errors.UnknownError(None, None, "[third_party/gloo/transport/tcp/pair.cc:598] Connection closed by peer"),
    type("HorovodInternalError", (RuntimeError,), {})("an operation failed"),
])
def test_errors_of_connections_are_losses_whatever_the_operation(membership, error):
    assert isinstance(membership.judge(error), RanksLost)


@pytest.mark.parametrize("error", [
    DataError("train.src:5 cannot be read"), MemoryError(), RuntimeError("a bug in a hook"), UserError("a mistake"),
    tf.errors.InvalidArgumentError(None, None, "indices[0] = 9 is not in [0, 9)"),
    tf.errors.ResourceExhaustedError(None, None, "out of memory"),
    tf.errors.UnknownError(None, None, "ValueError: what a py_function of the user raised"),
])
def test_errors_of_this_process_are_its_own(membership, error):
    assert membership.judge(error) is None


@pytest.mark.parametrize("kind", [DIED, SILENT])
def test_a_doubtful_error_is_a_loss_where_one_is_known(membership, kind):
    membership.on_failure(Failure(kind, 2, "b"))
    lost = membership.judge(tf.errors.CancelledError(None, None, "cancelled"))
    assert isinstance(lost, RanksLost) and "rank 2 on host b was lost" in str(lost)
    with pytest.raises(RanksLost, match="rank 2"):
        membership.raise_if_lost()
    assert membership.judge(DataError("bad")) is None


def test_an_error_of_another_process_ends_this_one(membership, monkeypatch):
    ended = []
    monkeypatch.setattr(elastic, "end_here", ended.append)
    failure = Failure(FAILED, 1, "b", problem="bad data", code=2)
    membership.on_failure(failure)
    assert ended == [failure]


def test_a_meeting_that_fails_is_a_loss(monkeypatch):
    failing = Membership(LonelyHorovod(ValueError("Horovod initialization failed.")), Notifications())
    with pytest.raises(RanksLost, match="Horovod initialization failed"):
        failing.meet()


def test_a_new_meeting_forgets_what_was_known(membership, monkeypatch):
    for name in ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setattr("open_seq2seq.runners.horovod.runner.take_share", lambda rank, ranks: 1)
    membership.on_hosts_updated(1.0, 1)
    membership.on_failure(Failure(DIED, 1, "b"))
    assert membership.changed
    runner = membership.meet()
    runner.check_ranks()
    assert not membership.changed and runner.world_size == 1
    assert os.environ["HOROVOD_RANK"] == "0" and os.environ["HOROVOD_SIZE"] == "1"


def connected(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    here = socket.create_connection(listener.getsockname())
    return here, listener.accept()[0]


def test_settings_that_horovod_cannot_start_with_again_are_taken_away(membership, monkeypatch):
    monkeypatch.setattr("open_seq2seq.runners.horovod.runner.take_share", lambda rank, ranks: 1)
    for name in elastic.UNUSABLE_SETTINGS:
        monkeypatch.setenv(name, "5")
    for name in ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_SIZE"):
        monkeypatch.setenv(name, "7")
    membership.meet()
    assert not set(elastic.UNUSABLE_SETTINGS) & set(os.environ)


def test_cut_ends_the_connections_noted_and_no_others():
    connections = Connections()
    with socket.create_server(("127.0.0.1", 0)) as other:
        earlier, other_end = connected(other)
        with connections.noted():
            listener = socket.create_server(("127.0.0.1", 0))
            here, there = connected(listener)
            given_back, _ = connected(other)
        number = given_back.fileno()
        given_back.close()
        later, third = connected(other)  # takes the number that has become free
        assert later.fileno() == number
        connections.cut()
        assert there.recv(1) == b"" and here.recv(1) == b"" and here.fileno() >= 0
        connections.cut()  # there is nothing left to cut
        earlier.send(b"x")
        later.send(b"y")
        assert other_end.recv(1) == b"x" and third.recv(1) == b"y"
        assert connected(listener)[1].fileno() >= 0  # what listened goes on listening
        listener.close()


def refusal(params, what="the mode train") -> str:
    with pytest.raises(UserError) as error:
        join({"use_horovod": True, "watchdog_seconds": 60.0, **params}, what)
    return str(error.value)


def test_what_cannot_be_elastic_is_refused(monkeypatch):
    for name in ("HOROVOD_ELASTIC", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert "not with the mode eval" in refusal({}, "the mode eval")
    assert "not with --benchmark" in refusal({}, "--benchmark")
    assert "add --use_horovod=True" in refusal({"use_horovod": False})
    assert "without an elastic launcher. Start it like this: horovodrun --gloo" in refusal({})
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert "started by mpiexec" in refusal({})
    monkeypatch.setenv("HOROVOD_ELASTIC", "1")
    assert "needs the watchdog" in refusal({"watchdog_seconds": None})
    with pytest.raises(ConfigError, match="on_divergence"):
        join({"use_horovod": True, "watchdog_seconds": 60.0, "on_divergence": "roll_back"}, "the mode train")
