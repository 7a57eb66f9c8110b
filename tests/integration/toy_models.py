"""Small models of every task, trained by the command line on toy data, for tests of the server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
RECIPES = {
    "translate": ("create_toy_data --output_dir=toy_text_data", "text2text/toy-reversal/nmt-reversal-TT.py"),
    "transcribe": ("create_toy_speech --output_dir=toy_speech_data --sample_freq=8000", "speech2text/toy-w2l.py"),
    "synthesize": ("create_toy_voice --output_dir=toy_voice_data", "text2speech/toy-durations.py"),
    "speak": ("create_toy_voice --output_dir=toy_voice_data --voices=2", "text2speech/toy-speakers.py"),
    "classify": ("create_toy_data --task=labels", "text2label/toy-labels.py"),
    "see": ("create_toy_images --output_dir=toy_image_data", "image2label/toy-resnet8.py"),
    "generate": ("create_toy_text --output_dir=toy_text_lm", "lm/toy-lm.py"),
}
"""Task → (script of its data with arguments, recipe)."""


def train_toy(folder: Path, name: str, task: str, steps: int, *options: str) -> None:
    """Makes the toy data of a task in a folder, and trains a model there.

    Args:
      folder: the folder.
      name: name of the log directory.
      task: a key of ``RECIPES``.
      steps: number of updates.
      options: more arguments of the command line.
    """
    script, recipe = RECIPES[task]
    file, *words = script.split()
    for command in ([f"{ROOT}/scripts/{file}.py", *words],
                    [f"{ROOT}/run.py", f"--config_file={ROOT}/example_configs/{recipe}", f"--logdir={name}",
                     f"--max_steps={steps}", *options]):
        subprocess.run([sys.executable, *command], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True,
                       timeout=1200)
