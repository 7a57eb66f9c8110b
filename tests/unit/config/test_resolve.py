import pytest
import tensorflow as tf

from open_seq2seq.config.loader import ConfigFile
from open_seq2seq.config.overrides import parse_overrides
from open_seq2seq.config.resolve import Benchmark, resolve
from open_seq2seq.utils.errors import ConfigError

BASE = {"logdir": "x", "batch_size_per_gpu": 4, "max_steps": 100, "eval_steps": 10, "decoder": "Greedy",
        "decoder_params": {"size": 8, "dropout": 0.1}}


def config(base=None, **sections) -> ConfigFile:
    return ConfigFile("/c.py", "Model", {"base_params": {**BASE, **(base or {})},
                                         **{f"{name}_params": section for name, section in sections.items()}})


def resolved(*arguments, mode="train", base=None, benchmark=None, **sections):
    return resolve(config(base, **sections), mode, parse_overrides(arguments), benchmark)


def problems_of(*arguments, **kwargs) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolved(*arguments, **kwargs)
    return caught.value.problems


def test_command_line_beats_every_section():
    result = resolved("--batch_size_per_gpu=7", mode="train_eval", train={"batch_size_per_gpu": 5},
                      eval={"batch_size_per_gpu": 6})
    assert result.sections == ("train", "eval")
    assert [result.params(s)["batch_size_per_gpu"] for s in ("train", "eval", "infer")] == [7, 7, 7]


def test_override_of_one_section():
    result = resolved("--eval_params/batch_size_per_gpu=7", mode="train_eval")
    assert [result.params(s)["batch_size_per_gpu"] for s in ("train", "eval")] == [4, 7]


@pytest.mark.parametrize(("arguments", "base", "lengths"), [
    (["--max_steps=5"], {"max_steps": None, "num_epochs": 3}, (5, None)),
    (["--num_epochs=2"], {}, (None, 2)),
    (["--train_params/num_epochs=2"], {}, (None, 2)),
    (["--eval_params/num_epochs=2"], {}, (100, None)),
    (["--num_epochs=None"], {}, (100, None)),
])
def test_a_length_on_the_command_line_replaces_the_other_one_of_the_config(arguments, base, lengths):
    result = resolved(*arguments, base=base)
    assert (result.params("train")["max_steps"], result.params("train").get("num_epochs")) == lengths
    again = resolve(ConfigFile("/c.py", "Model", {name: section for name, section in result.as_sections().items()
                                                  if name != "base_model"}), "train")
    assert again.params("train") == result.params("train")


def test_two_lengths_on_the_command_line_are_refused():
    assert "'max_steps' is 3 and 'num_epochs' is 2" in problems_of("--max_steps=3", "--num_epochs=2")[0]


def test_params_are_copies():
    result = resolved()
    result.params("train")["decoder_params"]["size"] = 9
    assert result.params("train")["decoder_params"]["size"] == 8


def test_interactive_falls_back_on_infer():
    result = resolved("--infer_params/decoder_params/beam=3", mode="interactive_infer", infer={"a": 1})
    assert result.params("interactive_infer")["a"] == 1
    assert result.params("interactive_infer")["decoder_params"]["beam"] == 3
    own = resolved(mode="interactive_infer", infer={"a": 1}, interactive_infer={"b": 1})
    assert "a" not in own.params("interactive_infer") and own.params("interactive_infer")["b"] == 1


def test_given_tells_swapped_classes_from_repeated_ones():
    sections = {"infer": {"decoder": "Beam", "decoder_params": {"width": 2}}, "train": {"decoder": "Greedy"}}
    result = resolved("--decoder_params/alpha=1.0", mode="infer", **sections)
    assert result.given("infer") == {"decoder": "Beam", "decoder_params": {"width": 2, "alpha": 1.0}}
    assert result.given("train") == {"decoder_params": {"alpha": 1.0}}
    assert resolved("--decoder=Other").given("train") == {"decoder": "Other"}


def test_benchmark_rewrites_the_training():
    result = resolved("--logdir=y", mode="train_eval", benchmark=Benchmark(30),
                      base={"max_steps": None, "num_epochs": 3, "print_samples_steps": 7, "bench_start": 4})
    params = result.params("train")
    assert result.mode == "train" and result.sections == ("train",)
    expected = {"max_steps": 30, "bench_start": 4, "logdir": "", "print_loss_steps": 1, "print_samples_steps": None,
                "save_summaries_steps": None, "save_checkpoint_steps": None}
    assert {key: params[key] for key in expected} == expected and "num_epochs" not in params
    assert resolved(benchmark=Benchmark(30)).params("train")["bench_start"] == 10
    assert resolved(benchmark=Benchmark(30, 0)).params("train")["bench_start"] == 0


@pytest.mark.parametrize(("base", "mode", "text"), [
    ({"max_steps": None}, "train", "'max_steps' or 'num_epochs' is missing"),
    ({"num_epochs": 2}, "train", "'max_steps' is 100 and 'num_epochs' is 2"),
    ({"print_samples_steps": 15, "print_loss_steps": 10}, "train", "multiple of 'print_loss_steps', which is 10"),
    ({"eval_steps": None}, "train_eval", "'eval_steps' is missing"),
    ({"average_checkpoints": 3}, "train", "'average_checkpoints' is 3 but 'save_checkpoint_steps'"),
    ({"loss_scaling": "Backof"}, "train", "Did you mean 'Backoff'?"),
    ({"loss_scaling": 0}, "train", "'loss_scaling' is 0"), ({"loss_scaling": True}, "train", "'loss_scaling' is True"),
    ({"loss_scaling": "nan"}, "train", "'loss_scaling' is 'nan'"),
    ({"loss_scaling": [1]}, "train", "'loss_scaling' is [1]"),
    ({"dtype": tf.float16}, "train", '\'dtype\' is tf.float16, but training purely in half precision'),
    ({"dtype": "float16"}, "eval", 'use "mixed_float16"'), ({"dtype": tf.bfloat16}, "eval", 'use "mixed_bfloat16"'),
    ({"dtype": "mixd"}, "train", "Did you mean 'mixed'?"), ({"dtype": tf.int32}, "train", "'dtype' is tf.int32"),
    ({"dtype": 16}, "train", "'dtype' is 16"),
])
def test_bad_model_parameters(base, mode, text):
    problems = problems_of(base=base, mode=mode)
    assert len(problems) == 1 and text in problems[0]


@pytest.mark.parametrize(("key", "given", "standard"), [
    ("dtype", tf.float32, "float32"), ("dtype", "tf.float32", "float32"), ("dtype", "mixed", "mixed"),
    ("loss_scaling", "backoff", "Backoff"), ("loss_scaling", "LOGMAX", "LogMax"), ("loss_scaling", 512, 512.0),
    ("loss_scaling", "512.0", 512.0), ("loss_scaling", None, None),
])
def test_standard_forms(key, given, standard):
    value = resolved(base={key: given}).params("train")[key]
    assert value == standard and type(value) is type(standard)


def test_loss_scaling_name_can_become_a_number():
    assert resolved("--loss_scaling=128", base={"loss_scaling": "Backoff"}).params("train")["loss_scaling"] == 128.0


def test_problems_of_all_kinds_and_sections_come_together_once():
    problems = problems_of("--logdir/x=1", mode="train_eval", base={"dtype": "half", "max_steps": None, "list": [1]},
                           train={"decoder_params": 3}, eval={"list": {"a": 1}})
    assert len(problems) == 5
    assert len(set(problems)) == 5


def test_training_checks_do_not_disturb_other_modes():
    base = {"max_steps": None, "eval_steps": None, "print_samples_steps": 3, "print_loss_steps": 2}
    for mode in ("eval", "infer", "interactive_infer"):
        assert resolved(mode=mode, base=base).params(mode)["max_steps"] is None


def test_check_model_sees_each_section_and_is_collected():
    seen = []

    def extra(model, params, section, given):
        seen.append((model, params["batch_size_per_gpu"], section, given))
        return [f"bad {section}"]

    with pytest.raises(ConfigError) as caught:
        resolve(config(eval={"batch_size_per_gpu": 9}, base={"dtype": "x"}), "train_eval", [], None, extra)
    assert seen == [("Model", 4, "train", {}), ("Model", 9, "eval", {"batch_size_per_gpu": 9})]
    assert caught.value.problems[1:] == ["bad train", "bad eval"]


def test_unknown_mode():
    with pytest.raises(ConfigError, match="Did you mean 'train_eval'"):
        resolve(config(), "train_evl")


def test_a_broken_section_of_another_mode_is_no_obstacle():
    result = resolved(infer={"decoder_params": 3})
    with pytest.raises(ConfigError):
        result.params("infer")
