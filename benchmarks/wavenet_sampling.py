"""Times how fast WaveNet draws samples, with what its layers keep and, for comparison, naively.

    python benchmarks/wavenet_sampling.py

The network has random weights and the sizes of the published one. A row is a batch of clips that are drawn together;
naively, the whole receptive field is computed for each sample, and only ``--naive_samples`` samples of one clip are
drawn, whose time grows in proportion with their number.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.measuring.programs import describe_machine, make_parser, markdown_table, run_program

_HOP, _MELS, _RATE = 256, 80, 22_050


def make_encoder(options: argparse.Namespace) -> Any:
    """Returns the network with random weights."""
    from open_seq2seq.encoders import WavenetEncoder
    from open_seq2seq.parts.component import creating_variables

    with creating_variables(1):
        return WavenetEncoder({
            "layer_type": "conv1d", "kernel_size": 3, "strides": 1, "padding": "VALID", "blocks": options.blocks,
            "layers_per_block": options.layers, "filters": options.hidden, "quantization_channels": 256,
            "num_audio_features": _MELS, "hop": options.hop}, mode="infer")


def seconds_of(encoder: Any, batch: int, frames: int, naive: bool, rounds: int) -> float:
    """Returns the median time of drawing ``frames`` frames of ``batch`` clips, without tracing."""
    import tensorflow as tf

    from open_seq2seq.parts.forward_pass import forward_pass

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None, None, _MELS], tf.float32)])
    def draw(spectrogram: tf.Tensor) -> tf.Tensor:
        with forward_pass(0, 0):
            return encoder.sample(spectrogram, tf.zeros([_MELS]), naive=naive)

    spectrogram, seconds = tf.random.stateless_normal([batch, frames, _MELS], [1, 2]), []
    draw(spectrogram[:, :1])
    for _ in range(rounds):
        start = time.perf_counter()
        draw(spectrogram).numpy()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def main(argv: list[str]) -> None:
    """Measures and prints the table."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--hidden", type=int, default=64, help="channels")
    add("--layers", type=int, default=10, help="layers of a block")
    add("--blocks", type=int, default=3, help="blocks")
    add("--hop", type=int, default=_HOP, help="samples of a frame")
    add("--samples", type=int, default=16_000, help="samples of a clip")
    add("--naive_samples", type=int, default=64, help="samples that are drawn naively")
    add("--batches", type=int, nargs="*", default=[1, 8, 64], help="numbers of clips")
    add("--rounds", type=int, default=3, help="repetitions, of which the median counts")
    options = parser.parse_args(argv)
    encoder = make_encoder(options)
    print(f"* {describe_machine()[0]}")
    frames = -(-options.samples // options.hop)
    samples, few = frames * options.hop, argparse.Namespace(**{**vars(options), "hop": options.naive_samples})
    rows, first = [], 0.0
    for batch in options.batches:
        seconds = seconds_of(encoder, batch, frames, False, options.rounds)
        first = first or batch * samples / seconds
        rows.append([f"{batch}", f"{seconds:.2f}", f"{batch * samples / seconds:,.0f}",
                     f"{seconds * _RATE / (batch * samples):.2f}"])
    # One frame of fewer samples; the silence before it is computed for every sample, so nothing else counts.
    seconds = seconds_of(make_encoder(few), 1, 1, True, 1)
    rate = options.naive_samples / seconds
    rows.append(["1, naively", f"{samples / rate:,.0f} (from {options.naive_samples} samples)", f"{rate:,.1f}",
                 f"{_RATE / rate:,.0f}"])
    print(markdown_table(["clips", f"seconds for {samples:,} samples each", "samples per second",
                          f"real-time factor at {_RATE:,} Hz"], rows))
    print(f"\n{first / rate:,.0f} times as fast as naively with the first batch")


if __name__ == "__main__":
    run_program(main)
