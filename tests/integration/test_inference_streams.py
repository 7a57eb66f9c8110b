"""Results of many examples by the command: memory, interruptions, any number of replicas and processes."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from open_seq2seq.cli import main
from tests.integration.conftest import start_process
from tests.integration.ranks import needs_horovod, on_ranks
from tests.integration.test_towers import cluster

PARTS = Path(__file__).with_name("trivial_parts.py")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A folder outside of the repository, with the model of one number as its config, and a checkpoint of it."""
    root = tmp_path_factory.mktemp("trivial")
    shutil.copy(PARTS, root / "config.py")
    assert main([f"--config_file={root}/config.py", "--mode=train", "--print_samples_steps=1",
                 "--save_summaries_steps=1"]) == 0
    return root


def infers(output: Path, size: int, looks: Sequence[int] = (), *more: str) -> list[str]:
    return ["--mode=infer", f"--infer_output_file={output}", f"--infer_params/data_layer_params/size={size}",
            f"--looks={list(looks)}", *more]


def expected(size: int) -> str:
    return "".join(f"{number} {number * (number % 7 + 1)}\n" for number in range(size))


def resident(process: subprocess.Popen) -> dict[int, int]:
    """Waits for the process, which has to work; returns after how many results how many kB were resident."""
    output = process.communicate(timeout=900)[0]
    assert process.returncode == 0, output
    found = {int(count): int(held) for count, held in re.findall(r"after (\d+): (\d+) kB resident", output)}
    print(f"resident memory in kB after so many results: {found}")
    return found


def test_samples_are_in_the_log_directory(trained):
    folder = trained / "run/samples/step-1"
    assert {path.name for path in folder.iterdir()} == {"sums.npy", "sums.wav"}
    assert np.load(folder / "sums.npy").shape == (32,)
    events = EventAccumulator(str(trained / "run"))
    events.Reload()
    assert {"first_sum", "sums", "train_loss"} <= set(events.Tags()["tensors"])
    assert main([f"--config_file={trained}/config.py", "--mode=train"]) == 2  # the folder is no empty one


@pytest.mark.long
def test_memory_does_not_grow_and_a_killed_run_leaves_no_output(trained, tmp_path):
    dying = start_process(trained, *infers(tmp_path / "killed.txt", 20_000, (), "--dies_at=10000"))
    whole = start_process(trained, *infers(tmp_path / "whole.txt", 100_000, (20_000, 100_000)))
    said = dying.communicate(timeout=240)[0]
    held = resident(whole)
    assert held[100_000] / held[20_000] < 1.05  # the kernel may take pages of files away
    assert (tmp_path / "whole.txt").read_text() == expected(100_000)
    assert dying.returncode == -signal.SIGKILL, said
    unfinished, = set(tmp_path.iterdir()) - {tmp_path / "whole.txt"}
    assert unfinished.match(".tmp-*.new.txt") and unfinished.read_text() == expected(10_000)
    assert main([f"--config_file={trained}/config.py", *infers(tmp_path / "killed.txt", 30)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"whole.txt", "killed.txt"}
    assert (tmp_path / "killed.txt").read_text() == expected(30)


def test_towers_write_what_one_device_writes(trained, tmp_path, capfd):
    """Batches of 4, so windows of 256 examples; the last one has less batches than replicas."""
    size = 256 * 5 + 5
    for name, more in (("one", []), ("towers", ["--num_cpu_towers=3"]), ("large", ["--batch_size_per_gpu=100"])):
        assert main([f"--config_file={trained}/config.py", *infers(tmp_path / name, size, (), "--batch_size_per_gpu=4",
                                                                   *more)]) == 0
        assert (tmp_path / name).read_text() == expected(size), name
    assert "Processed 322/322 batches" in capfd.readouterr().out


@pytest.mark.ranks
@pytest.mark.slow
def test_processes_of_a_cluster_write_what_one_process_writes(trained, tmp_path):
    processes = cluster(trained, 2, *infers(tmp_path / "cluster", 1285, (), "--batch_size_per_gpu=4"))
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert (tmp_path / "cluster").read_text() == expected(1285)


@needs_horovod
def test_ranks_write_what_one_process_writes(trained, tmp_path):
    code, output = on_ranks(2, trained, *infers(tmp_path / "ranks", 1285, (), "--batch_size_per_gpu=4"))
    assert code == 0, output
    assert (tmp_path / "ranks").read_text() == expected(1285)


def test_an_error_in_the_middle_leaves_the_old_output(trained, tmp_path, capfd):
    run = [f"--config_file={trained}/config.py", *infers(tmp_path / "out.txt", 1000, (), "--batch_size_per_gpu=4")]
    assert main(run) == 0
    assert main([*run, "--infer_params/data_layer_params/bad=700"]) == 2
    assert "Example 700 cannot be used" in capfd.readouterr().err
    assert (tmp_path / "out.txt").read_text() == expected(1000)
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
