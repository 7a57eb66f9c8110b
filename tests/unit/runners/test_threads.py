import pytest
import tensorflow as tf

from open_seq2seq.runners import threads


@pytest.fixture
def machine(monkeypatch):
    """Sets the numbers of cores of the launcher and of this process; returns the numbers of threads that are set."""
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")  # some launchers set it; TensorFlow does not read it
    set_to = []
    monkeypatch.setattr(tf.config.threading, "set_intra_op_parallelism_threads", set_to.append)
    monkeypatch.setattr(tf.config.threading, "get_intra_op_parallelism_threads", lambda: 0)

    def cores(of_launcher, allowed):
        monkeypatch.setattr(threads, "cores_of_launcher", lambda: of_launcher)
        monkeypatch.setattr(threads, "cores_allowed", lambda: allowed)
        return set_to
    return cores


@pytest.mark.parametrize("of_launcher,allowed,shares,expected", [
    (8, 8, 2, 4), (8, 8, 3, 2), (8, 2, 4, 2), (8, 3, 2, 3), (8, 6, 2, 3), (2, 2, 4, 1), (1, 1, 1, 1),
    (4, 4, 2, 2), (4, 2, 2, 2)])  # a job with half of the machine's cores; a launcher that has bound its processes
def test_cores_are_shared_once(machine, of_launcher, allowed, shares, expected):
    set_to = machine(of_launcher, allowed)
    assert threads.share_cores(shares) == expected
    assert set_to == [expected]


def test_towers_share_the_cores_of_their_process(machine):
    assert machine(8, 2) == [] and threads.share_cores(2, within_process=True) == 1
    assert machine(8, 6) == [1] and threads.share_cores(2, within_process=True) == 3


def test_a_number_of_threads_that_is_set_remains(machine, monkeypatch):
    set_to = machine(8, 8)
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "3")
    assert threads.share_cores(2) is None and threads.intra_op_threads() == 3
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS")
    assert threads.intra_op_threads() == 8
    monkeypatch.setattr(tf.config.threading, "get_intra_op_parallelism_threads", lambda: 5)
    assert threads.share_cores(2) is None and threads.intra_op_threads() == 5
    assert set_to == []
