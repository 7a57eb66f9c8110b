"""What does not suit a language model, or a classifier on its encoder, is refused with a sentence that says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from open_seq2seq.losses import CrossEntropyLoss, Loss
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.models.model import Model
from open_seq2seq.utils.errors import ConfigError

SEQUENCE_LOSS = {"offset_target_by_one": False, "average_across_timestep": True}
CELL = {"core_cell": "LSTMCell", "core_cell_params": {"num_units": 4}, "encoder_layers": 1, "emb_size": 4}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, labelled sentences, and the vocabulary of both."""
    folder = tmp_path_factory.mktemp("texts")
    for name in ("train", "valid"):
        (folder / f"{name}.txt").write_text("good film\nbad film\n" * 20)
    (folder / "train.csv").write_text("1,good film\n0,bad film\n" * 4)
    (folder / "dev.csv").write_text("1,good film\n0,bad film\n")
    return folder


def language_model(root: Path) -> dict[str, Any]:
    return {"batch_size_per_gpu": 2, "encoder": "LMEncoder", "encoder_params": CELL, "decoder": "FakeDecoder",
            "loss": "BasicSequenceLoss", "loss_params": SEQUENCE_LOSS, "data_layer": "WKTDataLayer",
            "data_layer_params": {"data_root": str(root), "processed_data_folder": str(root / "lm"), "bptt": 4}}


def classifier(root: Path) -> dict[str, Any]:
    layer = {"data_root": str(root), "processed_data_folder": str(root / "classes"), "max_length": 8}
    return {**language_model(root), "loss": "CrossEntropyLoss", "loss_params": {}, "data_layer": "SSTDataLayer",
            "data_layer_params": layer}


def built(params: dict[str, Any], mode: str = "train", base_model: str = "LSTMLM") -> Model:
    return build_model(describe_model(base_model, params, mode))


def refusal(params: dict[str, Any], mode: str = "train", base_model: str = "LSTMLM") -> str:
    """Returns the only sentence with which these parameters are refused."""
    with pytest.raises(ConfigError) as error:
        built(params, mode, base_model)
    assert len(error.value.problems) == 1
    return error.value.problems[0]


def test_a_language_model_and_a_classifier_are_built(root: Path):
    assert built(language_model(root)) is not None and built(classifier(root)) is not None


def test_a_classifier_scores_no_lines(root: Path):
    assert "only language models score lines" in refusal({**classifier(root), "infer_task": "score"})


class OwnLoss(Loss):
    """A loss of a user."""


class OwnSubclass(CrossEntropyLoss):
    """Another one, which may compute anything."""


@pytest.mark.parametrize("loss", ["CrossEntropyLoss", "PaddedCrossEntropyLossWithSmoothing", "CTCLoss"])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_losses_of_other_tasks_do_not_suit_a_language_model(root: Path, loss: str, mode: str):
    found = refusal({**language_model(root), "loss": loss, "loss_params": {}}, mode)
    assert f"'loss' is {loss}, but" in found and "set 'loss' to BasicSequenceLoss" in found


@pytest.mark.parametrize("loss", [OwnLoss, OwnSubclass, "CrossEntropyWithSmoothing"])
def test_own_losses_and_those_of_sequences_suit_a_language_model(root: Path, loss: Any):
    given = SEQUENCE_LOSS if isinstance(loss, str) else {}
    assert built({**language_model(root), "loss": loss, "loss_params": given}) is not None


UNFIT = {
    "decoder": (language_model, {"decoder": "SoftmaxDecoder"}, "LSTMLM", "set 'decoder' to FakeDecoder"),
    "encoder": (language_model, {"encoder": "TransformerEncoder"}, "LSTMLM", "such as LMEncoder"),
    "classes": (classifier, {}, "LanguageModel", "'data_layer' is SSTDataLayer, but a language model needs one of "),
    "loss of a classifier": (classifier, {"loss": "BasicSequenceLoss"}, "LSTMLM", "set 'loss' to CrossEntropyLoss"),
    "no classes": (language_model, {}, "Text2Label", "'data_layer' is WKTDataLayer, but a classifier needs one of "),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_class_that_does_not_suit_the_task_is_named(root: Path, name: str):
    params_in, changed, base_model, expected = UNFIT[name]
    params = {**params_in(root), **changed}
    if "encoder" in changed:
        params["encoder_params"] = {"encoder_layers": 1, "hidden_size": 4, "num_heads": 1, "attention_dropout": 0.0,
                                    "filter_size": 4, "relu_dropout": 0.0, "layer_postprocess_dropout": 0.0,
                                    "remove_padding": True}
    assert expected in refusal(params, base_model=base_model)


def test_inference_needs_no_loss(root: Path):
    params = {**language_model(root), "loss": "CrossEntropyLoss", "loss_params": {}}
    built(language_model(root))  # writes the vocabulary
    assert built({**params, "lm_vocab_file": str(root / "lm/vocab.txt")}, "infer") is not None
