"""What the integration tests share: a toy corpus, a tiny config, and runs of the command."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
LETTERS = "abcdefgh"

TINY_CONFIG = '''
from open_seq2seq.data.text2text.text2text import ParallelTextDataLayer, SpecialTextTokens
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.losses import PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.models import Text2Text
from open_seq2seq.optimizers.lr_policies import transformer_policy

base_model = Text2Text
size = {"hidden_size": 16, "num_heads": 2, "filter_size": 32, "attention_dropout": 0.1, "relu_dropout": 0.1,
        "layer_postprocess_dropout": 0.1}
base_params = {
    "use_horovod": False,
    "num_gpus": 1,
    "batch_size_per_gpu": 16,
    "max_steps": 12,
    "save_summaries_steps": None,
    "print_loss_steps": 4,
    "print_samples_steps": None,
    "eval_steps": 6,
    "save_checkpoint_steps": 4,
    "logdir": "model",
    "random_seed": 1,
    "dtype": "float32",
    "optimizer": "LazyAdam",
    "optimizer_params": {"beta1": 0.9, "beta2": 0.997, "epsilon": 1e-9},
    "lr_policy": transformer_policy,
    "lr_policy_params": {"learning_rate": 1.0, "warmup_steps": 20, "d_model": 16},
    "encoder": TransformerEncoder,
    "encoder_params": {"encoder_layers": 1, "remove_padding": True, **size},
    "decoder": TransformerDecoder,
    "decoder_params": {
        "num_hidden_layers": 1, "beam_size": 2, "alpha": 0.6, "extra_decode_length": 2, **size,
        "EOS_ID": SpecialTextTokens.EOS_ID.value, "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value, "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    },
    "loss": PaddedCrossEntropyLossWithSmoothing,
    "loss_params": {"label_smoothing": 0.1},
    "data_layer": ParallelTextDataLayer,
    "data_layer_params": {
        "src_vocab_file": "data/vocab.txt", "tgt_vocab_file": "data/vocab.txt",
        "special_tokens_already_in_vocab": False, "use_start_token": False, "max_length": 16,
    },
}
train_params = {"data_layer_params": {
    "source_file": "data/train.source", "target_file": "data/train.target", "shuffle": True}}
eval_params = {"data_layer_params": {"source_file": "data/dev.source", "target_file": "data/dev.target"}}
infer_params = {"data_layer_params": {"source_file": "data/dev.source"}}
'''

RunCommand = Callable[..., "subprocess.CompletedProcess[str]"]


def write_reversal_corpus(folder: Path, name: str, count: int, seed: int) -> None:
    """Writes lines of letters, and the same lines backwards."""
    rng = random.Random(seed)
    lines = [rng.choices(LETTERS, k=rng.randint(3, 10)) for _ in range(count)]
    (folder / f"{name}.source").write_text("".join(" ".join(line) + "\n" for line in lines), encoding="utf-8")
    (folder / f"{name}.target").write_text("".join(" ".join(line[::-1]) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture(scope="session")
def command_environment() -> dict[str, str]:
    """Environment of a run: two threads at most, so that runs beside each other stay quick."""
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "2",
            "OMP_NUM_THREADS": "2", "TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with a tiny config, ``config.py``, and its data: a run takes seconds."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "vocab.txt").write_text("".join(f"{letter}\n" for letter in LETTERS), encoding="utf-8")
    write_reversal_corpus(tmp_path / "data", "train", 200, seed=1)
    write_reversal_corpus(tmp_path / "data", "dev", 20, seed=2)
    (tmp_path / "config.py").write_text(TINY_CONFIG, encoding="utf-8")
    return tmp_path


@pytest.fixture
def run_command(workspace: Path, command_environment: dict[str, str]) -> RunCommand:
    """Runs ``run.py`` in the workspace, with ``--config_file=config.py`` unless another is named.

    The function takes the further arguments, and ``exit_code``: what is expected, or None for any.
    """
    def run(*arguments: str, exit_code: int | None = 0, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        config = () if any(a.startswith("--config_file") for a in arguments) else ("--config_file=config.py",)
        result = subprocess.run([sys.executable, str(REPOSITORY / "run.py"), *config, *arguments], cwd=workspace,
                                env=command_environment, capture_output=True, text=True, timeout=timeout)
        if exit_code is not None:
            assert result.returncode == exit_code, f"{result.stdout}\n{result.stderr}"
        return result

    return run
