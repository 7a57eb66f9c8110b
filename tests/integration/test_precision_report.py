"""The precision report on a real checkpoint: tables, true advice, and mistakes in one sentence."""

from __future__ import annotations

import shutil

import pytest

from open_seq2seq.utils.script import run_script
from scripts import precision_report


@pytest.fixture
def report(workspace, capfd):
    """Runs the script in this process on the workspace's config: (exit code, stdout, stderr)."""

    def call(*arguments):
        capfd.readouterr()
        code = 0
        try:
            run_script(lambda: precision_report.main([f"--config_file={workspace}/config.py", *arguments]))
        except SystemExit as end:
            code = end.code
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


def scale_variable(workspace, name, factor):
    """Rewrites the run's last checkpoint with one variable multiplied."""
    from open_seq2seq.checkpoints import Snapshot, load_checkpoint, write_snapshot
    from open_seq2seq.checkpoints.folders import list_checkpoints

    path = list_checkpoints(workspace / "run")[0]
    kept = load_checkpoint(path)
    kept.weights[name] = kept.weights[name] * factor
    shutil.rmtree(path)
    write_snapshot(Snapshot(kept.weights, kept.optimizer, kept.state, kept.config_yaml, {}), path)


def rows_of(text, heading):
    block = text.split(f"## {heading}\n\n")[1].split("\n\n")[0]
    return {line.split(" | ")[0].strip("| "): line for line in block.splitlines()[2:]}


@pytest.mark.slow  # float16 is slow on CPUs
def test_report_of_a_float16_run_and_of_one_that_overflows_on_purpose(workspace, command, report):
    assert command("--mode=train", "--dtype=mixed_float16", "--max_steps=4")[0] == 0
    code, out, err = report("--dtype=mixed_float16", "--batches=2", f"--output={workspace}/out/report.md")
    assert code == 0, err
    written = (workspace / "out" / "report.md").read_text()
    assert out.endswith(written) and written.startswith("# Precision report: ") and "2 batches" in written
    layers = {"encoder/embedding", "encoder/layer_0", "encoder/output_norm", "decoder/layer_0", "decoder/output_norm"}
    assert layers | {"decoder"} == rows_of(out, "Activations").keys()
    assert layers == rows_of(out, "Gradients of activations").keys() == rows_of(out, "Gradients of weights").keys()
    # Backoff's scale stands in the checkpoint: it served the run without a skipped update.
    assert "float16 × 2^14: lost, over" in out and "At the current loss scale, 2^14, no gradient overflows" in out
    assert "bfloat16 is safe" in out and "exceed 65504" not in out

    scale_variable(workspace, "encoder/layer_0/feed_forward/output_kernel", 1e7)
    code, out, err = report("--data=eval", "--by=tensor", "--loss_scales=8")
    assert code == 0, err
    assert "activations of encoder/layer_0 exceed 65504" in out and "bfloat16 is safe" in out
    assert "encoder/layer_0/feed_forward/output" in rows_of(out, "Activations")
    losses = {}
    for dtype in ("float32", "mixed_float16", "mixed_bfloat16"):
        code, out, err = command("--mode=eval", f"--dtype={dtype}", "--eval_using_bleu=False")
        assert code == 0, err
        losses[dtype] = float(out.split("Validation loss: ")[1].split()[0])
    assert losses["float32"] == pytest.approx(losses["mixed_bfloat16"], rel=0.05)
    assert losses["mixed_float16"] != losses["mixed_float16"]  # NaN: what the advice warns of


def test_mistakes_end_with_one_sentence(workspace, two_updates, report):
    for arguments, expected in [
            ((), "does not exist"), (("--batches=0",), "at least 1"), (("--loss_scales=1,x",), "positive numbers"),
            (("--loss_scales=-4",), "positive numbers"), (("--encoder_params/hiden_size=8",), "hidden_size")]:
        code, out, err = report(*arguments)
        assert code == 2 and expected in err and err.count("\n") == 1, (arguments, err)
    shutil.copytree(two_updates, workspace / "run")
    code, _, err = report("--encoder_params/hidden_size=8", "--decoder_params/hidden_size=8")
    assert code == 2 and "does not fit this config" in err and err.count("\n") == 1
