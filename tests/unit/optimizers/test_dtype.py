"""Which arithmetic a config's dtype means."""

import pytest
import tensorflow as tf

from open_seq2seq.optimizers import dtype as dtype_module
from open_seq2seq.optimizers import resolve_dtype
from open_seq2seq.utils.errors import ConfigError


def on_gpu(monkeypatch, present):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["gpu"] if present else [])


@pytest.mark.parametrize("given,on_cpu,with_gpu", [
    ("float32", tf.float32, tf.float32), (tf.float32, tf.float32, tf.float32), (None, tf.float32, tf.float32),
    ("mixed", tf.bfloat16, tf.float16), ("mixed_float16", tf.float16, tf.float16),
    ("mixed_bfloat16", tf.bfloat16, tf.bfloat16), (tf.float16, tf.float16, tf.float16),
    ("bfloat16", tf.bfloat16, tf.bfloat16)])
def test_choice(monkeypatch, given, on_cpu, with_gpu):
    on_gpu(monkeypatch, False)
    policy = resolve_dtype(given)
    assert policy.compute == on_cpu and policy.label in policy.note
    assert policy.compute.name in policy.note
    on_gpu(monkeypatch, True)
    assert resolve_dtype(given).compute == with_gpu


def test_warnings(monkeypatch):
    on_gpu(monkeypatch, False)
    monkeypatch.setattr(dtype_module, "has_bfloat16", lambda: False)
    assert "no bfloat16 instructions" in resolve_dtype("mixed").note
    monkeypatch.setattr(dtype_module, "has_bfloat16", lambda: True)
    assert "Warning" not in resolve_dtype("mixed").note
    assert "slower" in resolve_dtype("mixed_float16").note
    on_gpu(monkeypatch, True)
    assert "Warning" not in resolve_dtype("mixed_float16").note


@pytest.mark.parametrize("given", ["mixd", "float64", tf.int32])
def test_mistakes_are_explained(given):
    with pytest.raises(ConfigError, match="has to be one of float32, mixed"):
        resolve_dtype(given)
