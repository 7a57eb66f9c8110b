"""What ``doctor`` says about the machine and the installation."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import tensorflow as tf

from open_seq2seq.run import tools
from open_seq2seq.utils.errors import UserError

SETUP = Path(__file__).parents[3] / "setup.py"
# Extras without which everything works, because they are for those who change the package.
OF_DEVELOPERS = {"test", "outside", "lint", "docs"}


def extras() -> dict[str, set[str]]:
    """Extra of setup.py → the packages that it installs."""
    nodes = [*ast.walk(ast.parse(SETUP.read_text(encoding="utf-8")))]
    call = next(node for node in nodes if isinstance(node, ast.keyword) and node.arg == "extras_require")
    named = {node.targets[0].id: node.value for node in nodes
             if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
    assert isinstance(call.value, ast.Dict)
    values = [named[value.id] if isinstance(value, ast.Name) else value for value in call.value.values]
    return {ast.literal_eval(key): {word.value.partition(">")[0] for word in ast.walk(value)
                                    if isinstance(word, ast.Constant) and isinstance(word.value, str)}
            for key, value in zip(call.value.keys, values, strict=True) if key is not None}


def test_the_optional_parts_are_the_extras():
    of_setup = {extra: packages for extra, packages in extras().items() if extra not in OF_DEVELOPERS | {"cpu", "gpu"}}
    assert {extra: set(packages) for extra, (_, packages) in tools.PARTS.items()} == of_setup


def test_versions_devices_speeds_and_parts_are_printed(capsys, monkeypatch):
    speeds = {"float32": 1234.4, "bfloat16": 5.6}
    monkeypatch.setattr(tools, "product_speed", lambda device, dtype, size: speeds[dtype])
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    monkeypatch.setattr(tools, "version", version_without("onnxruntime", "tf2onnx", "pocketsphinx"))
    assert tools.doctor() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("open-seq2seq ") and f"tensorflow {tf.__version__}" in lines[0]
    assert "Products on CPU:0: float32 1,234 GFLOP/s, bfloat16 6 GFLOP/s" in lines
    assert any(line.startswith("GPUs: none") for line in lines)
    assert ("  exports for ONNX Runtime and sherpa-onnx: onnxruntime and tf2onnx missing; "
            "pip install 'open-seq2seq[onnx]'") in lines
    assert "  pictures of alignments: matplotlib 1.0" in lines


def version_without(*missing: str):
    def version(package: str) -> str:
        if package in missing:
            raise tools.PackageNotFoundError(package)
        return "1.0"

    return version


def test_a_device_that_cannot_compute_is_reported(capsys, monkeypatch):
    def fail(*_: object) -> float:
        raise tf.errors.InternalError(None, None, "no kernel\nmore")

    monkeypatch.setattr(tools, "product_speed", fail)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["gpu"])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: {"device_name": "NVIDIA H100"})
    assert tools.doctor() == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Products on CPU:0: cannot be computed: no kernel" in lines and "GPU:0: NVIDIA H100" in lines


def test_without_tensorflow_the_rest_is_printed(capsys, monkeypatch):
    def fail() -> None:
        raise UserError("TensorFlow is not installed: run `pip install open-seq2seq[cpu]`.")

    monkeypatch.setattr(tools, "import_tensorflow", fail)
    assert tools.doctor() == 2
    text = capsys.readouterr().out
    assert "TensorFlow is not installed" in text and "Optional parts:" in text and "Products" not in text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_speed_is_that_of_a_product(dtype: str, monkeypatch):
    seen = []
    monkeypatch.setattr(tools, "_seconds_of", lambda matrix, tf: seen.append((matrix.dtype.name, matrix.shape)) or 0.5)
    assert tools.product_speed("CPU:0", dtype, 64, seconds=0.0) == pytest.approx(2 * 64**3 / 0.5 / 1e9)
    assert seen == [(dtype, (64, 64))] * 2
