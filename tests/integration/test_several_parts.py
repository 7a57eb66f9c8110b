"""Models from outside with two encoders, two decoders, or other parts: they train, resume to the bit, and infer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from open_seq2seq.cli import main

pytestmark = pytest.mark.long

PARTS = Path(__file__).parent / "several_parts.py"
KEYS = {
    "TwoEncoders": {"near_encoder": "Projection", "near_encoder_params": {"size": 3},
                    "far_encoder": "Projection", "far_encoder_params": {"size": 3, "activation": "{}:waves"},
                    "decoder": "Linear", "decoder_params": {"size": 3}, "loss": "Squares"},
    "TwoDecoders": {"encoder": "Projection", "encoder_params": {"size": 3, "activation": "tanh"},
                    "decoder": "Linear", "decoder_params": {"size": 3}, "loss": "Squares",
                    "other_decoder": "Linear", "other_decoder_params": {"size": 3, "initializer": "{}:thirds"},
                    "other_loss": "Squares"},
    "OnePart": {"net": "Net"},
    "FormerContract": {"encoder": "Projection", "encoder_params": {"size": 3}, "decoder": "Linear",
                       "decoder_params": {"size": 3}, "loss": "Squares"},
}
VARIABLES = {
    "TwoEncoders": {"near_encoder/kernel", "far_encoder/kernel", "decoder/kernel"},
    "TwoDecoders": {"encoder/kernel", "decoder/kernel", "other_decoder/kernel"},
    "OnePart": {"net/kernel"}, "FormerContract": {"encoder/kernel", "decoder/kernel"},
}


def config_of(folder: Path, name: str) -> str:
    """Writes a config that names everything by ``several_parts.py:Name``, in a copy of that file."""
    file = folder / "several_parts.py"
    shutil.copy(PARTS, file)
    outside = {"data_layer": "Points", "optimizer": "Signs", "lr_policy": "halving", "loss_scaling": "One",
               **{key: value for key, value in KEYS[name].items() if isinstance(value, str)}}
    params = {"batch_size_per_gpu": 16, "random_seed": 1, "max_steps": 8, "save_checkpoint_steps": 4,
              "lr_policy_params": {"learning_rate": 0.1}, "print_loss_steps": 4, "initializer": "HeNormal",
              "eval_steps": 4, "logdir": f"{folder}/run", **KEYS[name],
              **{key: f"{file}:{value}" for key, value in outside.items()}, "hooks": [f"{file}:Count"]}
    path = folder / "config.py"
    path.write_text(f"base_model = {f'{file}:{name}'!r}\nbase_params = {params!r}\n".replace("{}:", f"{file}:"))
    return f"--config_file={path}"


@pytest.mark.parametrize("name", KEYS)
def test_models_of_other_parts_train_resume_and_infer(tmp_path, capfd, name):
    config = config_of(tmp_path, name)
    assert main([config, "--mode=train_eval"]) == 0
    assert main([config, "--mode=train_eval", f"--logdir={tmp_path}/parts", "--max_steps=4"]) == 0
    out = capfd.readouterr().out
    assert f"Counted up to 8 of {name}" in out and "Validation loss" in out
    shutil.copytree(tmp_path / "parts", tmp_path / "moved")
    assert main([config, "--mode=train_eval", f"--logdir={tmp_path}/parts", "--continue_learning"]) == 0
    whole, resumed = (tmp_path / run / "model.ckpt-8/weights.safetensors" for run in ("run", "parts"))
    assert whole.read_bytes() == resumed.read_bytes() and set(load_file(whole)) == VARIABLES[name]
    # The config that was kept beside the weights trains on alike, once its names are trusted.
    kept = [f"--config_file={tmp_path}/moved/model.ckpt-4/config.yaml", f"--logdir={tmp_path}/moved",
            "--continue_learning", "--max_steps=8"]
    capfd.readouterr()
    assert main(kept) == 2
    error = capfd.readouterr().err
    assert "--trust_code" in error and error.startswith("Error: 'base_model' is ") and error.count("\n") == 1
    assert main([*kept, "--mode=train_eval", "--trust_code"]) == 0
    assert (tmp_path / "moved/model.ckpt-8/weights.safetensors").read_bytes() == whole.read_bytes()
    assert main([config, "--mode=infer", f"--infer_output_file={tmp_path}/out.txt"]) == 0
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 96


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_types_and_initialisers_go_to_the_parts_that_take_them(tmp_path, dtype):
    from open_seq2seq.cli import parse_options
    from open_seq2seq.models.builder import build_model, describe_section

    options = parse_options([config_of(tmp_path, "TwoEncoders"), f"--dtype={dtype}"])
    model = build_model(describe_section(options.config, "train"))
    expected = "float32" if dtype == "float32" else "bfloat16"
    assert [part.compute_dtype.name for part in (model.near_encoder, model.decoder)] == [expected] * 2
    assert [part.compute_dtype.name for part in (model.far_encoder, model.loss)] == ["float32"] * 2
    assert model.near_encoder.params["initializer"] is not None and model.far_encoder.params["initializer"] is None
    assert model.decoder.params["num_targets"] == 2


@pytest.mark.parametrize(("changed", "expected"), [
    ("--far_encoder=null", "'far_encoder' is None but has to be a class or its name"),
    ("--far_encoder=TransformerDecoder", "'far_encoder' is 'TransformerDecoder', but there is no such encoder"),
    ("--far_encoder=open_seq2seq.decoders.TransformerDecoder", "has to be a subclass of Encoder"),
    ("--near_encoder_params/sice=3", "Did you mean 'size'?"),
    ("--near_encoder_params=5", "near_encoder_params' is '5'"),
    ("--encoder=TransformerEncoder", "Unknown parameter 'encoder'"),
    ("--far_encoder_params/activation=reluu", "'far_encoder_params/activation' is 'reluu'"),
    ("--hooks=[os.path.join, 3]", "'hooks/1' is 3"), ("--optimizer=1.5", "'optimizer' is '1.5'"),
    ("--loss_scaling=Backof", "'loss_scaling' is 'Backof'"), ("--lr_policy=os.no", "'lr_policy' is 'os.no'"),
])
def test_mistakes_are_found_before_anything_is_built(tmp_path, capfd, changed, expected):
    assert main([config_of(tmp_path, "TwoEncoders"), changed]) == 2
    error = capfd.readouterr().err
    assert expected in error and "Traceback" not in error
    assert not (tmp_path / "run").exists()
