"""Suggestions at any depth, dropped keys, and classes and functions that the command line replaces."""

from __future__ import annotations

from typing import Any

import pytest

from open_seq2seq.config.loader import ConfigFile
from open_seq2seq.config.overrides import parse_overrides
from open_seq2seq.config.resolve import ResolvedConfig, resolve
from open_seq2seq.models.builder import describe_model
from open_seq2seq.utils.errors import ConfigError

BASE = {
    "batch_size_per_gpu": 4, "max_steps": 10, "logdir": "x", "eval_steps": 5,
    "optimizer": "LazyAdam", "optimizer_params": {"beta1": 0.9, "beta2": 0.99},
    "lr_policy": "transformer_policy", "lr_policy_params": {"learning_rate": 1.0, "warmup_steps": 10, "d_model": 16},
    "encoder": "TransformerEncoder",
    "encoder_params": {"encoder_layers": 1, "hidden_size": 16, "num_heads": 2, "attention_dropout": 0.1,
                       "filter_size": 32, "relu_dropout": 0.1, "layer_postprocess_dropout": 0.1,
                       "remove_padding": True},
    "decoder": "TransformerDecoder",
    "decoder_params": {"num_hidden_layers": 1, "hidden_size": 16, "num_heads": 2, "attention_dropout": 0.1,
                       "filter_size": 32, "relu_dropout": 0.1, "layer_postprocess_dropout": 0.1, "beam_size": 2,
                       "alpha": 0.6, "extra_decode_length": 2, "EOS_ID": 1},
    "loss": "PaddedCrossEntropyLossWithSmoothing", "data_layer": "ParallelTextDataLayer",
    "data_layer_params": {"src_vocab_file": "v", "tgt_vocab_file": "v", "source_file": "s", "target_file": "t",
                          "max_length": 24, "delimiter": " "},
}


def description_problems(*section: Any) -> list[str]:
    try:
        describe_model(*section)
    except ConfigError as error:
        return error.problems
    return []


def config_of(*arguments: str, mode: str = "train", **sections: dict) -> ResolvedConfig:
    given = {"base_params": BASE, **{f"{name}_params": value for name, value in sections.items()}}
    return resolve(ConfigFile("/c.py", "Text2Text", given), mode, parse_overrides(arguments), None,
                   description_problems)


def problem_of(*arguments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        config_of(*arguments)
    problem, *others = caught.value.problems
    assert not others
    return problem


@pytest.mark.parametrize(("argument", "paths"), [
    ("--beam_size=8", ["decoder_params/beam_size"]),
    ("--learning_rate=3", ["lr_policy_params/learning_rate"]), ("--lr=3", ["lr_policy_params/learning_rate"]),
    ("--layer_postprocess_dropout=0.2",
     ["encoder_params/layer_postprocess_dropout", "decoder_params/layer_postprocess_dropout"]),
    ("--beta1=0.8", ["optimizer_params/beta1"]), ("--epochs=3", ["num_epochs"]),
    ("--encoder_params/beam_size=3", ["decoder_params/beam_size"]),
    ("--warmup_step=3", ["lr_policy_params/warmup_steps"]), ("--max_step=3", ["max_steps"]),
])
def test_a_parameter_is_suggested_at_its_full_path(argument, paths):
    assert problem_of(argument).endswith("Did you mean " + " or ".join(f"'{path}'" for path in paths) + "?")


def test_nothing_is_suggested_for_an_unrelated_name():
    assert problem_of("--quux=3") == "Unknown parameter 'quux'."


def test_a_policy_and_an_optimizer_of_the_command_line_lose_the_old_parameters():
    for mode in ("train", "train_eval"):
        config = config_of("--lr_policy=fixed_lr", "--optimizer=Momentum", "--optimizer_params/momentum=0.8", mode=mode)
        for section in config.sections:
            params = config.params(section)
            assert params["lr_policy_params"] == {"learning_rate": 1.0}
            assert params["optimizer_params"] == {"momentum": 0.8}


def test_what_is_typed_for_the_new_class_is_checked():
    assert "lr_policy_params/warmup_steps" in problem_of("--lr_policy=fixed_lr", "--lr_policy_params/warmup_steps=3")
    # The same class under another name is no change.
    assert config_of("--optimizer=open_seq2seq.optimizers.LazyAdam").params("train")["optimizer_params"] == (
        BASE["optimizer_params"])


def test_the_saved_config_of_a_replaced_class_can_be_used_again():
    config = config_of("--lr_policy=fixed_lr", "--decoder=ConvS2SDecoder",
                       *(f"--decoder_params/{key}={value}" for key, value in {
                           "shared_embed": False, "tgt_emb_size": 8, "conv_nchannels_kwidth": "[[8,3]]",
                           "out_emb_size": 8, "max_input_length": 24, "embedding_dropout_keep_prob": 1.0,
                           "hidden_dropout_keep_prob": 1.0, "out_dropout_keep_prob": 1.0}.items()),
                       train={"lr_policy_params": {"warmup_steps": 12}})
    assert "num_heads" not in config.params("train")["decoder_params"]
    saved = config.as_sections()
    again = ConfigFile("/c.yaml", saved.pop("base_model"), saved)
    for mode in ("train", "infer"):
        assert resolve(again, mode, [], None, description_problems).params(mode).items() >= {
            "decoder": "ConvS2SDecoder", "lr_policy": "fixed_lr"}.items()


def test_a_key_is_dropped_in_all_sections_or_in_one():
    config = config_of("--eval_params/optimizer_params/beta1=<drop>", "--encoder_params/relu_dropout=0.3",
                       "--logdir=<drop>", mode="train_eval", eval={"max_steps": 7})
    train, evaluation = (config.params(name) for name in ("train", "eval"))
    assert "logdir" not in train and "logdir" not in evaluation
    assert train["optimizer_params"] == BASE["optimizer_params"] and evaluation["optimizer_params"] == {"beta2": 0.99}
    saved = config.as_sections()
    again = resolve(ConfigFile("/c.yaml", saved.pop("base_model"), saved), "train_eval")
    assert again.params("train") == train and again.params("eval") == evaluation
    # A key that only another section gives is no mistake.
    assert config_of("--eval_slots=<drop>", eval={"eval_slots": 2}).params("train")["eval_steps"] == 5


def test_what_is_not_given_cannot_be_dropped():
    assert problem_of("--logdr=<drop>") == (
        "'--logdr' cannot be dropped, because the config does not set it. Did you mean 'logdir'?")
