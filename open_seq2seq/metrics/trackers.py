"""Trackers of experiments, to which a run sends its metrics: MLflow and Weights & Biases, by default into files."""

from __future__ import annotations

import functools
import importlib.util
import os
import posixpath
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, Literal, Protocol

from open_seq2seq.config.names import register
from open_seq2seq.utils.console import deco_print

_PROJECT = "open_seq2seq"
_RUN_TAG = "open_seq2seq.run"
_LONGEST_PARAMETER = 500  # characters, of the value of a parameter in MLflow
_MOST_AT_ONCE = 100  # parameters or metrics in one request of MLflow
_QUIET_SECONDS = 2  # time to wait for trackers at the end of a run before a message says so
_MOST_SECONDS = 60  # longest time to wait for them

Outcome = Literal["finished", "stopped", "failed"]
"""How a training ended: at its last update; by a signal, after which it can be resumed; or by an error."""


class MetricsWriter(Protocol):
    """Protocol of what gets the metrics of a run: its table (``MetricsFile``), and trackers."""

    def write(self, step: int, epoch: float, values: Mapping[str, float]) -> None:
        """Writes metrics by name.

        Args:
          step: number of the update.
          epoch: number of epochs made, including a fraction.
          values: the metrics.
        """


class Tracker:
    """Base class of trackers; rank 0 of a training creates each class in the config's ``trackers``.

    ``begin``, ``send`` and ``close`` are called one after the other in a thread of the tracker, so that training does
    not wait for a server. A tracker that fails does not end the run: it prints a warning, and gets no further metrics
    from this process. If a run goes back to an earlier checkpoint, steps occur again.

    Args:
      run: name of the run, 32 hexadecimal digits; a resumed run has the same, and has to be continued.
      title: name of the run for people.
      params: the parameters of the training: path → plain value.
    """

    library = extra = ""
    """The library that the tracker imports, and the extra of this package that installs it; "" without one."""

    def __init__(self, run: str, title: str, params: Mapping[str, Any]) -> None:
        self.run, self.title, self.params = run, title, params
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begins or continues the run; called before the first metrics are sent."""

    def send(self, step: int, values: Mapping[str, float]) -> None:
        """Sends metrics; see ``write``, which passes the epoch as a further metric."""
        raise NotImplementedError

    def close(self, outcome: Outcome) -> None:
        """Ends the run, or lets it wait to be resumed if it was stopped."""

    def write(self, step: int, epoch: float, values: Mapping[str, float]) -> None:
        """Lets metrics be sent; see ``MetricsWriter``."""
        if self._thread is None:
            self._calls.put(self.begin)
            # A daemon, because the end of the program must not wait for a server that does not answer.
            self._thread = threading.Thread(target=self._work, name=type(self).__name__, daemon=True)
            self._thread.start()
        self._calls.put(functools.partial(self.send, step, {**values, "epoch": epoch}))

    def _work(self) -> None:
        has_failed = False
        for call in iter(self._calls.get, None):
            try:
                if not has_failed:
                    call()
            except Exception as error:  # of any library, a server, a disk
                has_failed = True
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                deco_print(f"WARNING: the tracker {type(self).__name__} failed and gets no more metrics: {reason}")

    def ask_to_close(self, outcome: Outcome) -> None:
        """Lets the run be ended when its metrics are sent; does nothing if it has none."""
        if self._thread is not None:
            self._calls.put(functools.partial(self.close, outcome))
            self._calls.put(None)

    def wait(self, seconds: float) -> bool:
        """Waits until the run is ended, at most this long; returns whether it is."""
        if self._thread is not None:
            self._thread.join(max(seconds, 0.0))
        return self._thread is None or not self._thread.is_alive()


def close_trackers(trackers: Sequence[Tracker], outcome: Outcome, seconds: float = _MOST_SECONDS) -> None:
    """Ends the runs of the trackers of a training; called once, after the last metrics.

    Args:
      trackers: the trackers.
      outcome: how the training ended.
      seconds: the longest time to wait for all of them; then those that are late are named in a warning.
    """
    start, quiet = time.monotonic(), min(_QUIET_SECONDS, seconds)
    for tracker in trackers:
        tracker.ask_to_close(outcome)
    late = [tracker for tracker in trackers if not tracker.wait(start + quiet - time.monotonic())]
    if late and seconds > _QUIET_SECONDS:
        names = ", ".join(type(tracker).__name__ for tracker in late)
        deco_print(f"Waiting up to {seconds:.0f} s for the trackers ({names}); Ctrl-C ends the wait.")
        late = [tracker for tracker in late if not tracker.wait(start + seconds - time.monotonic())]
    for tracker in late:
        name = type(tracker).__name__
        deco_print(f"WARNING: the tracker {name} does not answer; the last metrics are missing there.")


class MLflowTracker(Tracker):
    """Sends metrics to MLflow, by default to a database in the working directory.

    MLflow's environment variables choose another place (``MLFLOW_TRACKING_URI``) and experiment
    (``MLFLOW_EXPERIMENT_NAME``). A resumed run is found by a tag.
    """

    library, extra = "mlflow", "mlflow"

    def begin(self) -> None:
        from mlflow import MlflowClient

        self._client = client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or _PROJECT
        experiment = client.get_experiment_by_name(name)
        place = experiment.experiment_id if experiment else self._created(name)
        runs = client.search_runs([place], f"tags.`{_RUN_TAG}` = '{self.run}'", max_results=1)
        if runs:
            self._id = runs[0].info.run_id
            client.update_run(self._id, status="RUNNING")
        else:
            self._id = client.create_run(place, tags={_RUN_TAG: self.run}, run_name=self.title).info.run_id
            self._log_params()

    def _created(self, name: str) -> str:
        """Returns the identifier of a new experiment, or of the one that another run has just created."""
        from mlflow.exceptions import MlflowException

        try:
            return self._client.create_experiment(name)
        except MlflowException:
            if (experiment := self._client.get_experiment_by_name(name)) is None:
                raise
            return experiment.experiment_id

    def _log_params(self) -> None:
        from mlflow.entities import Param

        values = {_accepted(name): str(value)[:_LONGEST_PARAMETER] for name, value in self.params.items()}
        params = [Param(name, value) for name, value in values.items()]
        for start in range(0, len(params), _MOST_AT_ONCE):
            self._client.log_batch(self._id, params=params[start:start + _MOST_AT_ONCE])

    def send(self, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(_accepted(name), value, now, step) for name, value in values.items()]
        for start in range(0, len(metrics), _MOST_AT_ONCE):
            self._client.log_batch(self._id, metrics[start:start + _MOST_AT_ONCE])

    def close(self, outcome: Outcome) -> None:
        states = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
        self._client.set_terminated(self._id, states[outcome])


def _accepted(name: str) -> str:
    """Returns a name that MLflow accepts, in which keys with regular expressions, as in ``lr_factors``, are changed."""
    return posixpath.normpath(re.sub(r"[^/\w.\- ]", "_", name))


class WandbTracker(Tracker):
    """Sends metrics to Weights & Biases, by default to a folder ``wandb``, which ``wandb sync`` uploads.

    Its environment variables choose another mode (``WANDB_MODE=online``), folder (``WANDB_DIR``) and project
    (``WANDB_PROJECT``). A resumed run has the same identifier. A run that the program itself has begun goes on. Without
    environment variables that ask for them, wandb gets neither console output nor code nor Git's commit and remote.
    """

    library, extra = "wandb", "wandb"

    def begin(self) -> None:
        import wandb

        private = {"WANDB_CONSOLE": ("console", "off"), "WANDB_DISABLE_GIT": ("disable_git", True),
                   "WANDB_SAVE_CODE": ("save_code", False)}
        settings = wandb.Settings(**dict(value for name, value in private.items() if name not in os.environ))
        self._run = wandb.init(project=os.environ.get("WANDB_PROJECT") or _PROJECT, id=self.run, name=self.title,
                               resume="allow", reinit="create_new", config=dict(self.params), settings=settings,
                               mode=os.environ.get("WANDB_MODE") or "offline")
        self._run.define_metric("*", step_metric="step")  # its own counter cannot go back to an earlier checkpoint

    def send(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({"step": step, **values})

    def close(self, outcome: Outcome) -> None:
        self._run.finish(exit_code=0 if outcome == "finished" else 1)


TRACKERS: dict[str, type[Tracker]] = {"mlflow": MLflowTracker, "wandb": WandbTracker}
"""Name in configs → class."""


def missing_libraries(trackers: Any) -> Iterator[str]:
    """Yields a sentence for each tracker whose library is not installed.

    Args:
      trackers: the config's ``trackers``, with names replaced by classes as far as they are known.
    """
    for tracker in trackers if isinstance(trackers, (list, tuple)) else ():
        library = getattr(tracker, "library", "")
        if library and importlib.util.find_spec(library) is None:
            yield (f"'trackers' contains {tracker.__name__}, but the library {library} is not installed: run "
                   f"`pip install 'open-seq2seq[{tracker.extra}]'`.")


def flattened(params: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Returns the values in nested dicts by their paths, such as ``lr_policy_params/learning_rate``."""
    flat: dict[str, Any] = {}
    for key, value in params.items():
        below = f"{path}/{key}" if path else str(key)
        flat |= flattened(value, below) if isinstance(value, Mapping) and value else {below: value}
    return flat


register("tracker", lambda: TRACKERS, base=Tracker)
