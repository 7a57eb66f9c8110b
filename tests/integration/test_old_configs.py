"""Configs in the style of NVIDIA's OpenSeq2Seq: trained, evaluated and used from the logdir alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.cli import main
from scripts.create_toy_data import main as create_toy_data
from scripts.create_toy_speech import main as create_toy_speech
from scripts.create_toy_text import main as create_toy_text
from scripts.create_toy_voice import main as create_toy_voice

pytestmark = pytest.mark.long

CONFIGS = Path(__file__).with_name("old_style")
DEFAULTS = {
    "images": "", "language_model": "data_layer_params/normalize: True, data_layer_params/data_root: lm",
    "recognition": "encoder_params/use_conv_mask: False, data_layer_params/length_buckets: False, "
                   "data_layer_params/pad_signal: True, loss_scaling: 1.0, decoder_params/alpha: 0.8686 (that of the "
                   "config, divided by ln 10)",
    "recurrent": "data_layer_params/length_buckets: False, data_layer_params/cut_long: True",
    "synthesis": "data_layer_params/length_buckets: False",
    "translation": "data_layer_params/length_buckets: False, data_layer_params/cut_long: True"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data that the configs name."""
    root = tmp_path_factory.mktemp("old_style")
    sizes = ["--train_size=40", "--dev_size=8", "--test_size=8"]
    create_toy_data([f"--output_dir={root}/text", *sizes, "--max_length=30"])
    create_toy_speech([f"--output_dir={root}/speech", *sizes])
    create_toy_text([f"--output_dir={root}/lm", "--lines=200"])
    create_toy_voice([f"--output_dir={root}/voice", *sizes])
    pictures = root / "cifar" / "cifar-10-batches-bin"
    pictures.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        rows = np.concatenate([rng.integers(0, 10, (8, 1)), rng.integers(0, 256, (8, 3072))], axis=1)
        (pictures / f"{name}.bin").write_bytes(rows.astype(np.uint8).tobytes())
    return root


@pytest.mark.parametrize("name", DEFAULTS)
def test_an_old_config_trains_and_its_logdir_is_enough(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch,
                                                       capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(folder)
    config = f"--config_file={CONFIGS / name}.py"
    assert main([config, "--mode=train_eval"]) == 0
    said = capsys.readouterr().out
    assert "is a config of NVIDIA's OpenSeq2Seq: it uses " in said
    meaning = f"So that it means the same as there: {DEFAULTS[name]}. --original_defaults=False selects"
    assert (meaning in said) if DEFAULTS[name] else "So that it means" not in said
    logdir = f"--logdir={name}_log"
    assert main([logdir, "--mode=eval"]) == 0
    assert main([logdir, "--mode=infer", f"--infer_output_file={name}.txt"]) == 0
    assert "OpenSeq2Seq" not in capsys.readouterr().out  # the logdir contains the names of today
    if name == "translation":
        assert main([config, "--mode=train_eval", "--original_defaults=False", "--max_steps=1", "--logdir=new"]) == 0
        assert "So that it means" not in capsys.readouterr().out
