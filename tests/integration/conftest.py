"""A toy corpus, a tiny Transformer config, and the command as a function or as a process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

CONFIG = '''
from open_seq2seq.data import ParallelTextDataLayer
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.models import Text2Text

root = {root!r}
base_model = Text2Text
base_params = {{
    "logdir": root + "/run", "random_seed": 3, "batch_size_per_gpu": 16, "max_steps": 12, "dtype": "float32",
    "print_loss_steps": 4, "print_samples_steps": None, "save_checkpoint_steps": 4, "save_summaries_steps": None,
    "eval_steps": 6, "num_checkpoints": 3, "optimizer": "LazyAdam", "optimizer_params": {{"beta2": 0.997}},
    "lr_policy": "transformer_policy",
    "lr_policy_params": {{"learning_rate": 1.0, "warmup_steps": 100, "d_model": 16}},
    "data_layer": ParallelTextDataLayer,
    "data_layer_params": {{"src_vocab_file": root + "/vocab.txt", "tgt_vocab_file": root + "/vocab.txt",
                          "source_file": root + "/train.src", "target_file": root + "/train.tgt",
                          "max_length": 24, "special_tokens_already_in_vocab": False, "use_start_token": False,
                          "delimiter": " ", "shuffle": True, "repeat": True}},
    "encoder": TransformerEncoder,
    "encoder_params": {{"encoder_layers": 1, "hidden_size": 16, "num_heads": 2, "attention_dropout": 0.1,
                       "filter_size": 32, "relu_dropout": 0.1, "layer_postprocess_dropout": 0.1,
                       "remove_padding": True}},
    "decoder": TransformerDecoder,
    "decoder_params": {{"num_hidden_layers": 1, "hidden_size": 16, "num_heads": 2, "attention_dropout": 0.1,
                       "filter_size": 32, "relu_dropout": 0.1, "layer_postprocess_dropout": 0.1, "beam_size": 2,
                       "alpha": 0.6, "extra_decode_length": 2, "EOS_ID": 1}},
    "loss": PaddedCrossEntropyLossWithSmoothing,
    "loss_params": {{"label_smoothing": 0.1}},
}}
eval_params = {{"data_layer_params": {{"source_file": root + "/dev.src", "target_file": root + "/dev.tgt",
                                     "shuffle": False, "repeat": False}}}}
infer_params = {{"data_layer_params": {{"source_file": root + "/dev.src", "shuffle": False, "repeat": False}}}}
'''


def write_corpus(root: Path, name: str, count: int, seed: int) -> None:
    """Writes ``count`` pairs of letters and their reversal, 3 to 10 tokens long."""
    import numpy as np

    rng = np.random.default_rng(seed)
    rows = [[str(t) for t in rng.choice(list("abcdef"), rng.integers(3, 11))] for _ in range(count)]
    (root / f"{name}.src").write_text("".join(" ".join(r) + "\n" for r in rows), encoding="utf-8")
    (root / f"{name}.tgt").write_text("".join(" ".join(r[::-1]) + "\n" for r in rows), encoding="utf-8")


def write_workspace(root: Path) -> Path:
    """Fills a folder with a corpus (200 + 20 pairs), its vocabulary and ``config.py``."""
    write_corpus(root, "train", 200, 1)
    write_corpus(root, "dev", 20, 2)
    (root / "vocab.txt").write_text("\n".join("abcdef") + "\n", encoding="utf-8")
    (root / "config.py").write_text(CONFIG.format(root=str(root)), encoding="utf-8")
    return root


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with a corpus, its vocabulary and ``config.py``."""
    return write_workspace(tmp_path)


@pytest.fixture(scope="session")
def two_updates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logdir of a run of two updates in such a folder."""
    from open_seq2seq.cli import main

    root = write_workspace(tmp_path_factory.mktemp("two_updates"))
    assert main([f"--config_file={root}/config.py", "--mode=train", "--max_steps=2"]) == 0
    return root / "run"


@pytest.fixture
def trained(workspace: Path, two_updates: Path) -> Path:
    """The workspace after two updates."""
    shutil.copytree(two_updates, workspace / "run")
    return workspace


@pytest.fixture
def command(workspace: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command in this process on the workspace's config: (exit code, stdout, stderr)."""
    from open_seq2seq.cli import main

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([f"--config_file={workspace}/config.py", *arguments])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call


def start_process(workspace: Path, *arguments: str) -> subprocess.Popen:
    """Starts the command as a process of its own."""
    return subprocess.Popen([sys.executable, str(ROOT / "run.py"), f"--config_file={workspace}/config.py", *arguments],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=workspace)
