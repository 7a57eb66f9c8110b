"""A small language model, trained, judged, resumed, and used to continue and to score lines."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from open_seq2seq import Run
from open_seq2seq.utils.errors import UserError
from scripts.create_toy_text import main as create_toy_text
from scripts.dynamic_evaluation import main as dynamic_evaluation
from tests.integration.ranks import assert_identical, ran

CONFIG = """
root = {root!r}
base_model = "LSTMLM"
base_params = {{
    "logdir": root + "/run", "random_seed": 1, "batch_size_per_gpu": 4, "eval_batch_size_per_gpu": 1, "max_steps": 8,
    "print_loss_steps": None, "save_checkpoint_steps": 4, "num_checkpoints": 9, "eval_steps": 8,
    "optimizer": "Momentum", "optimizer_params": {{"momentum": 0.5}},
    "lr_policy": "fixed_lr", "lr_policy_params": {{"learning_rate": 0.5}},
    "encoder": "LMEncoder",
    "encoder_params": {{"core_cell": "LSTMCell", "core_cell_params": {{"num_units": 8}},
                       "encoder_layers": 1, "emb_size": 8, "weight_tied": True, "variational_recurrent": True,
                       "encoder_emb_keep_prob": 0.9, "recurrent_weight_keep_prob": 0.8, "num_tokens_gen": 6}},
    "activation_regularization": 2.0, "temporal_activation_regularization": 1.0,
    "decoder": "FakeDecoder", "loss": "BasicSequenceLoss",
    "loss_params": {{"offset_target_by_one": False, "average_across_timestep": True}},
    "data_layer": "WKTDataLayer",
    "data_layer_params": {{"data_root": root + "/text", "processed_data_folder": root + "/processed", "bptt": 6,
                          "carry_state": True}},
}}
"""


@pytest.fixture
def workspace(tmp_path):
    create_toy_text([f"--output_dir={tmp_path}/text", "--lines=200"])
    (tmp_path / "config.py").write_text(CONFIG.format(root=str(tmp_path)), encoding="utf-8")
    return tmp_path


def weights(workspace: Path, run: str = "run", step: int = 8):
    return load_file(workspace / run / f"model.ckpt-{step}" / "weights.safetensors")


def val_loss(output: str) -> float:
    return float(re.findall(r"(?:Validation l|L)oss: ([\d.]+)", output)[-1])


@pytest.mark.long
def test_a_run_from_text_to_generated_text(workspace, command, capfd):
    output = ran(command, "--mode=train_eval")
    assert "per word" in output and "bits per byte" in output
    whole = ran(command, "--mode=eval", "--data_layer_params/bptt=1000")
    np.testing.assert_allclose(val_loss(output), val_loss(whole), atol=1e-4)

    found = []
    # A rate of 0 is ordinary evaluation; the trained weights are not changed.
    for settings in (["--rate=0"], ["--rate=0.5"], ["--rate=0.01", "--clip=1e9"], ["--rate=0.01", "--clip=inf"]):
        dynamic_evaluation([f"--config_file={workspace}/config.py", *settings])
        printed = capfd.readouterr().out.split("Dynamic evaluation:")[1]
        assert "per word" in printed and "bits per byte" in printed
        found.append(float(re.findall(r"Perplexity: ([\d.]+) per token", printed)[0]))
    assert abs(np.log(found[0]) - val_loss(whole)) < 2e-3 and found[1] < found[0]
    assert found[2] == found[3] < found[0]
    with pytest.raises(UserError, match="has diverged: .* lower --rate or --clip"):
        dynamic_evaluation([f"--config_file={workspace}/config.py", "--rate=1e38", "--clip=inf"])

    ran(command, "--mode=infer", "--data_layer_params/seed_tokens=bade fifi", f"--infer_output_file={workspace}/out")
    lines = (workspace / "out").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["bade", "fifi"]

    # The lines that were evaluated as one text; each score starts from the state zero, so only the first is known.
    line = (workspace / "text/valid.txt").read_text().splitlines()[0]
    (workspace / "one").write_text(line + "\n")
    alone = ran(command, "--mode=eval", f"--data_layer_params/text_file={workspace}/one")
    (workspace / "lines").write_text(f"{line}\nfifi\nnever seen")
    (workspace / "processed").rename(workspace / "elsewhere")
    ran(command, "--mode=infer", "--infer_task=score", f"--infer_files={workspace}/lines",
        f"--infer_output_file={workspace}/scores", f"--lm_vocab_file={workspace}/elsewhere/vocab.txt")
    rows = [row.split("\t") for row in (workspace / "scores").read_text().splitlines()]
    count = len(line.split()) + 1
    assert [row[1:] for row in rows] == [[str(count), line], ["2", "fifi"], ["3", "never seen"]]
    np.testing.assert_allclose(-float(rows[0][0]), val_loss(alone) * count, atol=1e-4 * count)


@pytest.mark.long
def test_a_resumed_run_is_the_same_to_the_bit(workspace, command):
    ran(command, "--mode=train", f"--logdir={workspace}/whole")
    ran(command, "--mode=train", "--max_steps=4")
    ran(command, "--mode=train", "--continue_learning")
    assert_identical(weights(workspace, "whole"), weights(workspace))


TRANSFORMER = """
base_params["encoder"] = "TransformerLMEncoder"
base_params["encoder_params"] = {"encoder_layers": 1, "hidden_size": 8, "num_heads": 2, "filter_size": 16,
                                 "position_encoding": "alibi", "memory_length": 9,
                                 "adaptive_softmax": {"cutoffs": [4, 9], "factor": 2.0}}
"""


@pytest.mark.long
def test_a_transformer_with_memory_and_adaptive_softmax(workspace, command):
    """Evaluation does not depend on chunks, scores are those of evaluation, and a resumed run equals the whole one."""
    config = workspace / "config.py"
    config.write_text(config.read_text() + TRANSFORMER, encoding="utf-8")
    output = ran(command, "--mode=train_eval", f"--logdir={workspace}/whole")
    ran(command, "--mode=train", "--max_steps=4")
    ran(command, "--mode=train", "--continue_learning")
    assert_identical(weights(workspace, "whole"), weights(workspace))
    whole = ran(command, "--mode=eval", "--data_layer_params/bptt=1000")
    np.testing.assert_allclose(val_loss(output), val_loss(whole), atol=1e-4)

    line = (workspace / "text/valid.txt").read_text().splitlines()[0]
    (workspace / "one").write_text(line + "\n")
    loss = Run(config, {"data_layer_params/text_file": f"{workspace}/one"}).evaluate()["val_loss"]
    ran(command, "--mode=infer", "--infer_task=score", f"--infer_files={workspace}/one",
        f"--infer_output_file={workspace}/scores")
    score = float((workspace / "scores").read_text().split("\t")[0])
    np.testing.assert_allclose(-score, loss * (len(line.split()) + 1), atol=1e-3)


@pytest.mark.parametrize(("option", "expected"), [
    ("--rate=inf", "Argument --rate: 'inf' is not a finite number"), ("--decay=nan", "'nan' is not a finite number")])
def test_dynamic_evaluation_needs_finite_rates(option, expected):
    with pytest.raises(UserError, match=expected):
        dynamic_evaluation(["--config_file=config.py", option])


def test_dynamic_evaluation_of_a_classifier(workspace):
    config = workspace / "config.py"
    config.write_text(config.read_text() + """
del base_params["loss_params"]
base_params.update(loss="CrossEntropyLoss", data_layer="SSTDataLayer",
                   data_layer_params={"data_root": root, "max_length": 5})
""")
    with pytest.raises(UserError, match="needs a language model whose data layer can carry states"):
        dynamic_evaluation([f"--config_file={config}"])


BAD = {
    "shuffle": ("--data_layer_params/shuffle=True", "'shuffle' is True"),
    "offset": ("--loss_params/offset_target_by_one=True", "already the next tokens"),
    "text": ("--data_layer_params/data_root=/nowhere", "does not exist"),
    "batch": ("--batch_size_per_gpu=5000", "Overall batch size is too big"),
    "files": ("--mode=infer", "--infer_files=/nowhere", "/nowhere, which does not exist"),
    "lengths": ("--data_layer_params/random_bptt=True", "--data_layer_params/bptt=12", "--use_xla_jit",
                "exclude each other"),
    "task": ("--infer_task=sing", "'generate', 'score'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_ends_with_one_sentence(command, name):
    *arguments, expected = BAD[name]
    code, _, errors = command(*arguments)
    assert code == 2 and expected in errors and "Traceback" not in errors and errors.count("Error: ") == 1
