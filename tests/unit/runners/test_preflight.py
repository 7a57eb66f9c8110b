"""What ranks make sure of before they load data."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from open_seq2seq.runners import Runner, preflight
from open_seq2seq.utils.errors import UserError
from tests.unit.runners.horovod.test_runner import Meeting


class OneOfSome(Runner):
    """A rank in a thread."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting, self.process_rank, self.num_processes = meeting, rank, meeting.size

    def gather(self, results):
        return [item for row in zip(*self._meeting.exchange(self.process_rank, "gather", results), strict=True)
                for item in row]


def on_ranks(work, size=3):
    """Returns what ``work(runner)`` returns, or the text of its UserError, on each rank."""
    meeting = Meeting(size)

    def one(rank):
        try:
            return work(OneOfSome(meeting, rank))
        except UserError as error:
            return str(error)

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))


def test_ranks_that_agree_have_nothing_to_say():
    config = {"base_params": {"max_steps": 3, "logdir": None, "hooks": ["a.py:Hook"]}, "check": False}
    assert on_ranks(lambda runner: preflight.check_agreement(runner, config, "float32")) == [[], [], []]


def test_a_config_that_differs_is_named_by_key_on_all_ranks():
    def work(runner):
        params = {"max_steps": 3 + (runner.process_rank == 2), "encoder_params": {"layers": 2}}
        if runner.process_rank == 1:
            params["encoder_params"]["size"] = 7
        return preflight.check_agreement(runner, {"base_params": params}, "float32")

    words = on_ranks(work)
    assert len(set(words)) == 1
    assert "'base_params/encoder_params/size' is 7 on rank 1" in words[0] and "absent on rank 0" in words[0]
    assert "'base_params/max_steps' is 4 on rank 2" in words[0]


def test_another_type_is_refused():
    words = on_ranks(lambda runner: preflight.check_agreement(runner, {}, f"float{16 + 16 * runner.process_rank}"), 2)
    assert words[0] == words[1] and "dtype is float32 on rank 1" in words[0] and "float16 on rank 0" in words[0]


def test_other_threads_are_a_warning():
    def work(runner):
        return preflight.compare(runner, {"config": "x"}, {"threads": str(1 + runner.process_rank)})

    for lines in on_ranks(work, 2):
        assert len(lines) == 1 and "threads is 2 instead of 1" in lines[0]


def test_data_that_differ_are_refused():
    def work(longer, other):
        lengths = np.array([[3, 4], [5, 6], [1, 1]])

        def on_rank(runner):
            own = lengths[:2] if runner.process_rank == longer else lengths + (runner.process_rank == other)
            return preflight.check_data(runner, "train", own)
        return on_ranks(on_rank)

    assert work(None, None) == [None] * 3
    assert "Rank 1 on host" in work(1, None)[0] and "2 examples instead of 3" in work(1, None)[0]
    assert "Rank 2 on host" in work(None, 2)[0] and "different lengths" in work(None, 2)[0]


def test_costs_that_differ_are_refused():
    def on_rank(runner):
        return preflight.check_data(runner, "train", np.ones(3, int), np.arange(3) + (runner.process_rank == 1))

    assert "Rank 1 on host" in on_ranks(on_rank)[0] and "different costs" in on_ranks(on_rank)[0]


@pytest.mark.long
def test_the_time_limit_ends_a_process_that_is_stuck():
    code = ("import time\nfrom open_seq2seq.runners.preflight import time_limit\n"
            "with time_limit(1): pass\nwith time_limit(None): time.sleep(1.5)\nprint('here', flush=True)\n"
            "with time_limit(1): time.sleep(60)")
    environment = {**os.environ, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3",
                   "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300,
                          check=False)
    assert done.returncode == 1 and done.stdout == "here\n"
    assert "not all of the 3 ranks joined within 1 s" in done.stderr
    assert "HOROVOD_GLOO_IFACE" in done.stderr and "btl_tcp_if_include" in done.stderr
