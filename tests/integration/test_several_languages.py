"""Two decoders on one encoder from the command line: the toy recipe trains, resumes, evaluates and infers."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file

from open_seq2seq.cli import main
from tests.integration.toy_data import ROOT, make_toy_data

RECIPE = f"--config_file={ROOT}/example_configs/text2text/toy-several/reverse-and-copy.py"
SIZES = {"hidden_size": 16, "num_heads": 2, "filter_size": 32}
SMALL = (*(f"--{part}/{key}={value}" for part in ("encoder_params", "decoder_params/decoder_params")
           for key, value in SIZES.items()), "--encoder_params/encoder_layers=1",
         "--decoder_params/decoder_params/num_hidden_layers=1", "--batch_size_per_gpu=8", "--save_summaries_steps=None",
         "--print_samples_steps=None", "--save_checkpoint_steps=2", "--eval_steps=4")


@pytest.fixture
def call(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    make_toy_data("--output_dir=toy_text_data")

    def command(*arguments):
        capfd.readouterr()
        code = main([*arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return command


def weights(folder, logdir):
    return load_file(folder / logdir / "model.ckpt-4" / "weights.safetensors")


@pytest.mark.long
def test_the_recipe_trains_resumes_and_infers(call, tmp_path):
    code, out, err = call(RECIPE, "--mode=train_eval", *SMALL, "--max_steps=4")
    assert code == 0, err
    assert "reversed: BLEU " in out and "copied: BLEU " in out
    assert call(RECIPE, "--mode=train", *SMALL, "--max_steps=2", "--logdir=parts")[0] == 0
    assert call(RECIPE, "--mode=train", *SMALL, "--max_steps=4", "--logdir=parts", "--continue_learning")[0] == 0
    once, parts = weights(tmp_path, "reverse-and-copy"), weights(tmp_path, "parts")
    assert once.keys() == parts.keys() and all(np.array_equal(once[name], parts[name]) for name in once)
    vocabulary = tmp_path / "toy_text_data" / "vocab" / "target.txt"
    letters = vocabulary.read_text(encoding="utf-8")
    vocabulary.write_text("".join(reversed(letters.splitlines(keepends=True))), encoding="utf-8")
    code, _, err = call(RECIPE, "--mode=eval", *SMALL)
    assert code == 2 and "vocab/target.txt is not the file that " in err and "Traceback" not in err
    (tmp_path / "toy_text_data").rename(tmp_path / "elsewhere")  # the logdir is enough
    code, _, err = call("--logdir=reverse-and-copy", "--mode=infer", "--language=copied", "--infer_files",
                        "elsewhere/test/source.txt", "--infer_output_file=out")
    assert code == 0, err
    assert (tmp_path / "out").read_text(encoding="utf-8").count("\n") == 9
    code, _, err = call("--logdir=reverse-and-copy", "--mode=infer", "--infer_files", "elsewhere/test/source.txt")
    assert code == 2 and "'language' is missing" in err and "Traceback" not in err
