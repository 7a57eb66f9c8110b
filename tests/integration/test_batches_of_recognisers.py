"""One checkpoint, judged and run with batches of any size, on any number of replicas: one result."""

from __future__ import annotations

import re

import pytest

from open_seq2seq.cli import main
from open_seq2seq.data.speech2text.toy_speech import write_toy_speech
from tests.integration.test_speech_recognition import settings


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> list[str]:
    """Arguments of a recogniser of toy speech that has learned a little."""
    root = tmp_path_factory.mktemp("speech")
    write_toy_speech(str(root), {"train": 32, "dev": 20}, rate=8000)
    layers = [{"type": "conv1d", "repeat": 1, "kernel_size": [7], "stride": [stride], "num_channels": 64,
               "padding": "SAME", "dilation": [1], "dropout_keep_prob": 0.9} for stride in (2, 1)]
    run = [*settings(root), "--dtype=float32", f"--encoder_params/convnet_layers={layers}"]
    assert main([*run, "--mode=train", "--num_epochs=None", "--max_steps=12"]) == 0
    return run


def rates(output: str) -> list[str]:
    found = re.findall(r"(?:Validation (?:WER|CER)|REF|HYP): .*", output)
    assert len(found) >= 4, output
    return found


@pytest.mark.long
def test_no_batch_size_and_no_number_of_towers_changes_a_result(trained, tmp_path, capfd):
    judged, written = [], []
    for size, towers in ((1, 1), (7, 1), (16, 1), (3, 2)):
        split = [f"--batch_size_per_gpu={size}", *([f"--num_cpu_towers={towers}"] if towers > 1 else [])]
        capfd.readouterr()
        assert main([*trained, "--mode=eval", *split]) == 0
        judged.append(rates(capfd.readouterr().out))
        path = tmp_path / f"{size}-{towers}.csv"
        assert main([*trained, "--mode=infer", f"--infer_output_file={path}", "--write_word_times=True", *split]) == 0
        written.append((path.read_bytes(), path.with_suffix(".words.csv").read_text()))
    assert all(one == judged[0] for one in judged[1:])
    assert all(text == written[0][0] and times == written[0][1] for text, times in written[1:])
    assert len(written[0][0].splitlines()) == 21 and re.search(rb",\w", written[0][0])
