"""Untrained models of several families as an ensemble: the mean of their log probabilities, computed with NumPy."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

import open_seq2seq
from open_seq2seq.cli import main
from open_seq2seq.models.builder import build_model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.run.training_setup import describe_sections
from open_seq2seq.utils.errors import UserError
from tests.unit.export.text_models import make_toys

TEXTS = ["α β γ δ", "δ ε", "κ ι θ η ζ ε δ"]
BEAM = {"TT": "beam_size", "CC": "beam_size", "RR": "beam_width"}
SMALL = {"TT": {f"{part}/{name}": size for part in ("encoder_params", "decoder_params") for name, size in
                (("hidden_size", 32), ("filter_size", 64), ("num_heads", 2))},
         "CC": {}, "RR": {}}


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory):
    yield from make_toys(tmp_path_factory.mktemp("toys"))


def made(kind: str, seed: int, beam: int = 1, **values):
    """Returns a model with random weights that are large enough for translations to differ."""
    values = {**SMALL[kind], f"decoder_params/{BEAM[kind]}": beam, "decoder_params/n_best": beam, "dtype": "float32",
              **values}
    options = open_seq2seq.Run(f"nmt-reversal-{kind}", values).options("interactive_infer")
    model, random = build_model(describe_sections(options)["interactive_infer"]), np.random.default_rng(seed)
    for _, variable in sorted(named_variables(model).items()):
        variable.assign(random.normal(0.0, 0.3, variable.shape))
    return model


def joined(first, *others):
    first.join({f"run {number}": other for number, other in enumerate(others)})
    return first


def searched(model, texts=TEXTS, **more) -> tuple[list[list[list[int]]], np.ndarray]:
    """Returns the ids of the hypotheses of each text, with EOS if they have not reached the limit, and their scores."""
    batch = tf.nest.map_structure(tf.constant, model.data_layer.make_interactive_batch(list(texts)))
    limits = model.decoder.limits(model.encoder.encode({"source_tensors": batch["source_tensors"]}, False)).numpy()
    ids, scores, *_ = (value.numpy() for value in model.predict({**batch, **more}))
    return [[one[:one.index(1) + 1] if 1 in one else one[:limit] for one in rows]
            for rows, limit in zip(ids.tolist(), limits, strict=True)], scores


def log_probs(model, text: str, ids: list[int]) -> np.ndarray:
    """Returns the log probabilities ``[time, ids]`` of a model that is given a text and a translation, in float64."""
    has_start = model.data_layer.num_special == 2
    targets = [2, *ids] if has_start else ids
    batch = model.data_layer.make_interactive_batch([text])
    encoded = model.encoder.encode({"source_tensors": [tf.constant(one) for one in batch["source_tensors"]]}, False)
    logits = model.decoder.decode({"encoder_output": encoded, "target_tensors": [
        tf.constant([targets]), tf.constant([len(targets)])]}, False)["logits"].numpy()[0, :len(ids)].astype(np.float64)
    return logits - np.log(np.sum(np.exp(logits), 1, keepdims=True))


@pytest.mark.parametrize("order", [pytest.param(("TT", "RR", "CC"), marks=pytest.mark.long), ("RR", "TT")])
def test_searches_use_the_mean_of_log_probabilities(toys, order):
    models = [made(kind, seed, 1) for seed, kind in enumerate(order)]
    found, _ = searched(joined(*models))
    assert max(len(ids) for (ids,) in found) > 2
    assert found != searched(made(order[0], 0))[0]  # the others had their say
    for text, (ids,) in zip(TEXTS, found, strict=True):
        mean = np.mean([log_probs(model, text, ids) for model in models], 0)
        assert np.argmax(mean, 1).tolist() == ids
    models = [made(kind, seed, 3) for seed, kind in enumerate(order)]
    first = models[0].decoder
    for text, rows, row_scores in zip(TEXTS, *searched(joined(*models)), strict=True):
        assert len(set(map(tuple, rows))) == 3
        for ids, score in zip(rows, row_scores, strict=True):
            mean = np.mean([log_probs(model, text, ids) for model in models], 0)
            penalty = ((5 + len(ids)) / 6) ** first.params[first.alpha_param]
            assert score == pytest.approx(np.sum(mean[np.arange(len(ids)), ids]) / penalty, rel=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_model_with_itself_is_the_model(toys, beam):
    alone, together = searched(made("TT", 1, beam)), searched(joined(made("TT", 1, beam), made("TT", 1, beam)))
    assert alone[0] == together[0]
    np.testing.assert_allclose(alone[1], together[1], rtol=1e-6)


def test_forced_beginnings_and_samples_of_an_ensemble(toys):
    found, _ = searched(joined(made("TT", 0, 2), made("RR", 1)), prefix_tensors=[
        tf.constant([[6, 5], [7, 0], [0, 0]]), tf.constant([2, 1, 0])])
    assert all(ids[:2] == [6, 5] for ids in found[0]) and all(ids[0] == 7 for ids in found[1])
    assert found[2] == searched(joined(made("TT", 0, 2), made("RR", 1)))[0][2]
    likeliest = {"decoder_params/sampling_temperature": 1.0, "decoder_params/sampling_top_k": 1}
    samples = joined(made("TT", 0, **likeliest), made("RR", 1))
    assert searched(samples)[0] == searched(joined(made("TT", 0), made("RR", 1)))[0]


def test_translations_that_begin_with_the_start_token(toys):
    start = {"data_layer_params/use_start_token": True}
    model, prefixes = made("TT", 0, 2, **start), [tf.constant([[6, 5], [7, 0], [0, 0]]), tf.constant([2, 1, 0])]
    first, second, third = searched(model, prefix_tensors=prefixes)[0]
    assert all(ids[:3] == [2, 6, 5] for ids in first) and all(ids[:2] == [2, 7] for ids in second)
    assert third == searched(model)[0][2]
    batch = tf.nest.map_structure(tf.constant, model.data_layer.make_interactive_batch(TEXTS))
    longest = model.predict({**batch, "prefix_tensors": prefixes})[2]
    limits = model.decoder.limits(model.encoder.encode({"source_tensors": batch["source_tensors"]}, False))
    np.testing.assert_array_equal(longest, limits - 1)
    for other in (made("TT", 1), made("RR", 1)):
        with pytest.raises(UserError, match="Either the first model or that of b writes the start token"):
            made("TT", 0, **start).join({"b": other})


def test_scores_of_given_translations_are_means(toys):
    models = [made("TT", 0, 2), made("RR", 1)]
    single = [log_probs(model, "α β", [6, 5, 1]) for model in models]
    layer = joined(*models).data_layer
    batch = tf.nest.map_structure(tf.constant, layer.make_scoring_batch(["α β"], [layer.ids_to_text([6, 5])]))
    assert batch["target_tensors"][0].numpy().tolist() == [[6, 5, 1]]
    total, tokens = models[0].score(batch)
    assert tokens.numpy() == [3]
    assert total.numpy() == pytest.approx(np.mean([one[np.arange(3), [6, 5, 1]].sum() for one in single]), rel=1e-5)


def test_models_that_do_not_fit_are_refused(toys):
    first = made("TT", 0)
    (toys / "others.txt").write_text("a\nb\n", encoding="utf-8")
    for side, name in (("source", "src_vocab_file"), ("target", "tgt_vocab_file")):
        other = made("RR", 1, **{f"data_layer_params/{name}": "others.txt"})
        with pytest.raises(UserError, match=f"model of b has another vocabulary of the {side}"):
            first.join({"b": other})
    other = SimpleNamespace(verb="classify", decoder=None)
    with pytest.raises(UserError, match=r"because the model of b is a SimpleNamespace: an ensemble needs"):
        first.join({"b": other})
    with pytest.raises(UserError, match="'use_start_token' of the data layer differs.* give coverage_penalty=0"):
        made("TT", 0, 2, **{"decoder_params/coverage_penalty": 0.1}).join({"b": made("RR", 1)})
    first, other = (made("TT", seed, 2, **{"decoder_params/coverage_penalty": 0.1}) for seed in (0, 1))
    other.encoder.aligns_outputs = False  # as of a MultiEncoder that puts outputs one after the other
    with pytest.raises(UserError, match="but the number of outputs of the encoder differs .* give coverage_penalty=0"):
        first.join({"b": other})


def test_several_log_directories_only_infer(tmp_path: Path, capsys):
    with pytest.raises(UserError, match="empty list"):
        open_seq2seq.load([])
    with pytest.raises(UserError, match="The folder a does not exist"):
        open_seq2seq.load(["a"])
    assert main(["--mode=eval", "--logdir=2024"]) == 2 and "The folder 2024 does not exist" in capsys.readouterr().err
    for words, said in ((["--mode=train", "--config_file=nmt-reversal-TT"], "but the mode is train: give one logdir"),
                        (["--mode=eval", "--config_file=nmt-reversal-TT"], "but the mode is eval: give one logdir"),
                        (["--mode=export", "--export_dir=c"], "An export contains one model: give one logdir"),
                        (["--mode=report"], "The logdir a does not exist or is not a folder"),
                        (["--mode=infer"], "The folder a does not exist")):
        assert main([*words, "--logdir", "a", "b"]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1, error
