"""Every mode of the command, on a toy corpus."""

from __future__ import annotations

import io
import json
import re

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def newest(workspace, sub="run"):
    found = sorted((workspace / sub).glob("model.ckpt-*"), key=lambda p: int(p.name.split("-")[1]))
    return found[-1]


def test_train_eval_then_eval_and_infer(workspace, command):
    code, out, err = command("--mode=train_eval", "--print_samples_steps=4", "--save_summaries_steps=4",
                             "--summaries=[learning_rate, gradients, gradient_norm, variables, variable_norm]")
    assert code == 0, err
    for text in ("Training and evaluating ", "Model: Text2Text with TransformerEncoder, TransformerDecoder\n",
                 "200 training examples", "20 validation examples", "Parameters: 5,600, on ",
                 "Starting training from scratch", "Train source:", "Validation loss:", "BLEU:", "tokens/s", " left",
                 "Finished training"):
        assert text in out, text
    assert newest(workspace).name == "model.ckpt-12"
    assert len(list((workspace / "run").glob("model.ckpt-*"))) == 3
    assert list((workspace / "run" / "best_models").glob("val_loss=*-step-*"))
    assert list((workspace / "run").glob("events.out.tfevents.*"))

    code, out, _ = command("--mode=eval")
    assert code == 0 and "Validation loss:" in out and "Finished evaluation" in out and "Processed" in out
    assert (f"Evaluation of {workspace}/run/model.ckpt-12 on 20 examples of {workspace}/dev.src and "
            f"{workspace}/dev.tgt:\n") in out
    (scores,) = (workspace / "run" / "samples" / "step-12").glob("scores.json")
    assert "tok:13a" in json.loads(scores.read_text())["BLEU"]["signature"]

    code, out, _ = command("--mode=infer", f"--infer_output_file={workspace}/out.txt")
    assert code == 0
    assert len((workspace / "out.txt").read_text().splitlines()) == 20


def test_a_test_set_is_no_validation_set(trained, command):
    one, other = (f"--eval_params/data_layer_params/{side}_file={trained}/train.{end}"
                  for side, end in (("source", "src"), ("target", "tgt")))
    code, _, err = command("--mode=eval", one)
    assert code == 2 and err.count("\n") == 1, err
    assert "eval_params/data_layer_params/source_file'" in err and "eval_params/data_layer_params/target_file'" in err
    code, out, err = command("--mode=eval", one, other, "--eval_using_bleu=False")
    assert code == 0, err
    assert f"model.ckpt-2 on 200 examples of {trained}/train.src and {trained}/train.tgt:" in out
    assert "   Loss: " in out and "Validation" not in out


def test_n_best_with_scores(trained, command):
    code, _, err = command("--mode=infer", f"--infer_output_file={trained}/out.txt", "--write_scores=True",
                           "--decoder_params/n_best=2")
    assert code == 0, err
    rows = [line.split("\t") for line in (trained / "out.txt").read_text().splitlines()]
    assert [int(row[0]) for row in rows] == [number // 2 for number in range(40)]
    assert all(float(row[1]) < 0 for row in rows)


def test_a_finished_run_says_that_nothing_is_left(trained, command):
    code, out, _ = command("--mode=train", "--max_steps=2", "--continue_learning")
    assert code == 0 and "Nothing left to do" in out
    assert not (trained / "run/.run-start.json").exists()


@pytest.mark.long
def test_a_finished_run_without_checkpoints_is_not_begun_anew(workspace, command):
    settings = ("--mode=train", "--max_steps=1", "--save_checkpoint_steps=None", "--save_summaries_steps=1")
    assert command(*settings)[0] == 0
    code, _, err = command(*settings, "--continue_learning")
    assert code == 2 and "there is no checkpoint" in err


@pytest.mark.long
@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "mixed"])
def test_resumed_run_equals_the_uninterrupted_one(workspace, command, dtype):
    settings = ("--mode=train", f"--dtype={dtype}", "--iter_size=2", "--save_checkpoint_steps=5")
    assert command(*settings, f"--logdir={workspace}/whole")[0] == 0
    assert command(*settings, f"--logdir={workspace}/parts", "--max_steps=5")[0] == 0
    code, out, _ = command(*settings, f"--logdir={workspace}/parts", "--continue_learning")
    assert code == 0 and "Resuming training at step 5" in out
    for name in ("weights.safetensors", "optimizer.safetensors"):
        assert (newest(workspace, "whole") / name).read_bytes() == (newest(workspace, "parts") / name).read_bytes()


@pytest.mark.long
def test_iter_size_gives_the_update_of_the_whole_batch(workspace, command):
    """Four batches of 4 sentences of unequal length ≡ one of 16, dropout off."""
    from safetensors.numpy import load_file

    text = (workspace / "config.py").read_text().replace("dropout\": 0.1", "dropout\": 0.0")
    text = text.replace('"LazyAdam", "optimizer_params": {"beta2": 0.997}', '"SGD"')
    text = text.replace("transformer_policy", "fixed_lr")
    (workspace / "config.py").write_text(text.replace('"learning_rate": 1.0, "warmup_steps": 100, "d_model": 16',
                                                      '"learning_rate": 1.0'))
    still = ["--data_layer_params/length_buckets=False", "--data_layer_params/shuffle=False", "--mode=train",
             "--max_steps=1"]
    assert command(*still, f"--logdir={workspace}/one")[0] == 0
    assert command(*still, f"--logdir={workspace}/four", "--batch_size_per_gpu=4", "--iter_size=4")[0] == 0
    one, four = (load_file(newest(workspace, name) / "weights.safetensors") for name in ("one", "four"))
    for name, value in one.items():
        assert abs(value - four[name]).max() < 1e-6, name


@pytest.mark.long
def test_fine_tuning_starts_with_fresh_counters(trained, command):
    code, out, _ = command("--mode=train", "--max_steps=1", f"--load_model={trained}/run", f"--logdir={trained}/tuned")
    assert code == 0 and "from the base model" in out
    state = json.loads((newest(trained, "tuned") / "state.json").read_text())
    assert state["step"] == 1 and newest(trained, "tuned").name == "model.ckpt-1"


@pytest.mark.long
def test_averaged_checkpoints_and_the_best_by_another_metric_are_used(workspace, command):
    code, out, err = command("--mode=train_eval", "--average_checkpoints=3", "--save_summaries_steps=4",
                             "--best_metric=Eval_chrF_Score", "--best_metric_mode=max")
    assert code == 0, err
    assert "Averaged the last 3 checkpoints" in out
    assert list((workspace / "run" / "best_models").glob("Eval_chrF_Score=*-step-*"))
    code, out, _ = command("--mode=eval", "--average_checkpoints=3", "--best_metric=Eval_chrF_Score",
                           "--best_metric_mode=max")
    chosen = re.search(r"Restoring from the (\w+) checkpoint", out)[1]
    values = dict(re.findall(r"(latest|averaged|best) (\d+\.\d{4})", out.split("Chosen by Eval_chrF_Score among: ")[1]))
    assert code == 0 and len(values) == 3 and float(values[chosen]) == max(map(float, values.values()))
    events = EventAccumulator(str(workspace / "run"))
    events.Reload()
    for tag in ("eval_loss", "averaged/eval_loss", "averaged/Eval_BLEU_Score"):
        steps = [event.step for event in events.Tensors(tag)]
        assert steps and len(set(steps)) == len(steps), tag  # no step twice
    code, out, _ = command("--mode=eval", "--restore_best_checkpoint=True")
    assert code == 0 and "best_models" in out


@pytest.mark.long
def test_an_average_does_not_span_a_change_of_the_rate(workspace, command):
    run = ["--mode=train", "--save_checkpoint_steps=2", "--average_checkpoints=4"]
    code, out, _ = command(*run, "--max_steps=4")
    assert code == 0 and "Averaged the last 2 checkpoints" in out and "leaves out" not in out
    code, out, _ = command(*run, "--max_steps=8", "--continue_learning", "--lr_policy_params/learning_rate=0.5")
    assert code == 0 and "leaves out the checkpoints up to model.ckpt-4" in out
    state = json.loads((workspace / "run" / "averaged_models" / "model.ckpt-8" / "state.json").read_text())
    assert state["averaged"] == ["model.ckpt-6", "model.ckpt-8"]


@pytest.mark.long
def test_benchmark_writes_nothing(workspace, command):
    code, out, _ = command("--benchmark", "--bench_steps=6", "--bench_start=2")
    assert code == 0 and "Avg tokens per second" in out and "warmup_steps" not in out
    assert not (workspace / "run").exists()


@pytest.mark.long
def test_check_reports_and_stops(workspace, command):
    with open(workspace / "train.src", "a") as src, open(workspace / "train.tgt", "a") as tgt:
        src.write("\n")
        tgt.write("a b\n")
    code, out, _ = command("--mode=train_eval", "--check")
    assert code == 0
    for text in ("200 examples", "dropped 1", "Total trainable parameters", "Batches per epoch", "MiB",
                 "Measuring the time of some updates and of evaluation\n*** Time: about ", ", and 2 evaluations of "):
        assert text in out, text
    assert "encoder/layer_0" not in out  # unless --verbose asks for all variables
    assert not (workspace / "run").exists()


@pytest.mark.long
def test_num_epochs_sets_the_length(workspace, command):
    code, out, _ = command("--mode=train", "--max_steps=null", "--num_epochs=2", "--iter_size=2")
    assert code == 0 and "epoch 2.00" in out
    assert newest(workspace).name == "model.ckpt-13"  # 200 / 16 → 13 batches an epoch, 26 in all, 2 an update


@pytest.mark.long
def test_enabled_logs_hold_everything(workspace, command):
    assert command("--mode=train", "--enable_logs", "--max_steps=2")[0] == 0
    names = [p.name.split("_")[0] for p in (workspace / "run").iterdir()]
    assert {"config", "cmd-args", "stdout", "stderr", "logs"} <= set(names)
    assert (workspace / "run" / "logs" / "model.ckpt-2").is_dir()


@pytest.mark.long
def test_prompt_answers_each_line(trained, command, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("a b c\n\nf e d\n"))
    code, out, err = command("--mode=interactive_infer")
    assert code == 0, err
    answers = [line for line in out.splitlines() if not line.startswith("***")]
    assert len(answers) == 3 and answers[1] == "" and all(set(answer) <= set("abcdef <UNK>") for answer in answers)


@pytest.mark.long
def test_frozen_variables_keep_their_values(workspace, command):
    from safetensors.numpy import load_file

    assert command("--mode=train", "--max_steps=4", "--freeze_variables_regex=encoder/layer")[0] == 0
    first, last = (load_file(workspace / "run" / f"model.ckpt-{step}" / "weights.safetensors") for step in (4, 4))
    assert first.keys() == last.keys()
    code, out, _ = command("--mode=train", "--max_steps=8", "--freeze_variables_regex=encoder/layer",
                           "--continue_learning")
    assert code == 0 and " trained and " in out
    last = load_file(workspace / "run" / "model.ckpt-8" / "weights.safetensors")
    moved = {name for name in first if (first[name] != last[name]).any()}
    assert moved and not any(name.startswith("encoder/layer") for name in moved)
