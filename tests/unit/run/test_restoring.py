"""What differs between two configs, by the declarations of parts; and which weights of a checkpoint are used."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from open_seq2seq.config.params import FREE, REFUSE, SAY, Param
from open_seq2seq.models import Speech2Text, Text2Text
from open_seq2seq.optimizers.registry import AVERAGES
from open_seq2seq.run import restoring
from open_seq2seq.run.restoring import changes

TEXT: dict[str, Any] = {
    "batch_size_per_gpu": 8, "data_layer": "ParallelTextDataLayer", "encoder": "TransformerEncoder",
    "data_layer_params": {"source_file": "a", "src_vocab_file": "v", "max_length": 8, "tokenizer": None},
    "encoder_params": {"num_heads": 2, "attention_dropout": 0.1}, "decoder": "TransformerDecoder",
    "decoder_params": {"beam_size": 2, "EOS_ID": 1}, "optimizer": "Adam", "optimizer_params": {"beta1": 0.9}}


def found(before: dict[str, Any], now: dict[str, Any], model: Any = Text2Text) -> dict[str, str]:
    return {"/".join(change.path): change.kind for change in changes(model, before, now)}


def with_value(path: str, value: Any) -> dict[str, Any]:
    *parts, name = path.split("/")
    changed = {**TEXT}
    inner = changed
    for part in parts:
        inner[part] = {**inner.get(part, {})}
        inner = inner[part]
    inner[name] = value
    return changed


@pytest.mark.parametrize(("path", "value", "kind"), [
    ("encoder_params/num_heads", 4, REFUSE), ("data_layer_params/delimiter", "|", REFUSE),
    ("decoder_params/norm_params", {"type": "layernorm_L1"}, REFUSE),
    ("data_layer_params/tokenizer", {"type": "sentencepiece", "model": "m"}, REFUSE),
    ("batch_size_per_gpu", 4, SAY), ("encoder_params/attention_dropout", 0.2, SAY), ("dtype", "mixed", SAY),
    ("optimizer_params/beta1", 0.8, SAY), ("optimizer_params/beta2", 0.99, SAY), ("optimizer", "Momentum", SAY),
    ("encoder", "TDNNEncoder", SAY), ("xla_buckets", 3, SAY)])
def test_what_changes_results_is_found(path, value, kind):
    different = found(TEXT, with_value(path, value))
    assert set(different.values()) == {kind} and all(name.startswith(path) for name in different)


@pytest.mark.parametrize(("path", "value"), [
    ("decoder_params/beam_size", 9), ("max_steps", 5), ("logdir", "elsewhere"), ("num_checkpoints", 1),
    ("data_layer_params/source_file", "b"), ("data_layer_params/src_vocab_file", "w"), ("print_loss_steps", 1),
    ("data_layer_params/delimiter", " "), ("batch_size_per_gpu", 8.0), ("optimizer_params/beta1", 0.9),
    ("encoder", "open_seq2seq.encoders.TransformerEncoder"), ("initializer", "tf.zeros_initializer"),
    ("dtype", "float32"), ("encoder_params/recompute", True)])
def test_what_changes_none_is_not(path, value):
    assert found(TEXT, with_value(path, value)) == {} == found(with_value(path, value), TEXT)


def test_layers_are_compared_entry_by_entry():
    layers = [{"kernel_size": [3], "dropout_keep_prob": 0.9}, {"kernel_size": [5]}]
    before = {"encoder": "TDNNEncoder", "encoder_params": {"convnet_layers": layers, "activation_fn": "relu"}}
    now = {"encoder": "TDNNEncoder", "encoder_params": {
        "convnet_layers": [{"kernel_size": [3], "dropout_keep_prob": 0.8}, {"kernel_size": [7]}],
        "activation_fn": "tf.nn.relu"}}
    assert found(before, now, Speech2Text) == {"encoder_params/convnet_layers/0/dropout_keep_prob": SAY,
                                               "encoder_params/convnet_layers/1/kernel_size": REFUSE}


def test_a_class_is_the_same_wherever_its_file_is():
    class Part:
        @classmethod
        def declared_params(cls):
            return {}, {"plain": int, "fn": Param(str, None), "free": Param(int, 1, on_change=FREE)}

    before = {"plain": 1, "fn": "/old/parts.py:gelu", "free": 1}
    assert found(before, {"plain": 1, "fn": "/new/parts.py:gelu", "free": 2}, Part) == {}
    assert found(before, {"plain": 2, "fn": "/old/parts.py:relu"}, Part) == {"plain": SAY, "fn": SAY}


@pytest.mark.parametrize(("params", "kind"), [
    ({"ema_decay": 0.9}, "the moving average (ema_decay)"), ({"average_from": 3}, "the mean (average_from)"),
    ({"optimizer": "ScheduleFreeAdamW"}, "the average in the checkpoint")])
def test_an_average_is_used_whatever_made_it(monkeypatch, capsys, params, kind):
    assigned: dict[str, int] = {}
    monkeypatch.setattr(restoring, "named_variables", lambda model: {})
    monkeypatch.setattr(restoring, "assign_strictly", lambda variables, weights, path: assigned.update(weights))
    model: Any = SimpleNamespace(params={**dict.fromkeys(AVERAGES), **params}, parts_of_other_modes=())
    checkpoint: Any = SimpleNamespace(weights={"w": 1}, averaged_weights={"w": 2}, optimizer={}, path="run")
    inputs: Any = SimpleNamespace(check_assets=lambda checkpoint: None)
    restoring.restore_weights(model, inputs, checkpoint)
    assert assigned == {"w": 2} and kind in capsys.readouterr().out


@pytest.mark.parametrize(("state", "began"), [({"seconds": 30.5}, 69.5), ({}, 100)])
def test_the_time_of_training_goes_on_in_a_resumed_run(state, began):
    trainer = MagicMock(began=100.0)
    trainer.runner.world_size = 1
    restoring.restore_position(trainer, {"step": 4, "micro_batch": 4, **state})
    assert trainer.began == began
