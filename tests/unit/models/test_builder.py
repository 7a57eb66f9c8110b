"""From parameters to a model: classes by name, derived parameters, shared variables."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from open_seq2seq.config.loader import load_config
from open_seq2seq.config.resolve import resolve
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.utils.errors import ConfigError

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def spec_of(mode="train", **changes):
    config = resolve(load_config(str(EXAMPLES / "own_config.py")), mode)
    return describe_model(config.base_model, {**config.params(mode), **changes}, mode, config.given(mode))


def test_equal_seeds_give_equal_models_and_others_do_not():
    first, second, other = (named_variables(build_model(spec_of(), seed)) for seed in (1, 1, 2))
    assert set(first) == {"encoder/table", "encoder/dense/kernel", "encoder/dense/bias", "decoder/kernel"}
    for name in first:
        assert (first[name].numpy() == second[name].numpy()).all(), name
    for name in ("encoder/table", "encoder/dense/kernel", "decoder/kernel"):
        assert (first[name].numpy() != other[name].numpy()).any(), name


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_arguments_of_a_loss_scaler_that_is_not_used_are_refused_with_other_mistakes(dtype):
    with pytest.raises(ConfigError) as refused:
        spec_of(dtype=dtype, loss_scaling_params={"scale_max": 8.0}, optimizer_params={"momentun": 0.9})
    assert "momentun" in str(refused.value) and "'loss_scaling_params' have no effect" in str(refused.value)
    spec_of(dtype="mixed_float16", loss_scaling_params={"scale_max": 8.0})


def test_kinds_of_operations_that_are_not_names_are_refused():
    with pytest.raises(ConfigError, match="'mixed_choice' contains"):
        spec_of(dtype="mixed", mixed_choice=[["product"]])


def test_an_evaluation_model_shares_every_variable():
    owner = build_model(spec_of(), 1)
    sharing = build_model(spec_of("eval"), variables_of=owner)
    owned, shared = named_variables(owner), named_variables(sharing)
    assert owned.keys() == shared.keys() and all(owned[name] is shared[name] for name in owned)


def test_sharing_what_is_not_there_is_refused():
    owner = build_model(spec_of(), 1)
    wider = spec_of("eval", encoder_params={"num_symbols": 6, "hidden_size": 8})
    with pytest.raises(ConfigError, match="encoder/table"):
        build_model(wider, variables_of=owner)


def test_compute_type_reaches_the_components_and_not_the_loss():
    model = build_model(spec_of(dtype="mixed_bfloat16"))
    assert model.encoder.compute_dtype == model.decoder.compute_dtype == tf.bfloat16
    assert model.loss.compute_dtype == tf.float32
    assert model.encoder.keras_dtype_policy == "mixed_bfloat16"


def test_model_level_initializer_and_regularizer_are_inherited():
    from open_seq2seq.optimizers import l2_regularizer

    model = build_model(spec_of(initializer="RandomUniform", initializer_params={"minval": 2.0, "maxval": 3.0},
                                regularizer="l2_regularizer", regularizer_params={"scale": 4.0}))
    value = model.encoder.make_initializer()((2, 2))
    assert 2.0 <= float(tf.reduce_min(value)) <= float(tf.reduce_max(value)) <= 3.0
    assert model.encoder.params["regularizer"] is l2_regularizer
    assert float(model.encoder.make_regularizer()(tf.ones([2]))) == pytest.approx(4.0)


def test_a_swapped_class_drops_inherited_parameters_that_it_does_not_know():
    config = resolve(load_config(str(EXAMPLES / "own_config.py")), "eval")
    params = config.params("eval")
    params["decoder_params"]["old"] = 1
    with pytest.raises(ConfigError, match="decoder_params/old"):
        describe_model(config.base_model, params, "eval", {})
    spec = describe_model(config.base_model, params, "eval", {"decoder": params["decoder"]})
    assert "old" not in build_model(spec, variables_of=build_model(spec_of())).decoder.params
