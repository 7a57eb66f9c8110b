"""Variables are described and added up before they are made."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from open_seq2seq.models import builder
from open_seq2seq.models.model import Model
from open_seq2seq.parts.component import Component, creating_variables, named_variables
from open_seq2seq.utils.errors import ConfigError
from open_seq2seq.utils.machine import available_bytes

GIB = 2 ** 30


class Wide(Component):
    """A table of so many rows."""

    def __init__(self, rows: int) -> None:
        super().__init__({})
        self.small = self.weight([8])
        self.table = self.weight([rows, 1024])


class OfOneTable(Model):
    """A model without data."""

    def __init__(self, mode: str = "train", **params: Any) -> None:
        super().__init__({"batch_size_per_gpu": 1, "data_layer": "DataLayer", **params}, mode)


def refusal(model: Model, rows: int) -> str:
    def make_parts() -> None:
        model.encoder = Wide(rows)

    with pytest.raises(ConfigError) as caught:
        builder.check_size(model, make_parts)
    return str(caught.value)


def test_what_does_not_fit_is_refused_by_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(builder, "available_bytes", lambda: 15 * GIB)
    monkeypatch.setattr(builder.tf.config, "list_physical_devices", lambda kind: [])
    text = refusal(OfOneTable(optimizer="Adam"), 2 ** 20)
    assert "need 16.0 GiB" in text and "15.0 GiB are left" in text
    assert "weights 4.0 GiB, gradients 4.0 GiB, optimizer 8.0 GiB" in text
    assert "encoder/table [1048576, 1024] of 4.0 GiB" in text
    assert "moving average 8.0 GiB" in refusal(OfOneTable(ema_decay=0.9), 2 ** 21)
    assert "optimizer 8.0 GiB, moving average 4.0 GiB" in refusal(OfOneTable(optimizer="ScheduleFreeAdamW"), 2 ** 20)
    assert "optimizer 8.0 GiB" in refusal(OfOneTable(optimizer="Muon"), 2 ** 21)


@pytest.mark.parametrize(("mode", "params"), [("train", {"optimizer": "SGD"}), ("eval", {}), ("infer", {})])
def test_what_fits_is_not(mode: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    """Plain descent keeps nothing of a weight, and evaluation has no gradients either."""
    monkeypatch.setattr(builder, "available_bytes", lambda: 8 * GIB + 4096)
    model = OfOneTable(mode, **params)
    builder.check_size(model, lambda: setattr(model, "encoder", Wide(2 ** 20)))


def test_nothing_is_made_and_seeds_stay(monkeypatch: pytest.MonkeyPatch):
    def made(described: bool) -> tf.Tensor:
        model = OfOneTable("infer")
        with creating_variables(7):
            if described:
                shapes = builder.describe_variables(model, lambda: setattr(model, "encoder", Wide(3)))
                assert shapes == {"encoder/small": (8,), "encoder/table": (3, 1024)}
            model.encoder = Wide(3)
        return named_variables(model)["encoder/table"].numpy()

    assert (made(True) == made(False)).all()


def test_parts_that_need_values_are_made_without_the_estimate(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(builder, "available_bytes", lambda: 1)

    class Careful(Component):
        def __init__(self) -> None:
            super().__init__({})
            self.weight([2]).assign([1.0, 2.0])

    model = OfOneTable("infer")
    builder.check_size(model, lambda: setattr(model, "encoder", Careful()))


def test_memory_is_what_the_narrowest_group_has_left(tmp_path):
    assert available_bytes(str(tmp_path)) is None
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 100 kB\nMemAvailable:   80 kB\nSwapFree:  10 kB\n")
    assert available_bytes(str(tmp_path)) == 90 * 1024
    (tmp_path / "proc/self/cgroup").write_text("0::/job/step\n")
    job = tmp_path / "sys/fs/cgroup/job"
    (job / "step").mkdir(parents=True)
    (job / "step/memory.max").write_text("max\n")
    (job / "memory.max").write_text("50000\n")
    (job / "memory.current").write_text("30000\n")
    (job / "memory.stat").write_text("anon 1\ninactive_file 5000\n")
    assert available_bytes(str(tmp_path)) == 25000
    (job / "memory.current").write_text("90000\n")
    assert available_bytes(str(tmp_path)) == 0
