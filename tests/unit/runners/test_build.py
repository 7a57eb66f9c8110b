"""Which devices a process takes, on machines that are made up."""

from __future__ import annotations

import pytest

from open_seq2seq.config.resolve import model_problems
from open_seq2seq.runners import build
from open_seq2seq.runners.build import on_this_machine, one_device, take_devices
from open_seq2seq.utils.errors import UserError


class Machine:
    """Stands in for ``tf.config``."""

    def __init__(self, gpus, started=False):
        self.gpus, self.visible, self.started = [f"gpu-{n}" for n in range(gpus)], None, started

    def list_physical_devices(self, kind):
        return list(self.gpus) if kind == "GPU" else ["cpu"]

    def get_visible_devices(self, kind):
        return list(self.gpus) if self.visible is None else self.visible

    def set_visible_devices(self, chosen, kind):
        if self.started:
            raise RuntimeError("Visible devices cannot be modified after being initialized")
        self.visible = chosen


@pytest.fixture
def machine(monkeypatch):
    def make(gpus, started=False):
        made = Machine(gpus, started)
        monkeypatch.setattr(build.tf, "config", made)
        return made

    return make


@pytest.mark.parametrize(("gpus", "params", "names", "visible"), [
    (0, {}, ["CPU:0"], None),
    (0, {"num_gpus": 1}, ["CPU:0"], None),
    (4, {}, ["GPU:0"], ["gpu-0"]),
    (4, {"num_gpus": 3}, ["GPU:0", "GPU:1", "GPU:2"], ["gpu-0", "gpu-1", "gpu-2"]),
    (4, {"gpu_ids": [3, 1]}, ["GPU:0", "GPU:1"], ["gpu-3", "gpu-1"]),
])
def test_devices_are_taken_and_others_hidden(machine, gpus, params, names, visible):
    made = machine(gpus)
    assert take_devices(params) == names
    assert made.visible == visible


@pytest.mark.parametrize(("gpus", "params", "words"), [
    (0, {"num_gpus": 2}, "finds no GPU.*--num_cpu_towers=2"),
    (0, {"gpu_ids": [0]}, "finds no GPU"),
    (2, {"num_gpus": 4}, "requests 4 GPUs.*finds only 2"),
    (2, {"gpu_ids": [0, 2]}, r"the GPUs \[0, 2\].*numbered 0 to 1"),
])
def test_more_than_there_is_is_refused(machine, gpus, params, words):
    machine(gpus)
    with pytest.raises(UserError, match=words):
        take_devices(params)


def test_a_process_that_has_started_keeps_its_devices(machine):
    machine(2, started=True)
    assert take_devices({"gpu_ids": [1]}) == ["GPU:1"]


@pytest.mark.parametrize(("gpus", "asked", "keep", "requested"), [
    (0, {"num_gpus": 4}, (), {"num_gpus": None, "gpu_ids": None}), (2, {"gpu_ids": [2]}, (), {"gpu_ids": None}),
    (0, {"num_gpus": 4}, ["num_gpus"], {"num_gpus": 4}), (2, {"num_gpus": 2}, (), {"num_gpus": 2}),
    (0, {"num_gpus": 1}, (), {"num_gpus": 1}), (0, {"use_horovod": True}, (), {"use_horovod": False}),
    (0, {"use_horovod": True}, ["use_horovod"], {"use_horovod": True}),
])
def test_a_trained_model_does_not_need_the_devices_of_its_training(monkeypatch, gpus, asked, keep, requested):
    monkeypatch.setattr(build.tf.config, "list_physical_devices", lambda kind: ["GPU"] * gpus)
    monkeypatch.setattr(build.importlib.util, "find_spec", lambda name: None)
    assert on_this_machine(asked, keep).items() >= requested.items()
    monkeypatch.setattr(build, "launched_as", lambda: (0, 2))
    assert on_this_machine(asked, keep) == asked  # because the other process may have other devices


def test_one_device_is_the_first_of_those_asked_for():
    assert one_device({"num_gpus": 4, "a": 1}) == {"num_gpus": None, "num_cpu_towers": None, "gpu_ids": None, "a": 1}
    assert one_device({"gpu_ids": [2, 3]})["gpu_ids"] == [2]


@pytest.mark.parametrize("ids", [3, [], [0, 0], [-1], ["0"], [True]])
def test_gpu_ids_are_numbers_each_once(ids):
    assert any("gpu_ids" in problem for problem in model_problems({"gpu_ids": ids}, "infer", "infer"))
