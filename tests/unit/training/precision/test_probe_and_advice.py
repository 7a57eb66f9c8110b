"""The probe sees the true numbers, and the advice holds in the half types themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.losses import LossTerm
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.optimizers.dtype import FLOAT16
from open_seq2seq.optimizers.underflow import count_lost
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.training.precision import (
    Conversion,
    Kind,
    PrecisionProbe,
    advise,
    by_layer,
    conversions_of,
    format_report,
    pick_batches,
)

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "own_config.py"
CONVERSIONS = conversions_of([2.0**14])


def build(dtype="float32", owner=None, mode="train"):
    config = resolve(load_config(str(EXAMPLE)), mode)
    params = {**config.params(mode), "dtype": dtype}
    return build_model(describe_model(config.base_model, params, mode, config.given(mode)), 1, owner)


def in_half(model, dtype):
    """The same model in half arithmetic; a shared Keras layer would stay in float32."""
    half = build(dtype)
    for name, variable in named_variables(half).items():
        variable.assign(named_variables(model)[name])
    return half


def weigh_loss(model, weight):
    compute = model.loss.compute_loss
    model.loss.compute_loss = lambda tensors: [LossTerm(t.sum, t.units, weight, t.unit) for t in compute(tensors)]


def report(model, batches=2):
    found = PrecisionProbe(model, CONVERSIONS).run(pick_batches(model, batches))
    groups = {kind: by_layer(ranges) for kind, ranges in found.items()}
    return found, advise(groups, 2.0**14), groups


def gradients_of(model, batch, scale):
    variables = named_variables(model)

    @tf.function(autograph=False)
    def run():
        with tf.GradientTape() as tape:
            tape.watch(list(variables.values()))
            with forward_pass():
                (term,), _ = model.loss_terms(batch, training=True)
            loss = term.sum / term.units * term.weight * scale
        return tape.gradient(loss, variables)

    return run()


@pytest.mark.long
def test_ranges_are_those_of_the_tensors_themselves():
    model = build()
    found, _, _ = report(model, batches=1)
    (batch,) = pick_batches(model, 1)
    assert set(found[Kind.ACTIVATIONS]) == {"encoder/outputs", "decoder/logits"}
    assert set(found[Kind.ACTIVATION_GRADIENTS]) == set(found[Kind.ACTIVATIONS])
    outputs = model.encoder.encode({"source_tensors": batch["source_tensors"]})["outputs"].numpy()
    seen = found[Kind.ACTIVATIONS]["encoder/outputs"]
    assert seen.total == outputs.size and seen.largest == pytest.approx(np.abs(outputs).max(), rel=1e-5)
    gradients = gradients_of(model, batch, 1.0)
    assert set(found[Kind.WEIGHT_GRADIENTS]) == set(gradients)
    for name, gradient in gradients.items():
        dense = np.abs(tf.convert_to_tensor(gradient).numpy())
        seen = found[Kind.WEIGHT_GRADIENTS][name]
        assert seen.total == dense.size and seen.largest == pytest.approx(dense.max(), rel=1e-4)
        assert seen.zeros == (dense == 0).sum()


@pytest.mark.long
def test_advice_on_activations_that_overflow_is_true():
    model = build()
    model.encoder.table.assign(model.encoder.table * 1e6)
    _, advice, _ = report(model)
    assert any(line.startswith("activations of encoder exceed 65504") for line in advice), advice
    assert any(line.startswith("bfloat16 is safe") for line in advice)
    (batch,) = pick_batches(model, 1)
    for dtype, fits in (("mixed_float16", False), ("mixed_bfloat16", True)):
        half = in_half(model, dtype)
        outputs = half.encoder.encode({"source_tensors": batch["source_tensors"]})["outputs"]
        assert bool(tf.reduce_all(tf.math.is_finite(tf.cast(outputs, tf.float32)))) == fits, dtype


def test_advice_on_gradients_that_vanish_is_true():
    model = build()
    weigh_loss(model, 1e-5)
    _, advice, groups = report(model)
    (line,) = [text for text in advice if text.startswith("gradients of decoder:")]
    least, greatest = (int(word.rstrip(",.")) for word in
                       (line.split("2^")[1].split()[0], line.split("2^")[2].split()[0]))
    assert groups[Kind.WEIGHT_GRADIENTS]["decoder"].share_lost(Conversion(FLOAT16)) > 0.01
    half = in_half(model, "mixed_float16")
    weigh_loss(half, 1e-5)
    (batch,) = pick_batches(model, 1)

    def share(scale):
        lost, judged = count_lost(gradients_of(half, batch, scale)["decoder/kernel"])
        return float(lost / judged)

    assert share(1.0) > 0.05 and share(2.0**least) < 0.01
    for exponent, fits in ((greatest - 2, True), (greatest + 2, False)):
        gradients = gradients_of(half, batch, 2.0**exponent).values()
        finite = [bool(tf.reduce_all(tf.math.is_finite(tf.convert_to_tensor(g)))) for g in gradients]
        assert all(finite) == fits, exponent


def test_a_scale_beyond_backoffs_limit_is_said():
    model = build()
    weigh_loss(model, 1e-9)
    advice = report(model)[1]
    assert any("if \"loss_scaling_params\" sets scale_max to 2^" in line for line in advice), advice


def test_numbers_that_are_nan_in_float32_are_the_weights_fault():
    model = build()
    model.decoder.kernel.assign(model.decoder.kernel * np.nan)
    assert report(model)[1][0].startswith("activations of decoder: 100 % of the values are infinite or NaN")


def test_evaluation_data_run_without_dropout():
    model = build(mode="eval", owner=build())
    found, _, _ = report(model)
    assert found[Kind.WEIGHT_GRADIENTS]["decoder/kernel"].nonzero


def test_the_report_is_markdown_with_a_row_for_each_layer_or_tensor():
    model = build()
    found = PrecisionProbe(model, CONVERSIONS).run(pick_batches(model, 1))
    text, detailed = (format_report(found, CONVERSIONS, 2.0**14, detailed) for detailed in (False, True))
    assert "## Advice" in text and "| encoder/dense | " in text and "| encoder/dense/kernel | " in detailed
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("| layer")]
    assert len(tables) == 3 and all(len({line.count("|") for line in table}) == 1 for table in tables)
    assert "float16 × 2^14" not in tables[0][0] and "bfloat16 × 2^14" in tables[1][0]
