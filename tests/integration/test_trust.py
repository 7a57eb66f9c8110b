"""A logdir is data: code that its config names is refused, and nothing of it runs, unless --trust_code is given."""

from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

import open_seq2seq
from open_seq2seq.checkpoints.state import sha256, state_checksum
from open_seq2seq.cli import main, run_of
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from open_seq2seq.inference.speech2text.frame_asr import FrameASR
from open_seq2seq.utils.errors import ConfigError
from open_seq2seq.utils.script import run_script

ROOT = Path(__file__).parents[2]
STEP = "model.ckpt-2"
# What a checkpoint's config may name, had somebody else made it.
OUTSIDE = """
import pathlib
from open_seq2seq.encoders import TDNNEncoder
pathlib.Path(__file__).with_name("marker").touch()
class Outside(TDNNEncoder):
    pass
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A folder with toy speech, and a logdir of two updates with a batch to replay."""
    root = tmp_path_factory.mktemp("trust")
    write_toy_speech(str(root), {"train": 20, "dev": 2}, rate=8000)
    lists = [f"--{mode}_params/data_layer_params/dataset_files=['{root}/{name}.csv']"
             for mode, name in (("train", "train"), ("eval", "dev"), ("infer", "dev"))]
    assert main([f"--config_file={ROOT}/example_configs/speech2text/toy-w2l.py", "--mode=train", *lists,
                 f"--logdir={root}/run", f"--data_layer_params/vocab_file={root}/vocab.txt", "--dtype=float32",
                 "--num_epochs=None", "--max_steps=2", "--lr_policy_params/warmup_steps=0"]) == 0
    config = root / "run" / STEP / "config.yaml"
    batch = root / "run" / "divergence" / "step-2"
    batch.mkdir(parents=True)
    shutil.copy(config, batch)
    model = open_seq2seq.Run(config, logdir=root / "run").load().model
    recording = str(root / "wav" / "dev-0000.wav")
    features = model.data_layer.make_interactive_batch([recording])
    arrays = {"source_tensors/0": features["source_tensors"][0], "source_tensors/1": features["source_tensors"][1],
              "target_tensors/0": np.ones((1, 3), np.int32), "target_tensors/1": np.array([3], np.int32),
              "ids": np.array([0])}
    np.savez(batch / "batch.npz", **arrays)
    (batch / "event.json").write_text(json.dumps({"checkpoint": STEP, "step": 2, "dtype": "float32", "seed": 0,
                                                  "micro_batch": 0, "loss_scale": 1.0, "reason": "none"}))
    return root


@pytest.fixture
def logdir(made: Path, tmp_path: Path) -> Path:
    """A copy of the logdir."""
    return Path(shutil.copytree(made / "run", tmp_path / "run"))


def change(logdir: Path, changes: dict) -> None:
    """Sets values of ``base_params`` in all configs of a logdir; keys are paths."""
    for path in logdir.rglob("config.yaml"):
        config = yaml.safe_load(path.read_text())
        for key, value in changes.items():
            place = config if key == "base_model" else config["base_params"]
            *above, last = key.split("/")
            for name in above:
                place = place.setdefault(name, {})
            place[last] = value
        path.write_text(yaml.safe_dump(config))
        state_file = path.with_name("state.json")
        if state_file.is_file():  # checksums keep nobody from changing a checkpoint
            state = json.loads(state_file.read_text())
            state["sha256"]["config.yaml"] = sha256(path)
            state_file.write_text(json.dumps({**state, "state_sha256": state_checksum(state)}))


def script(name: str, *arguments: str) -> int:
    """Runs a script of the repository in this process; returns its exit code."""
    module = importlib.import_module(f"scripts.{name}")
    try:
        run_script(lambda: module.main(list(arguments)))
    except SystemExit as end:
        return end.code
    return 0


def interactive(logdir: Path, recording: str, *trust: str) -> int:
    try:
        model = run_of([f"--config_file={logdir}/{STEP}/config.yaml", f"--logdir={logdir}", *trust]).load()
    except ConfigError as error:
        import sys

        sys.stderr.write(f"Error: {error}\n")
        return 2
    assert isinstance(model.infer([recording])[0].text, str)
    return 0


USES = {
    "infer_files": lambda logdir, wav, *trust: main(
        ["--mode=infer", f"--logdir={logdir}", f"--infer_output_file={logdir.parent}/out.csv", *trust,
         "--infer_files", wav]),
    "config_of_a_checkpoint": lambda logdir, wav, *trust: main(
        [f"--config_file={logdir}/{STEP}/config.yaml", "--mode=eval", f"--logdir={logdir}", *trust]),
    "load": interactive,
    "stream": lambda logdir, wav, *trust: script("stream", f"--logdir={logdir}", "--quiet", *trust, "--files", wav),
    "precision_report": lambda logdir, wav, *trust: script(
        "precision_report", f"--config_file={logdir}/{STEP}/config.yaml", f"--logdir={logdir}", "--batches=1",
        "--data=eval", *trust),
    "replay_batch": lambda logdir, wav, *trust: script(
        "replay_batch", f"--logdir={logdir}", f"--batch={logdir}/divergence/step-2", *trust),
}


@pytest.mark.parametrize("use", [name if number == 0 else pytest.param(name, marks=pytest.mark.long)
                                 for number, name in enumerate(USES)])
def test_code_beside_a_config_runs_only_where_it_is_trusted(made, logdir, capfd, use):
    (logdir / STEP / "outside.py").write_text(OUTSIDE)
    change(logdir, {"encoder": f"{logdir}/{STEP}/outside.py:Outside"})
    recording = str(made / "wav" / "dev-0000.wav")
    capfd.readouterr()
    assert USES[use](logdir, recording) == 2
    error = capfd.readouterr().err
    assert error.startswith("Error: 'encoder' is ") and error.count("\n") == 1
    assert "outside.py:Outside" in error and "--trust_code" in error and "config.yaml" in error
    assert not (logdir / STEP / "marker").exists()
    assert USES[use](logdir, recording, "--trust_code") == 0
    assert (logdir / STEP / "marker").exists()


@pytest.mark.long
@pytest.mark.parametrize("use", USES)
def test_a_logdir_that_names_the_package_alone_needs_no_trust(made, logdir, use):
    assert USES[use](logdir, str(made / "wav" / "dev-0000.wav")) == 0


def test_averaging_runs_no_code(logdir, tmp_path):
    (logdir / STEP / "outside.py").write_text(OUTSIDE)
    change(logdir, {"encoder": f"{logdir}/{STEP}/outside.py:Outside"})
    assert script("average_checkpoints", f"--logdir={logdir}", "--last=1", f"--output={tmp_path}/averaged") == 0
    assert not (logdir / STEP / "marker").exists()


FILE = "{logdir}/model.ckpt-2/outside.py"
SEED = {"class_name": "Popen", "module": "subprocess", "config": {"args": ["touch", "{logdir}/model.ckpt-2/marker"]},
        "registered_name": None}
ATTACKS = {
    "model": ({"base_model": FILE + ":Outside"}, "'base_model' is "),
    "relative path": ({"encoder": "outside.py:Outside"}, "'encoder' is "),
    "module beside the checkpoint": ({"encoder": "outside.Outside"}, "'encoder' is "),
    "data layer": ({"data_layer": FILE + ":Outside"}, "'data_layer' is "),
    "loss, which inference does not build": ({"loss": FILE + ":Outside"}, "'loss' is "),
    "optimizer": ({"optimizer": FILE + ":Outside"}, "'optimizer' is "),
    "Popen for an optimizer": ({"optimizer": "subprocess.Popen"}, "'optimizer' is "),
    "policy": ({"lr_policy": "runpy.run_path", "lr_policy_params": {"path_name": FILE}}, "'lr_policy' is "),
    "loss scaler": ({"loss_scaling": FILE + ":Outside"}, "'loss_scaling' is "),
    "hook": ({"hooks": ["open_seq2seq.cli.main"]}, "'hooks/0' is "),
    "hook in a file": ({"hooks": [FILE + ":Outside"]}, "'hooks/0' is "),
    "system for an initialiser": ({"encoder_params/initializer": "os.system"}, "'encoder_params/initializer' is "),
    "Popen for an initialiser": (
        {"initializer": "subprocess.Popen", "initializer_params": {"args": ["touch", "{logdir}/model.ckpt-2/marker"]}},
        "'initializer' is "),
    "Keras' dict for a seed": (
        {"encoder_params/initializer": "GlorotUniform", "encoder_params/initializer_params": {"seed": SEED}},
        "'encoder_params/initializer_params/seed' "),
    "Keras' dict for an initialiser": ({"encoder_params/initializer": SEED}, "'encoder_params/initializer' is "),
    "TensorFlow's function": ({"encoder_params/regularizer": "tf.keras.models.load_model"},
                              "'encoder_params/regularizer' is "),
    "Keras' own lookup": ({"encoder_params/initializer": "tf.keras.initializers.deserialize",
                           "encoder_params/initializer_params": {"config": {"module": "os"}}},
                          "'encoder_params/initializer' is "),
    "eval for an activation": ({"encoder_params/activation_fn": "builtins.eval"}, "'encoder_params/activation_fn' is "),
    "lambda": ({"encoder_params/activation_fn": FILE + ":<lambda> (line 1)"}, "'encoder_params/activation_fn' is "),
    "decoder inside a decoder": (
        {"decoder": "JointCTCAttentionDecoder", "decoder_params/ctc_decoder": FILE + ":Outside",
         "decoder_params/attn_decoder": "ListenAttendSpellDecoder"}, "'decoder_params/ctc_decoder' is "),
    "initialiser of a decoder inside a decoder": (
        {"decoder": "JointCTCAttentionDecoder", "decoder_params/ctc_decoder": "FullyConnectedCTCDecoder",
         "decoder_params/ctc_decoder_params/initializer": "os.system",
         "decoder_params/attn_decoder": "ListenAttendSpellDecoder"},
        "'decoder_params/ctc_decoder_params/initializer' is "),
    "NUL": ({"encoder": "\0.py:Outside"}, "'encoder' is "),
    "no name": ({"encoder": "../../etc/passwd"}, "'encoder' is "),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_each_attack_is_refused_in_a_sentence_that_names_it(made, logdir, capfd, monkeypatch, attack):
    changes, expected = ATTACKS[attack]
    folder = logdir / STEP
    (folder / "outside.py").write_text(OUTSIDE)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    change(logdir, json.loads(json.dumps(changes).replace("{logdir}", str(logdir))))
    capfd.readouterr()
    if "hook" in attack:  # only training calls hooks, so inference neither refuses nor imports them
        assert USES["infer_files"](logdir, str(made / "wav" / "dev-0000.wav")) == 0
        (logdir.parent / "out.csv").unlink()
        capfd.readouterr()
        assert main(["--mode=train", f"--logdir={logdir}", "--continue_learning"]) == 2
    else:
        assert USES["infer_files"](logdir, str(made / "wav" / "dev-0000.wav")) == 2
    lines = capfd.readouterr().err.splitlines()
    # A decoder that is swapped for another lacks parameters besides.
    assert [line for line in lines if line.startswith(f"Error: {expected}")]
    assert all(line.startswith("Error: '") for line in lines) and (len(lines) == 1 or "decoder" in attack)
    assert not (folder / "marker").exists() and not (logdir.parent / "out.csv").exists()


@pytest.mark.parametrize(("place", "trusted"), [
    ("run/model.ckpt-2/config.yaml", False), ("run/config.yaml", False), ("run/divergence/step-2/config.yaml", False),
    ("config.yaml", True), ("other/config.yaml", True), ("run/other/config.yaml", True)])
def test_configs_in_logdirs_are_data(logdir, place, trusted):
    from open_seq2seq.config.loader import load_config

    path = logdir.parent / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("base_model: M\nbase_params: {}\n")
    assert load_config(path).trusted is trusted
    assert load_config(path, trusted=True).trusted
    link = logdir.parent / "link.yaml"
    link.symlink_to(path)
    assert load_config(link).trusted is trusted


def test_refused_names_are_refused_from_python_too(logdir):
    (logdir / STEP / "outside.py").write_text(OUTSIDE)
    change(logdir, {"encoder": f"{logdir}/{STEP}/outside.py:Outside"})
    with pytest.raises(ConfigError, match="add trust_code=True"):
        open_seq2seq.load(logdir)
    assert not (logdir / STEP / "marker").exists()
    assert FrameASR(open_seq2seq.load(logdir, trust_code=True).model).rate == 8000
