"""What a run in mixed computes in bfloat16: by the config, by the run that is resumed, by the processor."""

from __future__ import annotations

import pytest
import tensorflow as tf

from open_seq2seq.models import Model
from open_seq2seq.models.builder import ModelSpec
from open_seq2seq.parts.precision import KINDS
from open_seq2seq.runners import Runner
from open_seq2seq.runners import processor_speed as choice
from open_seq2seq.runners.processor_speed import LEAST_GAIN, choice_of, layer_gains, settle_precision
from open_seq2seq.utils.errors import CheckpointError, ConfigError


class OtherRank(Runner):
    """A rank that is not the first one, which has the value given."""

    process_rank = 1

    def __init__(self, value):
        self.value = value

    def share(self, value):
        return self.value


def specs_of(*sections):
    names = ("train", "eval")
    return {name: ModelSpec(Model, dict(params), name) for name, params in zip(names, sections, strict=False)
            if params is not None}


def speeds_of(gains):
    """Speeds of a processor that is equally fast in all operations in float32."""
    return {kind: {"float32": 100.0, "bfloat16": 100.0 * gain} for kind, gain in gains.items()}


@pytest.fixture
def settle(monkeypatch, capsys):
    """Settles the sections of a run; returns (their choices, what was printed)."""
    def call(*sections, gains=None, runner=None, state=None):
        def measured():
            assert gains is not None, "nothing is to be measured"
            return speeds_of(gains)

        monkeypatch.setattr(choice, "machine_speeds", measured)
        specs = settle_precision(specs_of(*sections), runner or Runner(), state)
        return [spec.params.get("mixed_choice") for spec in specs.values()], capsys.readouterr().out

    return call


def gains(product, recurrence, convolution):
    return {"product": product, "recurrence": recurrence, "convolution": convolution}


MIXED = {"dtype": "mixed"}


@pytest.mark.parametrize(("found", "choice", "said"), [
    (gains(2.0, 1.5, 1.2), list(KINDS), "that is bfloat16 arithmetic on this CPU with FP32 weights"),
    (gains(1.5, 0.6, 1.09), ["product"], "here bfloat16 in products, float32 elsewhere"),
    (gains(LEAST_GAIN, 1.5, 1.0), ["product", "recurrence"], "bfloat16 in products and recurrences, float32 elsewhere"),
    (gains(0.9, 1.2, 1.5), ["convolution"], "bfloat16 in convolutions, float32 elsewhere"),
    (gains(0.75, 0.7, 0.4), [], "here float32 everywhere")])
def test_what_gains_is_chosen_and_said_in_lines_that_fit_a_terminal(settle, found, choice, said):
    choices, output = settle(MIXED, MIXED, gains=found)
    assert choices == [choice, choice]
    assert said in output and len(output.splitlines()) == 2 and max(map(len, output.splitlines())) <= 80
    assert all(f"{kind}s {gain:.2f}×" in output for kind, gain in layer_gains(speeds_of(found), training=True).items())


def test_a_recurrent_layer_gains_from_its_products_over_all_steps():
    # 12 products of equal size take 12 units of time in float32: 8 outside the loop and 4 within it.
    found = layer_gains(speeds_of(gains(2.0, 1.0, 1.3)), training=True)
    assert found == pytest.approx(gains(2.0, 12 / (8 / 2 + 4 / 1), 1.3))
    # If small products are half as fast as large ones in float32, those within the loop take 8 units of time.
    slow_steps = {**speeds_of(gains(2.0, 1.0, 1.3)), "recurrence": {"float32": 50.0, "bfloat16": 50.0}}
    assert layer_gains(slow_steps, training=True)["recurrence"] == pytest.approx(16 / (8 / 2 + 8 / 1))


def test_outside_of_training_the_loop_itself_must_gain(settle):
    found = gains(2.0, 0.9, 1.3)
    assert layer_gains(speeds_of(found), training=False) == pytest.approx(found)
    assert settle(MIXED, gains=found)[0] == [list(KINDS)]
    assert settle(None, MIXED, gains=found)[0] == [["product", "convolution"]]


def test_the_config_has_the_first_word_and_the_resumed_run_the_second(settle):
    slow, by_hand = gains(0.5, 0.5, 0.5), {**MIXED, "mixed_choice": ["convolution", "product"]}
    state = {"mixed_choice": ["recurrence"]}
    assert settle(MIXED, gains=slow)[0] == [[]]
    choices, output = settle(MIXED, state=state)
    assert choices == [["recurrence"]] and "as in the checkpoint" in output
    choices, output = settle(by_hand, state=state)
    assert choices == [["product", "convolution"]] and "this run used ['recurrence'] before" in output
    choices, output = settle({**MIXED, "mixed_choice": []}, state=None)
    assert choices == [[]] and "set by mixed_choice" in output
    for older in ({}, {"mixed_choice": None}):
        assert settle(MIXED, gains=slow, state=older)[0] == [[]]


def test_the_first_rank_measures_and_the_others_follow(settle):
    choices, output = settle(MIXED, runner=OtherRank((["product"], "as the first rank says")))
    assert choices == [["product"]] and "as the first rank says" in output


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_other_types_leave_no_choice(settle, dtype):
    choices, output = settle({"dtype": dtype}, state={"mixed_choice": []})
    assert choices == [None] and f"dtype: {dtype}" in output


def test_on_a_gpu_nothing_is_measured(settle, monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["gpu"])
    choices, output = settle(MIXED, MIXED)
    assert choices == [None, None] and "float16 arithmetic on this GPU" in output


def test_sections_in_other_types_stay(settle):
    assert settle({"dtype": "float32"}, MIXED, gains=gains(2.0, 2.0, 2.0))[0] == [None, list(KINDS)]


def test_sections_have_one_choice(settle):
    with pytest.raises(ConfigError, match="mixed_choice.*base_params"):
        settle({**MIXED, "mixed_choice": ["product"]}, {**MIXED, "mixed_choice": []})


@pytest.mark.parametrize("kept", ["product", ["products"], {"product": 1}, [["product"]], 3])
def test_a_state_that_no_run_wrote_is_refused(settle, kept):
    with pytest.raises(CheckpointError, match="set mixed_choice"):
        settle(MIXED, state={"mixed_choice": kept})


def test_what_a_checkpoint_keeps():
    assert choice_of({"dtype": "mixed", "mixed_choice": ["convolution"]}) == ["convolution"]
    assert choice_of({"dtype": "mixed", "mixed_choice": None}) == list(KINDS)
    assert choice_of({"dtype": "mixed_bfloat16", "mixed_choice": ["product"]}) is None
