"""Which runner a config asks for."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from open_seq2seq.runners.preflight import time_limit
from open_seq2seq.runners.runner import Runner
from open_seq2seq.utils.errors import ConfigError, UserError
from open_seq2seq.utils.launcher import launched_as

_INSTALL = "run make horovod, or scripts/install_horovod.sh path/to/python"


def make_runner(params: Mapping[str, Any]) -> Runner:
    """Returns the runner that a model's parameters ask for; to be called before TensorFlow uses a device.

    Raises:
      UserError: Horovod is asked for but is not there, or several processes were started without it.
      ConfigError: parameters that do not work on several ranks.
    """
    if not params.get("use_horovod"):
        if (size := launched_as()[1]) > 1:
            raise UserError(f"This is one of {size} processes, but 'use_horovod' is False, so each would train by "
                            "itself: add --use_horovod=True, or start one process.")
        return Runner()
    if importlib.util.find_spec("horovod") is None:
        raise UserError(f"'use_horovod' is True but Horovod is not installed for this Python: {_INSTALL}.")
    try:
        import horovod.tensorflow as hvd
    except ImportError as error:
        raise UserError(f"'use_horovod' is True but Horovod does not load ({str(error).splitlines()[0]}); it has to be "
                        f"built for this TensorFlow: {_INSTALL}.") from error
    from open_seq2seq.runners.horovod import HorovodRunner

    with time_limit(params.get("connect_seconds")):
        runner = HorovodRunner(hvd, params.get("hvd_compression"))
    check_params(params, runner)
    return runner


def check_params(params: Mapping[str, Any], runner: Runner) -> None:
    """Raises ConfigError for parameters that do not work on several ranks."""
    times = {name: params.get(name) for name in ("connect_seconds", "watchdog_seconds")}
    problems = [f"'{name}' is {seconds:g}, but has to be more than 0, or None."
                for name, seconds in times.items() if seconds is not None and seconds <= 0]
    if problems:
        raise ConfigError(problems)
    policy = params.get("on_divergence", "stop")
    if runner.world_size > 1 and policy != "stop":
        raise ConfigError([f"'on_divergence' is {policy!r}, but several ranks can only stop: leave it out, and go on "
                           "from a checkpoint by --continue_learning."])
