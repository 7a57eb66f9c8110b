"""Describes the machine that measurements were made on."""

from __future__ import annotations

import os
from typing import NamedTuple

_HALF_FLAGS = ("amx_bf16", "amx_fp16", "avx512_bf16", "avx512_fp16", "bf16")


class Machine(NamedTuple):
    """The machine that a program runs on.

    Attributes:
      gpus: names of the GPUs that TensorFlow sees.
      cpu: model name of the CPU.
      flags: the CPU's half-precision instructions.
      cores: number of cores that this process may use.
      tensorflow: TensorFlow's version.
    """

    gpus: tuple[str, ...]
    cpu: str
    flags: tuple[str, ...]
    cores: int
    tensorflow: str

    @property
    def on_gpu(self) -> bool:
        """Whether training runs on a GPU."""
        return bool(self.gpus)

    def __str__(self) -> str:
        flags = ", ".join(self.flags) or "no half-precision instructions"
        cpu = f"{self.cpu} ({flags}), {self.cores} cores"
        place = f"{self.gpus[0]}; host: {cpu}" if self.gpus else cpu
        return f"{place}; TensorFlow {self.tensorflow}"


def describe_machine() -> Machine:
    """Returns a description of this machine; initialises no device, to leave GPU memory to other processes."""
    from open_seq2seq.utils.tensorflow_import import import_tensorflow

    import_tensorflow()
    import tensorflow as tf

    from open_seq2seq.utils.processor import cpu_flags, cpu_name

    gpus = tuple(tf.config.experimental.get_device_details(gpu).get("device_name", "unknown GPU")
                 for gpu in tf.config.list_physical_devices("GPU"))
    flags = cpu_flags()
    return Machine(gpus, cpu_name(), tuple(flag for flag in _HALF_FLAGS if flag in flags),
                   len(os.sched_getaffinity(0)), tf.__version__)
