"""XLA with static shapes: as many compilations as shapes, and the losses of the plain step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = """
import json, sys
import numpy as np
from open_seq2seq.cli import parse_options
from open_seq2seq.models.builder import build_model
from open_seq2seq.runners.runner import Runner
from open_seq2seq.run.training_setup import describe_sections
from open_seq2seq.training.loop.trainer import Trainer

def make(*arguments):
    spec = describe_sections(parse_options([f"--config_file={sys.argv[1]}", *sys.argv[2:], *arguments]))["train"]
    return Trainer(build_model(spec, 3), None, Runner(), 3)

compiled, plain = make("--use_xla_jit", "--xla_buckets=3"), make()
layer, stream, per_update = plain.model.data_layer, compiled._stream, plain._iter_size
losses, norms, shapes, objects = [], [], set(), []
for update in range(stream.updates_per_epoch):
    examples = [stream.examples(update * per_update + part) for part in range(per_update)]
    padded = [compiled._batches.make_batch(some) for some in examples]
    batches = [layer.make_batch(some) for some in examples]
    shapes |= {(b["source_tensors"][0].shape, b["target_tensors"][0].shape) for b in padded}
    objects += [[m.model.num_objects(b) for b in some] for m, some in ((compiled, padded), (plain, batches))]
    results = [compiled._train_step(padded), plain._train_step(batches)]
    losses.append([float(r["loss"]) for r in results])
    norms.append([float(r["grad_norm"]) for r in results])
print(json.dumps({"losses": losses, "norms": norms, "shapes": len(shapes), "planned": len(stream.shapes),
                  "objects": objects, "traces": compiled._train_step.traces, "lines": compiled.describe_shapes()}))
"""

GNMT = """
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_config = "config.py"
cells = {"core_cell": LSTMCell, "core_cell_params": {"num_units": 4}}
base_params = {
    "encoder": "GNMTLikeEncoderWithEmbedding",
    "encoder_params": {**cells, "src_emb_size": 4, "encoder_layers": 2, "encoder_dp_input_keep_prob": 1.0,
                       "encoder_dp_output_keep_prob": 1.0, "encoder_use_skip_connections": True},
    "decoder": "RNNDecoderWithAttention",
    "decoder_params": {**cells, "tgt_emb_size": 4, "decoder_layers": 2, "decoder_dp_input_keep_prob": 1.0,
                       "decoder_dp_output_keep_prob": 1.0, "decoder_use_skip_connections": True,
                       "attention_type": "gnmt_v2", "attention_layer_size": 4, "input_feeding": False,
                       "encoder_state": "dense", "weight_tied": True, "share_source_embedding": True,
                       "beam_width": 2, "length_penalty": 0.6, "GO_SYMBOL": 2, "END_SYMBOL": 1, "PAD_SYMBOL": 0},
}
"""
STILL = [f"--{part}_params/{rate}=0.0" for part in ("encoder", "decoder")
         for rate in ("attention_dropout", "relu_dropout", "layer_postprocess_dropout")]
BATCH_NORM = [f"--{part}_params/norm_params={{'type': 'batch_norm'}}" for part in ("encoder", "decoder")]


@pytest.fixture
def like_multi30k(workspace: Path) -> Path:
    """Pairs whose lengths are spread as those of Multi30k in subwords: about 13 to 15, some up to 50."""
    rng = np.random.default_rng(0)
    source = np.clip(rng.lognormal(2.6, 0.35, 700), 3, 50).astype(int)
    target = np.clip(source * rng.lognormal(0.05, 0.2, 700), 3, 50).astype(int)
    for name, lengths in (("src", source), ("tgt", target)):
        lines = [" ".join(rng.choice(list("abcdef"), length)) for length in lengths]
        (workspace / f"train.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = (workspace / "config.py").read_text()  # a simple optimizer makes a small program
    config = config.replace('"LazyAdam", "optimizer_params": {"beta2": 0.997}', '"SGD"')
    (workspace / "config.py").write_text(config)
    return workspace


@pytest.mark.long
@pytest.mark.parametrize("config, iter_size, model", [
    ("config.py", 1, STILL), ("gnmt.py", 1, []),
    pytest.param("config.py", 2, [*STILL, *BATCH_NORM], marks=pytest.mark.slow)])
def test_compilations_are_bounded_and_losses_are_those_of_the_plain_step(like_multi30k, config, iter_size, model):
    (like_multi30k / "gnmt.py").write_text(GNMT)
    batches = ["--data_layer_params/batch_size_unit=tokens", "--batch_size_per_gpu=640",
               "--data_layer_params/max_length=56", f"--iter_size={iter_size}"]
    dump = like_multi30k / "hlo"
    flags = f"--xla_dump_to={dump} --xla_dump_hlo_as_text --xla_backend_optimization_level=0"
    environment = {**os.environ, "XLA_FLAGS": flags}
    arguments = [f"{like_multi30k}/{config}", *model, *batches]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], env=environment, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    # XLA writes the program of each compilation, and writes it before it optimises.
    compilations = len(list(dump.glob("*.before_optimizations.txt")))
    assert 2 <= result["shapes"] <= result["planned"] <= 3
    assert compilations == result["shapes"]
    assert result["traces"] == 1 + (iter_size > 1)
    losses, gradient_norms = np.array(result["losses"]), np.array(result["norms"])
    assert len(losses) > 8
    np.testing.assert_allclose(losses[:, 0], losses[:, 1], atol=1e-4)
    np.testing.assert_allclose(gradient_norms[:, 0], gradient_norms[:, 1], rtol=1e-3)
    assert result["objects"][::2] == result["objects"][1::2]
    assert result["lines"][0].startswith(f"XLA buckets: {result['planned']} shapes")


@pytest.mark.long
@pytest.mark.parametrize("arguments, end", [
    (["--check"], "The config can be run."),
    pytest.param(["--print_samples_steps=1"], "Teacher forced:", marks=pytest.mark.slow)])
def test_the_command_prints_the_buckets_and_trains(workspace, command, arguments, end):
    code, out, err = command("--mode=train", "--use_xla_jit", "--xla_buckets=2", "--max_steps=3",
                             "--print_loss_steps=1", *arguments)
    assert code == 0 and "XLA buckets: 2 shapes" in out and "of positions are padding" in out and end in out, err


def test_buckets_without_xla_are_refused(command):
    code, _, err = command("--mode=train", "--xla_buckets=4")
    assert code == 2 and "'xla_buckets' is 4 but 'use_xla_jit' is not set" in err


@pytest.mark.long
def test_tf32_says_that_it_has_no_effect_on_a_cpu(command):
    code, out, err = command("--mode=train", "--max_steps=1", "--tf32=True")
    assert code == 0, err
    assert "'tf32' has no effect, because there is no GPU" in out
