"""The dtypes that benchmarks compare, and the models that compare processors."""

from __future__ import annotations

import pytest
import tensorflow as tf

from benchmarks.measuring.settings import default_names, dtype_overrides, peak_megabytes
from benchmarks.measuring.small_models import write_small_models
from open_seq2seq.config.loader import load_config
from open_seq2seq.config.options import RunOptions
from open_seq2seq.config.resolve import resolve
from open_seq2seq.run.training_setup import describe_sections


@pytest.mark.parametrize("on_gpu, names, overrides", [
    (False, ["float32", "mixed_bfloat16"], [["--dtype=float32"], ["--dtype=mixed_bfloat16"]]),
    (True, ["float32", "tf32", "mixed_float16", "mixed_bfloat16"], [
        ["--dtype=float32", "--tf32=False"], ["--dtype=float32", "--tf32=True"], ["--dtype=mixed_float16"],
        ["--dtype=mixed_bfloat16"]])])
def test_a_gpu_has_more_dtypes_to_compare(on_gpu, names, overrides):
    assert default_names(on_gpu) == names
    assert [dtype_overrides(name, on_gpu) for name in names] == overrides


def test_peak_memory_is_the_gpus_where_there_is_one(monkeypatch):
    assert peak_megabytes() > 100
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: ["gpu"] if kind == "GPU" else [])
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda device: {"peak": 5_000_000, "current": 0})
    assert peak_megabytes() == 5.0


def test_names_of_settings_say_what_is_bfloat16():
    assert dtype_overrides("mixed") == ["--dtype=mixed"]
    assert dtype_overrides("mixed/none") == ["--dtype=mixed", "--mixed_choice=[]"]
    assert dtype_overrides("mixed_float16/LogMax") == ["--dtype=mixed_float16", "--loss_scaling=LogMax"]
    assert dtype_overrides("mixed/product+recurrence") == [
        "--dtype=mixed", "--mixed_choice=['product', 'recurrence']"]


@pytest.mark.long
def test_the_small_models_are_configs(tmp_path):
    configs = write_small_models(tmp_path)
    assert len(configs) == 4
    for path in configs.values():
        for mode in ("train", "infer"):
            config = resolve(load_config(str(path)), mode, [])
            assert describe_sections(RunOptions(mode=mode, config=config))[mode].full_params["random_seed"] == 0
