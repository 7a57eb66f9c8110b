"""Half-precision runs tell what they lose: progress line, TensorBoard, refusals."""

from __future__ import annotations

import math
import os
import re

import pytest

pytestmark = pytest.mark.long

NAMES = ["learning_rate", "gradients", "gradient_norm", "global_gradient_norm", "variables", "variable_norm",
         "loss_scale", "skipped_updates", "gradient_overflows", "gradient_underflow"]
GROUPS = {"encoder/embedding", "encoder/layer_0", "encoder/output_norm", "decoder/layer_0", "decoder/output_norm",
          "all"}
TABLE = "encoder/embedding/table"


def read_events(folder):
    """Tag → {step: value} of every scalar, and the tags of histograms."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util import tensor_util

    scalars, histograms, plugins = {}, set(), {}
    for path in folder.glob("events.out.tfevents.*"):
        for event in EventFileLoader(str(path)).Load():
            for value in event.summary.value:
                plugin = plugins.setdefault(value.tag, value.metadata.plugin_data.plugin_name)
                if plugin == "scalars":
                    scalars.setdefault(value.tag, {})[event.step] = float(tensor_util.make_ndarray(value.tensor).item())
                else:
                    histograms.add(value.tag)
    return scalars, histograms


def test_a_float16_run_writes_every_summary(workspace, command):
    code, out, err = command(
        "--mode=train", "--dtype=mixed_float16", "--loss_scaling=Backoff", "--loss_scaling_params={scale_max: 1e12}",
        "--save_summaries_steps=4", f"--summaries=[{', '.join(NAMES)}]", "--max_steps=8", "--max_grad_norm=1.0")
    assert code == 0, err
    assert re.search(r"Step \d+: loss [\d.]+, rate [\d.e-]+, loss scale [\d.e+]+, skipped [1-9]\d*, epoch ", out)
    scalars, histograms = read_events(workspace / "run")
    plain = {"train_loss", "learning_rate", "loss_scale", "skipped_updates", "gradient_overflows",
             "global_gradient_norm", "global_clipped_gradient_norm"}
    assert plain <= scalars.keys() and {f"gradients/{TABLE}", f"variables/{TABLE}"} <= histograms
    assert {f"gradient_norm/{TABLE}", f"variable_norm/{TABLE}"} <= scalars.keys()
    underflow = {tag.removeprefix("gradient_underflow/"): values for tag, values in scalars.items()
                 if tag.startswith("gradient_underflow/")}
    assert underflow.keys() == GROUPS and all(values.keys() == underflow["all"].keys() for values in underflow.values())
    assert all(0.0 <= share <= 1.0 for values in underflow.values() for share in values.values())
    skipped = scalars["skipped_updates"]
    assert skipped == scalars["gradient_overflows"] and skipped[max(skipped)] >= skipped[min(skipped)] > 0
    scales = scalars["loss_scale"]
    assert scales[max(scales)] < scales[min(scales)] <= 1e12
    halvings = [round(math.log2(1e12 / scale)) for scale in scales.values()]  # before the step itself
    assert all(count - halved in (0, 1) for count, halved in zip(skipped.values(), halvings, strict=True))


def test_the_line_and_tensorboard_show_the_same_mean_loss_and_nothing_comes_twice(workspace, command):
    code, out, err = command("--mode=train_eval", "--save_summaries_steps=4", "--print_loss_steps=4", "--max_steps=8",
                             "--eval_steps=4", "--lr_policy_params/warmup_steps=4")
    assert code == 0, err
    printed = {int(step): float(loss) for step, loss in re.findall(r"Step (\d+): loss ([\d.]+)", out)}
    assert printed.keys() == {1, 4, 8}
    shown = read_events(workspace / "run")[0]["train_loss"]
    assert shown.keys() == {4, 8} and all(shown[step] == pytest.approx(printed[step], abs=1e-4) for step in shown)
    # The shorter form of a path is printed, which depends on the current directory.
    without_folder = out.replace(f"{workspace}/", "").replace(f"{os.path.relpath(workspace)}/", "")
    # On a busy machine, lines of progress contain the share of the time that training waited for batches.
    lines = [line for line in re.sub(r", \d+% input wait", "", without_folder).splitlines()
             if not re.search(r"Validation loss|BLEU|chrF", line)]
    assert len(lines) == len(set(lines)) and max(map(len, lines)) <= 80, out
    assert len([line for line in lines if "Evaluation at" not in line]) <= 14, out
    assert "Below: mean loss per token since" in out and "speed in source and target tokens, time left" in out
    assert "benchmarking" not in out and "encoder/layer_0" not in out


def test_the_config_and_the_variables_are_in_the_logdir_and_with_verbose_on_the_screen(trained, command):
    (kept,) = (trained / "run").glob("overview.txt*")
    text = kept.read_text()
    for words in ("Training config:", "optimizer: LazyAdam", "encoder/layer_0", "Total trainable parameters: 5,600"):
        assert words in text
    kept.write_text("mine")  # a file that is not the run's stays
    code, out, _ = command("--mode=train", "--continue_learning", "--max_steps=3", "--verbose")
    assert code == 0 and "Training config:" in out and "encoder/layer_0" in out
    assert kept.read_text() == "mine" and "max_steps: 3" in (trained / "run" / "overview.txt-2").read_text()
    code, out, _ = command("--mode=infer", f"--infer_output_file={trained}/out.txt")
    assert code == 0 and "Data: 20 examples; Parameters: 5,600" in out
    assert "benchmarking" not in out and "encoder/layer_0" not in out and "optimizer:" not in out


def test_a_float32_run_foretells_float16_and_keeps_its_line_short(workspace, command):
    code, out, err = command("--mode=train", "--save_summaries_steps=4", "--max_steps=4")
    assert code == 0, err
    assert "loss scale" not in out and "skipped" not in out
    scalars, _ = read_events(workspace / "run")
    found = {tag.removeprefix("gradient_underflow_in_float16/") for tag in scalars if tag.startswith("gradient_under")}
    assert found == GROUPS and scalars["skipped_updates"] == scalars["gradient_overflows"] == {4: 0.0}


def test_names_that_cannot_be_written_are_refused(command):
    code, _, err = command("--mode=train", "--summaries=[gradient_underflows]")
    assert code == 2 and err.count("\n") == 1 and "Did you mean 'gradient_underflow'?" in err


def test_larc_summaries(workspace, command):
    code, _, err = command("--mode=train", "--larc_params={larc_eta: 0.002}", "--summaries=[larc_summaries]",
                           "--save_summaries_steps=2", "--max_steps=2")
    assert code == 0, err
    scalars, _ = read_events(workspace / "run")
    on, update, rate = (scalars[f"larc_{kind}/{TABLE}"][2] for kind in ("clip_on", "grad_update", "final_lr"))
    assert on in (0.0, 1.0) and 0.0 < update <= 1.0 and rate > 0.0
    assert not any(tag.startswith(("loss_scale", "gradient_underflow")) for tag in scalars)


def test_training_stops_without_gain_and_the_report_shows_the_run(workspace, command):
    from open_seq2seq.cli import main

    settings = ("--mode=train_eval", "--eval_steps=2", "--max_steps=40", "--stop_after_evals_without_gain=2",
                "--lr_policy=fixed_lr", "--lr_policy_params/learning_rate=0.0", "--print_samples_steps=4")
    code, out, err = command(*settings)
    assert code == 0, err
    assert "Training ended early, at step 6: 2 evaluations in a row brought no gain in val_loss" in out
    assert (workspace / "run" / "model.ckpt-6").is_dir()
    table = workspace / "run" / "metrics.csv"
    rows = table.read_text().splitlines(keepends=True)
    table.write_text("".join(row for row in rows if not row.startswith("6,")))  # as if killed before the evaluation
    code, out, _ = command(*settings, "--continue_learning")
    assert code == 0 and "Evaluation at step 6" in out and "Training ended early, at step 6" in out
    assert not (workspace / "run" / "model.ckpt-8").exists()
    code, out, _ = command(*settings, "--continue_learning")
    assert code == 0 and "Nothing left to do: 2 evaluations" in out
    rows = (workspace / "run" / "metrics.csv").read_text().splitlines()
    assert rows[0] == "step,epoch,name,value"
    assert sum(",val_loss," in row for row in rows) == 3 and sum(",train_loss," in row for row in rows) >= 1
    assert main(["--mode=report", f"--logdir={workspace}/run"]) == 0
    page = (workspace / "run" / "report.html").read_text()
    for words in ("bokeh", "BLEU", "teacher forced", "Worst examples", "chrF", "lr_policy: fixed_lr"):
        assert words in page, words


def test_a_report_needs_a_logdir(command, capfd):
    from open_seq2seq.cli import main

    for arguments in (["--mode=report"], ["--mode=report", "--logdir=nowhere"], ["--mode=report", "--lgdir=x"]):
        assert main(arguments) == 2
        assert capfd.readouterr().err.count("Error: ") == 1
