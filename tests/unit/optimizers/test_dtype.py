"""Which arithmetic a config's dtype means."""

import itertools

import pytest
import tensorflow as tf

from open_seq2seq.optimizers import dtype as dtype_module
from open_seq2seq.optimizers import precision_of, resolve_dtype
from open_seq2seq.parts.precision import KINDS
from open_seq2seq.utils.errors import ConfigError


def on_gpu(monkeypatch, present):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["gpu"] if present else [])


@pytest.mark.parametrize("given,on_cpu,with_gpu", [
    ("float32", tf.float32, tf.float32), (tf.float32, tf.float32, tf.float32), (None, tf.float32, tf.float32),
    ("mixed", tf.bfloat16, tf.float16), ("mixed_float16", tf.float16, tf.float16),
    ("mixed_bfloat16", tf.bfloat16, tf.bfloat16)])
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
    with pytest.raises(ConfigError, match="must be one of float32, mixed"):
        resolve_dtype(given)


@pytest.mark.parametrize("choice", [kinds for size in range(4) for kinds in itertools.combinations(KINDS, size)])
def test_each_kind_of_operation_has_a_type(monkeypatch, choice):
    on_gpu(monkeypatch, False)
    policy = precision_of({"dtype": "mixed", "mixed_choice": list(choice)})
    assert {kind: policy.type_of(kind) for kind in KINDS} == {
        kind: tf.bfloat16 if kind in choice else tf.float32 for kind in KINDS}
    assert policy.compute == (tf.bfloat16 if choice else tf.float32)
    assert policy.may_choose and ("bfloat16" in policy.note) == bool(choice)
    assert all((f"{kind}s" in policy.note) == (kind in choice and len(choice) < len(KINDS)) for kind in KINDS)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_choice_is_for_mixed_on_a_cpu_alone(monkeypatch, dtype):
    on_gpu(monkeypatch, False)
    assert resolve_dtype(dtype, []) == resolve_dtype(dtype) and not resolve_dtype(dtype).may_choose
    on_gpu(monkeypatch, True)
    assert resolve_dtype("mixed", []).type_of("product") == tf.float16
    assert not resolve_dtype("mixed").may_choose


def test_an_unknown_kind_is_a_mistake():
    with pytest.raises(ValueError, match="not one of the kinds"):
        resolve_dtype("mixed").type_of("convolutions")
    problems = dtype_module.choice_problems({"mixed_choice": ["product", "convolutions"]})
    assert len(problems) == 1 and "'convolutions'" in problems[0] and "'convolution'?" in problems[0]
    assert dtype_module.choice_problems({"mixed_choice": []}) == dtype_module.choice_problems({}) == []


@pytest.mark.parametrize(("capability", "dtype", "warned"), [
    ((6, 1), "mixed", True), ((6, 1), "mixed_float16", True), ((6, 1), "mixed_bfloat16", False),
    ((6, 1), "float32", False), ((7, 0), "mixed", False), ((9, 0), "mixed", False), (None, "mixed", False)])
def test_gpus_without_fast_float16_are_named(monkeypatch, capability, dtype, warned):
    on_gpu(monkeypatch, True)
    details = {"device_name": "GeForce GTX 1080"} | ({} if capability is None else {"compute_capability": capability})
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details)
    assert ("GTX 1080 has compute capability 6.1" in resolve_dtype(dtype).note) == warned
