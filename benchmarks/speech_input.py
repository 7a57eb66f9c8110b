"""Measures how fast batches of speech are made, with each back-end, as a Markdown table.

    python benchmarks/speech_input.py --dataset_files train.csv --vocab_file vocab.txt --lower_case

A table row is a back-end, without augmentation and with it, and from the cache. Figures are seconds of audio made
into batches in a second, all threads together; for ``tf`` the time of the graph's part is added.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.programs import run_program

AUGMENTATION = {"speed_perturbation_ratio": 0.1, "noise_level_min": -90, "noise_level_max": -60, "n_freq_mask": 2,
                "width_freq_mask": 6, "n_time_mask": 2}


def speed(params: dict[str, Any], passes: int) -> float:
    """Returns the seconds of audio made into batches in a second, in the fastest of some passes over the data.

    Args:
      params: of the data layer.
      passes: how many there are, after one that warms up and fills the cache.
    """
    import tensorflow as tf

    from open_seq2seq.data import Speech2TextDataLayer
    from open_seq2seq.data.batching import EpochPlanner

    layer = Speech2TextDataLayer(params, mode="train")
    plan = EpochPlanner(layer.lengths, batch_size=params["batch_size"]).plan(shuffle=False)
    audio = sum(layer.duration(example) for example in range(layer.num_examples))
    finish = tf.function(lambda batch: layer.features(batch, True), input_signature=[layer.input_signature])
    best = float("inf")
    for epoch in range(passes + 1):
        began = time.perf_counter()
        for number in range(len(plan)):
            features = finish(layer.make_training_batch(plan.batch(number), epoch))
        features[0].numpy()
        if epoch:
            best = min(best, time.perf_counter() - began)
    return audio / best


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("--dataset_files", nargs="+", required=True, help="lists of recordings")
    parser.add_argument("--vocab_file", required=True, help="the alphabet")
    parser.add_argument("--lower_case", action="store_true", help="write transcripts in lower case")
    parser.add_argument("--input_type", default="logfbank", help="kind of features")
    parser.add_argument("--num_audio_features", type=int, default=64, help="columns of the features")
    parser.add_argument("--sample_freq", type=int, default=16000, help="rate in Hz")
    parser.add_argument("--batch_size", type=int, default=16, help="utterances")
    parser.add_argument("--passes", type=int, default=3, help="passes over the data; the fastest counts")
    options = vars(parser.parse_args(argv))
    passes = options.pop("passes")
    print("| backend | plain | augmented | cached | cached, augmented |\n|---|---|---|---|---|")
    for backend in ("psf", "librosa", "tf"):
        cells = [backend]
        for cached in (False, True):
            for augmentation in (None, AUGMENTATION):
                with tempfile.TemporaryDirectory() as folder:
                    params = {**options, "backend": backend, "augmentation": augmentation, "cache_features": cached,
                              "cache_dir": folder}
                    cells.append(f"{speed(params, passes):,.0f}")
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    run_program(main)
