"""``doctor``: versions, devices and their raw speeds, and the optional parts with what each needs."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from open_seq2seq.config.names import plugins
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.machine import GIB, available_bytes, cpu_name, onednn_setting, speed_flags
from open_seq2seq.utils.shipped import SCRIPTS
from open_seq2seq.utils.tensorflow_import import import_tensorflow
from open_seq2seq.version import __version__

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ctranslate2": ("exports for CTranslate2 and Argos Translate", ("ctranslate2",)),
    "litert": ("exports for LiteRT", ("ai-edge-litert", "ai-edge-quantizer")),
    "onnx": ("exports for ONNX Runtime and sherpa-onnx", ("onnxruntime", "tf2onnx")),
    "align": ("alignment of recordings with texts", ("pocketsphinx",)),
    "espeak": ("phonemes of espeak-ng", ("espeakng-loader", "phonemizer")),
    "mlflow": ("metrics in MLflow", ("mlflow-skinny", "alembic", "sqlalchemy")),
    "wandb": ("metrics in Weights & Biases", ("wandb",)),
    "numbers": ("texts with digits, in speech synthesis", ("num2words",)),
    "plots": ("pictures of alignments", ("matplotlib",)),
    "serve": ("the server of trained models", ("fastapi", "prometheus-client", "python-multipart", "uvicorn",
                                               "websockets")),
    "wyoming": ("voice assistants at the server", ("wyoming",)),
}
"""Extra of setup.py → (what it is for, the packages that it installs)."""
_OTHERS = {"kenlm": ("binary n-gram models of KenLM", "pip install kenlm"),
           "sounddevice": ("speech from the microphone", "pip install sounddevice"),
           "horovod": ("training in many processes", f"bash {SCRIPTS / 'install_horovod.sh'} {sys.executable}")}
_PACKAGES = ("keras", "numpy", "librosa", "sacrebleu", "safetensors", "sentencepiece")
_SECONDS = 0.5  # for each device and dtype: no new product starts after this time


def doctor() -> int:
    """Prints what this machine and this installation have; returns 0, or 2 if TensorFlow cannot be used."""
    try:
        import_tensorflow()
        problem = ""
    except UserError as error:
        problem = f"TensorFlow: {error}"
    lines = [_versions(), problem] if problem else [_versions(), *_devices()]
    for line in (*lines, *_parts(), *_plugins()):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    return 2 if problem else 0


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _versions() -> str:
    tf = sys.modules.get("tensorflow")
    packages = {"tensorflow": getattr(tf, "__version__", None), **{name: _version(name) for name in _PACKAGES}}
    return ", ".join([f"open-seq2seq {__version__}", f"Python {platform.python_version()}", platform.platform(),
                      *(f"{name} {number or 'missing'}" for name, number in packages.items())])


def _devices() -> Iterator[str]:
    import tensorflow as tf

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = available_bytes()
    yield f"Processor: {cpu_name()} with {' '.join(speed_flags()) or 'unknown instructions'}; cores to use: {cores}"
    yield f"oneDNN: {onednn_setting()}" + ("" if memory is None else f"; memory available: {memory / GIB:.1f} GiB")
    yield f"Products on CPU:0: {_speeds('CPU:0', ('float32', 'bfloat16'), 2048)}"
    gpus = tf.config.list_physical_devices("GPU")
    for number, gpu in enumerate(gpus):
        details = tf.config.experimental.get_device_details(gpu)
        yield f"GPU:{number}: {details.get('device_name', 'unknown')}"
        tf32 = " (float32 in TensorFloat-32)" if tf.config.experimental.tensor_float_32_execution_enabled() else ""
        yield f"Products on GPU:{number}: {_speeds(f'GPU:{number}', ('float32', 'bfloat16', 'float16'), 4096)}{tf32}"
    if not gpus:
        unseen = os.path.isdir("/proc/driver/nvidia/gpus")
        yield "GPUs: none" + (" that TensorFlow sees, but this machine has one of NVIDIA: run `pip install "
                              "'open-seq2seq[gpu]'`." if unseen else "")


def _speeds(device: str, dtypes: tuple[str, ...], size: int) -> str:
    """Returns the speeds of products of two square matrices in words, by dtype."""
    import tensorflow as tf

    try:
        return ", ".join(f"{name} {product_speed(device, name, size):,.0f} GFLOP/s" for name in dtypes)
    except tf.errors.OpError as error:
        return f"cannot be computed: {str(error).splitlines()[0]}"


def product_speed(device: str, dtype: str, size: int, seconds: float = _SECONDS) -> float:
    """Returns the highest speed of a product of two matrices ``[size, size]`` on a device, in GFLOP/s.

    Args:
      device: such as ``CPU:0``.
      dtype: such as ``bfloat16``.
      size: number of rows and of columns.
      seconds: no new product starts after this time; two are always computed, the first of which does not count.
    """
    import tensorflow as tf

    with tf.device(device):
        matrix = tf.cast(tf.reshape(tf.range(size * size) % 7, [size, size]), dtype)
        _seconds_of(matrix, tf)  # with the time of loading what computes it
        start = time.perf_counter()
        least = _seconds_of(matrix, tf)
        while time.perf_counter() - start < seconds:
            least = min(least, _seconds_of(matrix, tf))
    return 2.0 * size**3 / max(least, 1e-9) / 1e9


def _seconds_of(matrix: Any, tf: Any) -> float:
    begin = time.perf_counter()
    tf.matmul(matrix, matrix)[0, 0].numpy()  # reading a value waits for the product
    return time.perf_counter() - begin


def _parts() -> Iterator[str]:
    yield "Optional parts:"
    for extra, (what, packages) in PARTS.items():
        yield _part(what, packages, f"pip install 'open-seq2seq[{extra}]'")
    for package, (what, command) in _OTHERS.items():
        yield _part(what, (package,), command)


def _plugins() -> Iterator[str]:
    """Yields lines about the plugins, none of which is imported."""
    names: dict[str, list[str]] = {}
    for package, number, entry in plugins():
        names.setdefault(f"{package} {number}", []).append(entry.name)
    yield "Plugins:" if names else "Plugins: none"
    for package, of_package in names.items():
        yield f"  {package}: {', '.join(of_package)}"


def _part(what: str, packages: tuple[str, ...], command: str) -> str:
    versions = {package: _version(package) for package in packages}
    missing = [package for package, number in versions.items() if number is None]
    if missing:
        return f"  {what}: {' and '.join(missing)} missing; {command}"
    return f"  {what}: {', '.join(f'{package} {number}' for package, number in versions.items())}"
