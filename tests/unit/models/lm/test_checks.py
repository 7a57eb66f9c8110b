"""What does not suit a language model, or a classifier on its encoder, is refused with a sentence that says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.losses import CrossEntropyLoss, Loss
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.models.model import Model
from open_seq2seq.utils.errors import ConfigError

SEQUENCE_LOSS = {"offset_target_by_one": False, "average_across_timestep": True}
CELL = {"core_cell": "LSTMCell", "core_cell_params": {"num_units": 4}, "encoder_layers": 1, "emb_size": 4}

TRANSFORMER = {"encoder": "TransformerEncoder",
               "encoder_params": {"encoder_layers": 1, "hidden_size": 4, "num_heads": 1, "attention_dropout": 0.0,
                                  "filter_size": 4, "relu_dropout": 0.0, "layer_postprocess_dropout": 0.0,
                                  "remove_padding": True}}


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


@pytest.mark.parametrize("option", [{"infer_task": "score"}, {"neural_cache": {"sise": 5}}])
def test_options_of_language_models_alone_are_refused_by_a_classifier(root: Path, option: dict[str, Any]):
    found = refusal({**classifier(root), **option})
    assert f"'{next(iter(option))}' applies only to language models" in found


def test_penalties_need_an_encoder_of_language_models(root: Path):
    params = {**classifier(root), **TRANSFORMER, "decoder": "SoftmaxDecoder"}
    assert built(params) is not None
    assert "such as LMEncoder" in refusal({**params, "activation_regularization": 2.0})


@pytest.mark.parametrize("decoder", ["FakeDecoder", "SoftmaxDecoder"])
def test_a_classifier_has_penalties(root: Path, decoder: str):
    model = built({**classifier(root), "decoder": decoder, "activation_regularization": 2.0,
                   "temporal_activation_regularization": 3.0})
    batch = tf.nest.map_structure(tf.constant, model.data_layer.make_batch(np.arange(8)))
    terms = {term.name: term for term in model.loss_terms(batch, training=True)[0]}
    assert set(terms) == {"loss", "activation penalty", "temporal penalty"}
    ids, lengths = batch["source_tensors"]
    assert set(lengths.numpy()) == {ids.shape[1]}  # the texts are equally long, so there is no padding
    outputs = model.encoder.encode({"source_tensors": [ids, lengths]}, True)["outputs"].numpy()
    for name, values, weight in (("activation penalty", outputs, 2.0),
                                 ("temporal penalty", np.diff(outputs, axis=1), 3.0)):
        assert terms[name].weight == weight
        np.testing.assert_allclose(terms[name].sum / terms[name].units, np.mean(values ** 2), rtol=1e-5)
    assert [term.name for term in model.loss_terms(batch, training=False)[0]] == ["loss"]


@pytest.mark.parametrize("adaptive", [None, {"cutoffs": [2], "factor": 1.0}])
def test_a_classifier_may_also_learn_to_predict_tokens(root: Path, adaptive: dict[str, Any] | None):
    cell = {**CELL, "weight_tied": True, "adaptive_softmax": adaptive}
    model = built({**classifier(root), "decoder": "SoftmaxDecoder", "encoder_params": cell, "lm_loss_weight": 0.5})
    ids = np.array([[0, 1, 2, 0], [0, 3, 0, 0], [0, 0, 0, 0]], np.int32)  # the last row is empty, others have padding
    lengths = np.array([4, 3, 0], np.int32)
    batch = {"source_tensors": [tf.constant(ids), tf.constant(lengths)],
             "target_tensors": [tf.constant([1, 0, 0])], "ids": tf.constant([0, 1, -1])}
    terms = {term.name: term for term in model.loss_terms(batch, training=True)[0]}
    assert set(terms) == {"loss", "loss of next tokens"} and terms["loss of next tokens"].weight == 0.5
    hidden = model.encoder.encode({"source_tensors": batch["source_tensors"]}, False)["outputs"]
    negative_log_probs = -tf.nn.log_softmax(model.encoder.output_layer.logits(hidden)).numpy()
    expected = [negative_log_probs[row, t, ids[row, t + 1]] for row in (0, 1) for t in range(lengths[row] - 1)]
    np.testing.assert_allclose(terms["loss of next tokens"].sum, np.sum(expected), rtol=1e-5)
    assert terms["loss of next tokens"].units == len(expected)
    assert [term.name for term in model.loss_terms(batch, training=False)[0]] == ["loss"]


def test_the_loss_of_tokens_is_refused_where_nothing_computes_it(root: Path):
    weight = {"lm_loss_weight": 0.5}
    assert "set 'decoder' to SoftmaxDecoder" in refusal({**classifier(root), **weight})
    assert "applies only to classification" in refusal({**language_model(root), **weight})
    assert "such as LMEncoder" in refusal({**classifier(root), **TRANSFORMER, "decoder": "SoftmaxDecoder", **weight})


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
    "encoder": (language_model, TRANSFORMER, "LSTMLM", "such as LMEncoder"),
    "classes": (classifier, {}, "LanguageModel", "'data_layer' is SSTDataLayer, but a language model needs one of "),
    "loss of a classifier": (classifier, {"loss": "BasicSequenceLoss"}, "LSTMLM", "set 'loss' to CrossEntropyLoss"),
    "no classes": (language_model, {}, "Text2Label", "'data_layer' is WKTDataLayer, but a classifier needs one of "),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_class_that_does_not_suit_the_task_is_named(root: Path, name: str):
    params_in, changed, base_model, expected = UNFIT[name]
    assert expected in refusal({**params_in(root), **changed}, base_model=base_model)


def test_inference_needs_no_loss(root: Path):
    params = {**language_model(root), "loss": "CrossEntropyLoss", "loss_params": {}}
    built(language_model(root))  # writes the vocabulary
    assert built({**params, "lm_vocab_file": str(root / "lm/vocab.txt")}, "infer") is not None


@pytest.mark.parametrize(("loss", "num_sampled", "expected"), [
    ("BasicSampledSequenceLoss", None, "num_sampled', the number of ids that it samples, is missing"),
    ("BasicSequenceLoss", 2, "but BasicSequenceLoss does not sample the vocabulary")])
def test_sampling_needs_both_the_loss_and_the_number(root: Path, loss: str, num_sampled: int | None, expected: str):
    params = {**language_model(root), "loss": loss, "encoder_params": {**CELL, "num_sampled": num_sampled}}
    assert expected in refusal(params)
    assert built(params, "eval") is not None  # evaluation uses the whole vocabulary


@pytest.mark.parametrize("loss", ["BasicSampledSequenceLoss", OwnLoss])
def test_sampling_with_both_and_with_an_own_loss(root: Path, loss: Any):
    given = SEQUENCE_LOSS if isinstance(loss, str) else {}
    assert built({**language_model(root), "loss": loss, "loss_params": given,
                  "encoder_params": {**CELL, "num_sampled": 2}}) is not None


def test_only_generation_is_a_search(root: Path):
    generating = built(language_model(root), "interactive_infer")
    assert generating.searches
    assert not built({**language_model(root), "infer_task": "score"}, "interactive_infer").searches
    assert not built(language_model(root), "eval").searches
    built(classifier(root))  # writes the vocabulary
    assert not built(classifier(root), "interactive_infer").searches
