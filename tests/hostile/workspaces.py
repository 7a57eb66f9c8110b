"""The initial workspaces of cases, each as small as possible: data, a config, and other files of the user's.

``text`` contains ``config.py``, ``vocab.txt``, and ``train`` and ``dev`` as ``.src`` and ``.tgt``; the text's index is
in ``index``. ``speech`` contains ``config.py``, ``vocab.txt``, ``train.csv``, ``dev.csv``, and recordings
``wav/train-0000.wav`` etc. Both contain a folder ``home`` and, after ``TRAINING`` has run, the logdir ``run`` with
``best_models`` and the checkpoints ``model.ckpt-20``, ``-40`` and ``-60``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from tests.hostile.case import CONFIG, Case, Ended
from tests.integration.conftest import write_workspace

TRAINING = (CONFIG, "--mode=train_eval")


class Workspace(NamedTuple):
    """The initial workspace of a task.

    Attributes:
      write: writes the user's files to a folder.
      training: case whose command makes the finished run; None for no run.
    """

    write: Callable[[Path], object]
    training: Case | None = Case("the finished run", TRAINING, Ended(0), timeout=300)


SPEECH = '''
root = {root!r}
base_model = "Speech2Text"
base_params = {{
    "logdir": root + "/run", "random_seed": 3, "batch_size_per_gpu": 4, "max_steps": 60, "dtype": "float32",
    "print_loss_steps": 20, "print_samples_steps": None, "save_checkpoint_steps": 20, "save_summaries_steps": None,
    "eval_steps": 30, "num_checkpoints": 3, "best_metric": "Eval WER", "optimizer": "Adam",
    "lr_policy": "fixed_lr", "lr_policy_params": {{"learning_rate": 0.01}},
    "encoder": "TDNNEncoder",
    "encoder_params": {{"convnet_layers": [{{"type": "conv1d", "repeat": 1, "kernel_size": [7], "stride": [2],
                                           "num_channels": 16, "padding": "SAME", "dilation": [1],
                                           "dropout_keep_prob": 0.9}}],
                       "dropout_keep_prob": 0.9, "activation_fn": "relu"}},
    "decoder": "FullyConnectedCTCDecoder",
    "loss": "CTCLoss",
    "data_layer": "Speech2TextDataLayer",
    "data_layer_params": {{"backend": "librosa", "input_type": "logfbank", "num_audio_features": 16,
                          "sample_freq": 8000,
                          "norm_per_feature": True, "pad_to": 16, "dither": 1e-5,
                          "vocab_file": root + "/vocab.txt"}},
}}
train_params = {{"data_layer_params": {{"dataset_files": [root + "/train.csv"]}}}}
eval_params = {{"data_layer_params": {{"dataset_files": [root + "/dev.csv"]}}}}
infer_params = {{"data_layer_params": {{"dataset_files": [root + "/dev.csv"]}}}}
'''


def write_text(root: Path) -> None:
    """Writes the text workspace."""
    write_workspace(root)
    config = (root / "config.py").read_text(encoding="utf-8")
    for old, new in (('"max_steps": 12', '"max_steps": 60'), ('"eval_steps": 6', '"eval_steps": 30'),
                     ('"save_checkpoint_steps": 4', '"save_checkpoint_steps": 20'),
                     ('"print_loss_steps": 4', '"print_loss_steps": 20'), ('"warmup_steps": 100', '"warmup_steps": 20'),
                     ('"max_length": 24', '"max_length": 24, "index_dir": root + "/index"')):
        assert old in config
        config = config.replace(old, new)
    (root / "config.py").write_text(config, encoding="utf-8")


def write_speech(root: Path) -> None:
    """Writes the speech workspace."""
    write_toy_speech(str(root), {"train": 8, "dev": 3}, words=(1, 1), rate=8000)
    (root / "config.py").write_text(SPEECH.format(root=str(root)), encoding="utf-8")


WORKSPACES = {"text": Workspace(write_text), "speech": Workspace(write_speech)}
