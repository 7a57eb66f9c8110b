"""Which process of a cluster this one is."""

from __future__ import annotations

import json

import pytest

from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.launcher import launched_as
from open_seq2seq.utils.tf_config import cluster_task

WORKERS = {"worker": ["a:1", "b:2"]}


def told(monkeypatch, cluster, kind, index):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))
    return cluster_task()


def test_ranks_count_the_chief_first(monkeypatch):
    with_chief = {"chief": ["c:3"], **WORKERS}
    assert told(monkeypatch, WORKERS, "worker", 1)[:2] == (1, ["a:1", "b:2"])
    assert launched_as() == (1, 2)
    assert told(monkeypatch, with_chief, "chief", 0)[:2] == (0, ["c:3", "a:1", "b:2"])
    assert told(monkeypatch, with_chief, "worker", 1).rank == 2


def test_one_process_is_no_cluster(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert cluster_task() is None
    assert told(monkeypatch, {"worker": ["a:1"]}, "worker", 0) is None
    monkeypatch.setenv("TF_CONFIG", "{}")
    assert cluster_task() is None


@pytest.mark.parametrize("kind, index", [("ps", 0), ("evaluator", 0), ("worker", 2), ("worker", -1)])
def test_roles_that_do_not_train_are_refused(monkeypatch, kind, index):
    with pytest.raises(UserError, match="are not supported"):
        told(monkeypatch, {**WORKERS, "ps": ["d:4"]}, kind, index)


@pytest.mark.parametrize("text", ["worker", "[1]", '{"cluster": 3}', '{"cluster": {"worker": 1}}'])
def test_what_cannot_be_read_is_named(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(UserError, match="TF_CONFIG"):
        cluster_task()
    assert launched_as()[1] >= 1  # whoever asks first does not stumble over it
