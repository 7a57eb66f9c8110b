"""Makes the runner that a config requests, with the devices of this machine that it uses."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from open_seq2seq.runners.preflight import time_limit
from open_seq2seq.runners.runner import Runner
from open_seq2seq.runners.threads import share_cores
from open_seq2seq.utils.errors import ConfigError, UserError
from open_seq2seq.utils.launcher import ClusterTask, cluster_task, launched_as

_INSTALL = "run make horovod, or scripts/install_horovod.sh path/to/python"
_STARTED = ("TensorFlow has already started in this process with other devices than the config requests: restart "
            "Python, and load the model before anything else uses TensorFlow.")


def make_runner(params: Mapping[str, Any]) -> Runner:
    """Returns the runner that a model's parameters request. Call this before TensorFlow uses a device.

    Args:
      params: the model's parameters.

    Raises:
      UserError: Horovod or a device is missing, the processes did not find one another, or the parameters do not fit
        the way in which the processes were started.
      ConfigError: a parameter does not work with several processes or replicas.
    """
    task = cluster_task()
    runner: Runner
    if params.get("use_horovod"):
        if task is not None:
            raise UserError("'use_horovod' is True, but TF_CONFIG names the processes of a cluster: unset TF_CONFIG, "
                            "or leave use_horovod out.")
        hvd = load_horovod()
        from open_seq2seq.runners.horovod.runner import HorovodRunner

        with time_limit(params.get("connect_seconds")):
            runner = HorovodRunner(hvd, params.get("hvd_compression"))
    elif task is not None:
        runner = _cluster_runner(params, task)
    elif (size := launched_as()[1]) > 1:
        raise UserError(f"This is one of {size} processes, but 'use_horovod' is False, so each would train its "
                        "own model: add --use_horovod=True, or start one process.")
    elif len(devices := take_devices(params)) > 1:
        from open_seq2seq.runners.tower import TowerRunner, mirrored_strategy

        runner = TowerRunner(mirrored_strategy(devices))
    else:
        runner = Runner()
    check_params(params, runner)
    return runner


def _cluster_runner(params: Mapping[str, Any], task: ClusterTask) -> Runner:
    if (params.get("num_cpu_towers") or 1) > 1:
        raise ConfigError([f"'num_cpu_towers' is {params['num_cpu_towers']}, but with TF_CONFIG each process has only "
                           "one replica on the CPU: leave num_cpu_towers out, and start more processes instead."])
    take_devices(params)
    from open_seq2seq.runners.tower import ClusterRunner

    with time_limit(params.get("connect_seconds")):
        return ClusterRunner(task)


def load_horovod() -> Any:
    """Returns the module ``horovod.tensorflow``; raises UserError if it is not installed or fails to load."""
    if importlib.util.find_spec("horovod") is None:
        raise UserError(f"'use_horovod' is True, but Horovod is not installed for this Python: {_INSTALL}.")
    try:
        import horovod.tensorflow as hvd
    except ImportError as error:
        raise UserError(f"'use_horovod' is True, but Horovod cannot be loaded ({str(error).splitlines()[0]}). It must "
                        f"be built for this TensorFlow: {_INSTALL}.") from error
    return hvd


def check_params(params: Mapping[str, Any], runner: Runner) -> None:
    """Raises ConfigError if a parameter does not work with the runner's number of processes or replicas."""
    if runner.world_size > 1 and params.get("sync_batch_norm") and params.get("use_xla_jit"):
        raise ConfigError(["'sync_batch_norm' and 'use_xla_jit' are both True, but a function compiled by XLA cannot "
                           "communicate with other replicas: set one of them to False."])
    if runner.world_size > 1 and params.get("hvd_compression") and not params.get("use_horovod"):
        raise ConfigError([f"'hvd_compression' is {params['hvd_compression']!r}, but only Horovod compresses "
                           "gradients: leave hvd_compression out, or start one process per device with "
                           "--use_horovod=True."])
    policy = params.get("on_divergence", "stop")
    if runner.num_processes > 1 and policy != "stop":
        raise ConfigError([f"'on_divergence' is {policy!r}, but with several processes training can only stop: leave "
                           "on_divergence out, and resume from a checkpoint with --continue_learning."])


def one_device(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of a model's parameters that requests a single device."""
    ids = params.get("gpu_ids")
    return {**params, "num_gpus": None, "num_cpu_towers": None, "gpu_ids": ids[:1] if ids else None}


def on_this_machine(params: Mapping[str, Any], keep: Collection[str] = ()) -> dict[str, Any]:
    """Returns a copy of a model's parameters without requests for devices, or for Horovod, that this machine lacks.

    A trained model is used on other machines than that of its training. Nothing is changed in one of several
    processes: each would decide for its own machine, but all of them need the same number of replicas.

    Args:
      params: the model's parameters.
      keep: names of parameters that are not changed.
    """
    if launched_as()[1] > 1:
        return dict(params)
    changed = dict(params)
    if "use_horovod" not in keep and importlib.util.find_spec("horovod") is None:
        changed["use_horovod"] = False
    gpus, ids = len(tf.config.list_physical_devices("GPU")), _gpu_ids(params)
    missing = max(ids) >= gpus if gpus else len(ids) > 1 or bool(params.get("gpu_ids"))
    if missing and not {"num_gpus", "gpu_ids"}.intersection(keep):
        changed.update(num_gpus=None, gpu_ids=None)
    return changed


def _gpu_ids(params: Mapping[str, Any]) -> list[int]:
    return params.get("gpu_ids") or list(range(params.get("num_gpus") or 1))


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
    ids = _gpu_ids(params)
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
    """Splits the CPU into ``towers`` logical devices, and its cores among them."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or [None]) >= towers:
        return
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * towers)
        share_cores(towers, within_process=True)
    except RuntimeError as error:
        raise UserError(_STARTED) from error
