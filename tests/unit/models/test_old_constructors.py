"""Parts with the constructors of NVIDIA's OpenSeq2Seq."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from open_seq2seq.data import ParallelTextDataLayer
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.models.builder import build_model, describe_model
from tests.unit.models.test_pairs import TRANSFORMER


class OldLayer(ParallelTextDataLayer):
    def __init__(self, params, model, num_workers=None, worker_id=None):
        super(OldLayer, self).__init__(params, model, num_workers, worker_id)  # noqa: UP008  # as at the time


class OldLoss(PaddedCrossEntropyLossWithSmoothing):
    def __init__(self, params, model, name="old_loss"):
        super(OldLoss, self).__init__(params, model, name)  # noqa: UP008


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_they_are_called_with_what_they_take(mode: str, tmp_path):
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    (tmp_path / "lines.txt").write_text("a b\nb\n")

    def losses(layer: type, loss: type) -> Any:
        model = build_model(describe_model("Text2Text", {
            "batch_size_per_gpu": 2, "optimizer": "SGD", "lr_policy": "fixed_lr", "max_steps": 1,
            "lr_policy_params": {"learning_rate": 0.1}, "data_layer": layer, "data_layer_params": {
                "src_vocab_file": f"{tmp_path}/vocab.txt", "tgt_vocab_file": f"{tmp_path}/vocab.txt",
                "source_file": f"{tmp_path}/lines.txt", "target_file": f"{tmp_path}/lines.txt", "max_length": 8,
                "special_tokens_already_in_vocab": False},
            "encoder": "TransformerEncoder", "encoder_params": {"encoder_layers": 1, **TRANSFORMER},
            "decoder": "TransformerDecoder", "decoder_params": {"num_hidden_layers": 1, "beam_size": 1, "alpha": 0.6,
                                                                "extra_decode_length": 2, "EOS_ID": 1, **TRANSFORMER},
            "loss": loss}, mode), 5, None)
        assert (model.data_layer.mode, model.data_layer.name, model.loss.name) == (mode, "data_layer", "loss")
        terms, _ = model.loss_terms(model.data_layer.make_batch(np.arange(2)), training=False)
        return [float(term.sum) for term in terms]

    assert losses(OldLayer, OldLoss) == losses(ParallelTextDataLayer, PaddedCrossEntropyLossWithSmoothing)
