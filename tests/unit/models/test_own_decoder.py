"""The documented decoder of one's own, which has nothing but the hooks, in a model that a config describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.models import Text2Text
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.passes import EvaluationPass, InferencePass

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "own_decoder.py"
SIZES = {"hidden_size": 8, "num_heads": 2, "filter_size": 16, "attention_dropout": 0.0, "relu_dropout": 0.0,
         "layer_postprocess_dropout": 0.0, "encoder_layers": 1, "remove_padding": True}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("letters")
    (folder / "vocab.txt").write_text("a\nb\nc\nd\n", encoding="utf-8")
    (folder / "lines.txt").write_text("a b c\nd\nb b a\nc d a b a\na\n", encoding="utf-8")
    return folder


@pytest.fixture
def make(corpus):
    """Builds the model of one mode; with ``owner`` it shares that model's weights."""
    def make(mode: str = "infer", owner: Any = None, batch_size: int = 2, dtype: str = "float32",
             **decoder: Any) -> Text2Text:
        spec = describe_model("Text2Text", {
            "batch_size_per_gpu": batch_size, "dtype": dtype, "write_scores": True,
            "data_layer": "ParallelTextDataLayer", "data_layer_params": {
                "src_vocab_file": f"{corpus}/vocab.txt", "tgt_vocab_file": f"{corpus}/vocab.txt",
                "source_file": f"{corpus}/lines.txt", "target_file": f"{corpus}/lines.txt", "max_length": 16,
                "special_tokens_already_in_vocab": False, "use_start_token": False, "delimiter": " "},
            "encoder": "TransformerEncoder", "encoder_params": SIZES, "loss": "PaddedCrossEntropyLossWithSmoothing",
            "decoder": f"{EXAMPLE}:BagDecoder", "decoder_params": {"hidden_size": 8, **decoder}}, mode)
        return build_model(spec, 5, owner)  # type: ignore[return-value]
    return make


def encoded(model: Text2Text) -> tuple[dict[str, Any], list[tf.Tensor]]:
    batch = tf.nest.map_structure(tf.convert_to_tensor, model.data_layer.make_batch(np.arange(5)))
    return model.encoder.encode(batch), batch["target_tensors"]


def lines(model: Text2Text, path: Path) -> list[str]:
    InferencePass(model, Runner()).run(str(path))
    return path.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_steps_are_those_of_training(make, dtype: str):
    model = make("eval", dtype=dtype)
    output, (ids, lengths) = encoded(model)
    decoder = model.decoder
    forced = decoder.decode({"encoder_output": output, "target_tensors": [ids, lengths]})["logits"]
    cache, prepared = decoder.initial_cache(output, 2), decoder.prepare(output)
    last = tf.zeros_like(ids[:, 0])
    for step in range(ids.shape[1]):
        logits, cache = decoder.step(tf.repeat(last[:, None], 2, 1), tf.constant(step), cache, prepared)
        np.testing.assert_allclose(logits, tf.repeat(forced[:, step:step + 1], 2, 1), atol=1e-5)
        last = ids[:, step]


@pytest.mark.long
def test_it_is_evaluated_searched_and_sampled(make, tmp_path):
    trained = make("eval")
    metrics = EvaluationPass(trained, Runner()).run()
    assert np.isfinite(metrics["val_loss"]) and "Eval_BLEU_Score" in metrics
    searched = lines(make(owner=trained, beam_size=3, n_best=2, alpha=0.6), tmp_path / "beam.txt")
    assert [line.split("\t")[0] for line in searched] == [str(row) for row in range(5) for _ in range(2)]
    greedy = lines(make(owner=trained), tmp_path / "greedy.txt")
    assert lines(make(owner=trained, sampling_temperature=9.0, sampling_top_k=1), tmp_path / "one.txt") == greedy
    options = {"sampling_temperature": 1.0, "n_best": 4}
    samples = lines(make(owner=trained, **options), tmp_path / "samples.txt")
    assert len(samples) == 20 and len(set(samples)) > 10
    one_by_one = lines(make(owner=trained, batch_size=1, **options), tmp_path / "alone.txt")
    assert [line.split("\t")[2] for line in samples] == [line.split("\t")[2] for line in one_by_one]


def test_everything_learns(make):
    model = make("train")
    batch = tf.nest.map_structure(tf.convert_to_tensor, model.data_layer.make_batch(np.arange(5)))
    with tf.GradientTape() as tape:
        terms, _ = model.loss_terms(batch, False)
    learned = named_variables(model)
    assert {name for name in learned if name.startswith("decoder")} == {
        "decoder/table_0", "decoder/table_1", "decoder/kernel"}
    for name, gradient in tape.gradient(terms[0].sum, learned).items():
        assert gradient is not None and np.any(tf.convert_to_tensor(gradient)), name
