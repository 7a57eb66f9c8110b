"""Selects the devices of this machine that a process uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.utils.errors import UserError

_STARTED = ("TensorFlow has already started in this process with other devices than the config requests: restart "
            "Python, and load the model before anything else uses TensorFlow.")


def one_device(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of a model's parameters that requests a single device."""
    ids = params.get("gpu_ids")
    return {**params, "num_gpus": None, "num_cpu_towers": None, "gpu_ids": ids[:1] if ids else None}


def take_devices(params: Mapping[str, Any]) -> list[str]:
    """Selects the devices that a config requests, and hides the other GPUs from this process.

    With ``num_cpu_towers``, hides all GPUs and divides the CPU into that many logical devices. Call this before
    TensorFlow uses a device.

    Args:
      params: the model's parameters, of which ``num_gpus``, ``gpu_ids`` and ``num_cpu_towers`` are used.

    Returns:
      The devices' names within this process, such as ``["GPU:0", "GPU:1"]``; ``["CPU:0"]`` if there is no GPU.

    Raises:
      UserError: the machine lacks a requested device, or TensorFlow has already started with other devices.
    """
    towers = params.get("num_cpu_towers")
    if towers:
        _show_gpus([])
        _divide_cpu(towers)
        return [f"CPU:{number}" for number in range(towers)]
    gpus = tf.config.list_physical_devices("GPU")
    ids = params.get("gpu_ids") or list(range(params.get("num_gpus") or 1))
    if not gpus and (len(ids) > 1 or params.get("gpu_ids")):
        raise UserError(f"{_asked(params)}, but TensorFlow finds no GPU on this machine. To try several replicas "
                        f"without GPUs, use --num_cpu_towers={len(ids)} instead.")
    if not gpus:
        return ["CPU:0"]
    if max(ids) >= len(gpus):
        raise UserError(f"{_asked(params)}, but TensorFlow finds only {len(gpus)} on this machine, numbered 0 to "
                        f"{len(gpus) - 1}.")
    return _show_gpus([gpus[number] for number in ids])


def _asked(params: Mapping[str, Any]) -> str:
    ids = params.get("gpu_ids")
    return f"'gpu_ids' requests the GPUs {ids}" if ids else f"'num_gpus' requests {params.get('num_gpus')} GPUs"


def _show_gpus(chosen: list[Any]) -> list[str]:
    """Makes only these GPUs visible to TensorFlow; returns their names within this process."""
    if tf.config.get_visible_devices("GPU") != chosen:
        try:
            tf.config.set_visible_devices(chosen, "GPU")
        except RuntimeError as error:
            if any(gpu not in tf.config.get_visible_devices("GPU") for gpu in chosen):
                raise UserError(_STARTED) from error
    visible = tf.config.get_visible_devices("GPU")
    return [f"GPU:{visible.index(gpu)}" for gpu in chosen]


def _divide_cpu(towers: int) -> None:
    """Splits the CPU into ``towers`` logical devices, which share its threads."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or [None]) >= towers:
        return
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * towers)
    except RuntimeError as error:
        raise UserError(_STARTED) from error
