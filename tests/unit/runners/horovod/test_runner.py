"""The Horovod runner over a stand-in for Horovod: threads that meet at each collective operation."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.runners import Runner, build, make_runner
from open_seq2seq.runners.horovod import runner as horovod_runner
from open_seq2seq.runners.horovod.runner import HorovodRunner
from open_seq2seq.utils.errors import ConfigError, UserError


class Meeting:
    """What a number of ranks bring to an operation, all of one name, in order of rank."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._barrier = threading.Barrier(size, timeout=100)
        self._brought: list[Any] = [None] * size

    def exchange(self, rank: int, name: str, value: Any) -> list[Any]:
        self._brought[rank] = (name, value)
        self._barrier.wait()
        brought = list(self._brought)
        self._barrier.wait()
        assert {other for other, _ in brought} == {name}
        return [value for _, value in brought]


class FakeHorovod:
    """The part of ``horovod.tensorflow`` that the runner uses, for one rank."""

    Sum = "sum"

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting, self._rank = meeting, rank
        self.groups: list[tuple[str, list[tuple[str, int]]]] = []
        self.gathered: list[str] = []

    def init(self) -> None:
        """Nothing to start."""

    def rank(self) -> int:
        return self._rank

    local_rank = rank

    def size(self) -> int:
        return self._meeting.size

    local_size = size

    def allgather_object(self, value: Any, name: str) -> list[Any]:
        return self._meeting.exchange(self._rank, name, value)

    def broadcast_object(self, value: Any, root_rank: int, name: str) -> Any:
        return self._meeting.exchange(self._rank, name, value)[root_rank]

    broadcast = broadcast_object

    def allreduce(self, value: tf.Tensor, op: str, name: str) -> tf.Tensor:
        assert op == "sum"
        return tf.add_n(self._meeting.exchange(self._rank, name, value))

    def grouped_allreduce(self, values: list[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        assert op == "sum"
        self.groups.append((name, [(value.dtype.name, value.shape.num_elements()) for value in values]))
        return [tf.add_n(column) for column in zip(*self._meeting.exchange(self._rank, name, values), strict=True)]

    def allgather(self, value: tf.Tensor, name: str) -> tf.Tensor:
        self.gathered.append(name)
        return tf.concat(self._meeting.exchange(self._rank, name, value), 0)


def on_ranks(size, work, monkeypatch):
    """Returns what ``work(runner)`` returns on each rank."""
    monkeypatch.setattr(horovod_runner, "mute", lambda: None)
    monkeypatch.setattr(horovod_runner, "take_share", lambda rank, ranks: 1)
    monkeypatch.setattr(horovod_runner, "set_defaults", lambda: None)
    meeting = Meeting(size)
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda rank: work(HorovodRunner(FakeHorovod(meeting, rank))), range(size)))


def test_reduce_adds_up_dense_and_sparse_tensors_under_their_names(monkeypatch):
    def work(runner):
        rows = tf.IndexedSlices(tf.ones([2, 3]), tf.constant([runner.process_rank, 3]), tf.constant([4, 3]))
        return runner.reduce({"b": tf.constant([1.0 + runner.process_rank]), "a": rows})

    for result in on_ranks(3, work, monkeypatch):
        assert list(result) == ["b", "a"]
        np.testing.assert_array_equal(result["b"], [6.0])
        np.testing.assert_array_equal(tf.convert_to_tensor(result["a"]), [[1] * 3, [1] * 3, [1] * 3, [3] * 3])


@pytest.mark.parametrize("held, expected", [((True, True, True), True), ((True, False, True), False),
                                            ((False, False, False), False)])
def test_agree_is_the_logical_and(held, expected, monkeypatch):
    results = on_ranks(3, lambda runner: bool(runner.agree(tf.constant(held[runner.process_rank]))), monkeypatch)
    assert results == [expected] * 3


def test_one_rank_agrees_with_itself_without_horovod(monkeypatch):
    condition = tf.constant(False)
    assert on_ranks(1, lambda runner: runner.agree(condition) is condition, monkeypatch) == [True]


@pytest.mark.parametrize("batches", [0, 1, 2, 3, 7])
def test_gather_puts_batches_in_order_each_once(batches, monkeypatch):
    results = on_ranks(3, lambda runner: runner.gather(list(range(batches))[runner.process_rank::3]), monkeypatch)
    assert results == [list(range(batches))] * 3


def test_gather_keeps_results_that_are_none(monkeypatch):
    assert on_ranks(2, lambda runner: runner.gather([None]), monkeypatch) == [[None, None]] * 2


def test_share_and_broadcast_give_what_the_chief_has(monkeypatch):
    def work(runner):
        variable = tf.Variable([float(runner.process_rank)] * 2)
        runner.broadcast({"v": variable})
        return runner.share({"rank": runner.process_rank}), variable.numpy().tolist(), runner.is_chief

    assert on_ranks(2, work, monkeypatch) == [({"rank": 0}, [0.0, 0.0], True), ({"rank": 0}, [0.0, 0.0], False)]


def test_ranks_that_cannot_be_joined_are_a_sentence_with_hints(monkeypatch):
    def init():
        raise ValueError("Horovod initialization failed.")

    rank = FakeHorovod(Meeting(1), 0)
    monkeypatch.setattr(rank, "init", init)
    with pytest.raises(UserError, match="could not join the ranks.*HOROVOD_GLOO_IFACE"):
        HorovodRunner(rank)


def test_one_process_without_horovod(monkeypatch):
    for name in ("OMPI_COMM_WORLD_SIZE", "HOROVOD_SIZE", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert type(make_runner({"use_horovod": False})) is Runner


def test_several_processes_need_use_horovod(monkeypatch):
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    monkeypatch.setenv("HOROVOD_RANK", "1")
    with pytest.raises(UserError, match="use_horovod=True"):
        make_runner({})


def test_settings_of_the_environment_stay(monkeypatch):
    monkeypatch.setattr(os, "environ", {"HOROVOD_CYCLE_TIME": "2"})
    monkeypatch.setattr(horovod_runner.tf.config, "list_physical_devices", lambda kind: [])
    horovod_runner.set_defaults()
    assert os.environ == {**horovod_runner.CPU_SETTINGS, **horovod_runner.MPI_SETTINGS, "HOROVOD_CYCLE_TIME": "2"}


def test_gloo_keeps_horovods_own_threshold(monkeypatch):
    monkeypatch.setattr(os, "environ", {"HOROVOD_CONTROLLER": "gloo"})
    monkeypatch.setattr(horovod_runner.tf.config, "list_physical_devices", lambda kind: [])
    horovod_runner.set_defaults()
    assert os.environ == {**horovod_runner.CPU_SETTINGS, "HOROVOD_CONTROLLER": "gloo"}


def test_gpus_keep_horovods_own_settings(monkeypatch):
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(horovod_runner.tf.config, "list_physical_devices", lambda kind: ["one"])
    horovod_runner.set_defaults()
    assert os.environ == {}


def test_without_horovod_the_message_names_make_horovod(monkeypatch):
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="make horovod"):
        make_runner({"use_horovod": True})


def test_several_ranks_can_only_stop_on_divergence():
    class TwoRanks(Runner):
        num_processes = 2

    with pytest.raises(ConfigError, match="on_divergence"):
        build.check_params({"on_divergence": "roll_back"}, TwoRanks())
    build.check_params({"on_divergence": "roll_back"}, Runner())
    build.check_params({}, TwoRanks())


def test_compression_without_horovod_is_refused_where_gradients_are_added_up():
    class TwoReplicas(Runner):
        world_size = 2

    with pytest.raises(ConfigError, match="'hvd_compression' is 'fp16'.*only Horovod compresses.*--use_horovod=True"):
        build.check_params({"hvd_compression": "fp16"}, TwoReplicas())
    build.check_params({"hvd_compression": "fp16", "use_horovod": True}, TwoReplicas())
    build.check_params({"hvd_compression": "fp16"}, Runner())
    build.check_params({"hvd_compression": None}, TwoReplicas())
