"""Trackers of experiments, to which a run sends its metrics: MLflow and Weights & Biases, by default into files."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from open_seq2seq.config.names import register
from open_seq2seq.utils.console import deco_print

_PROJECT = "open_seq2seq"
_RUN_TAG = "open_seq2seq.run"
_LONGEST_PARAMETER = 500  # characters, of the value of a parameter in MLflow
_MOST_PARAMETERS = 100  # in one request of MLflow


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

    A tracker that fails does not end the run: it prints a warning, and gets no further metrics from this process. If a
    run goes back to an earlier checkpoint, steps occur again.

    Args:
      run: name of the run, 32 hexadecimal digits; a resumed run has the same, and has to be continued.
      title: name of the run for people.
      params: the parameters of the training: path → plain value.
    """

    library = extra = ""
    """The library that the tracker imports, and the extra of this package that installs it; "" without one."""

    def __init__(self, run: str, title: str, params: Mapping[str, Any]) -> None:
        self.run, self.title, self.params = run, title, params
        self._has_begun = self._has_failed = False

    def begin(self) -> None:
        """Begins or continues the run; called before the first metrics are sent."""

    def send(self, step: int, values: Mapping[str, float]) -> None:
        """Sends metrics; see ``write``, which calls this with the epoch as a further metric."""
        raise NotImplementedError

    def close(self, finished: bool) -> None:
        """Ends the run, or lets it wait to be resumed if it is not finished."""

    def write(self, step: int, epoch: float, values: Mapping[str, float]) -> None:
        """Writes metrics by name; see ``MetricsWriter``."""
        if not self._has_begun:
            self._has_begun = True
            self._guarded(self.begin)
        self._guarded(self.send, step, {**values, "epoch": epoch})

    def end(self, finished: bool) -> None:
        """Called once at the end of the training.

        Args:
          finished: whether the training has reached its end; if not, it can be resumed.
        """
        if self._has_begun:
            self._guarded(self.close, finished)

    def _guarded(self, function: Any, *arguments: Any) -> None:
        if self._has_failed:
            return
        try:
            function(*arguments)
        except Exception as error:  # of any library, a server, a disk
            self._has_failed = True
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            deco_print(f"WARNING: the tracker {type(self).__name__} failed and gets no more metrics: {reason}")


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

        params = [Param(name, str(value)[:_LONGEST_PARAMETER]) for name, value in self.params.items()]
        for start in range(0, len(params), _MOST_PARAMETERS):
            self._client.log_batch(self._id, params=params[start:start + _MOST_PARAMETERS])

    def send(self, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self._id, [Metric(name, value, now, step) for name, value in values.items()])

    def close(self, finished: bool) -> None:
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")


class WandbTracker(Tracker):
    """Sends metrics to Weights & Biases, by default to a folder ``wandb``, which ``wandb sync`` uploads.

    Its environment variables choose another mode (``WANDB_MODE=online``), folder (``WANDB_DIR``) and project
    (``WANDB_PROJECT``). A resumed run has the same identifier.
    """

    library, extra = "wandb", "wandb"

    def begin(self) -> None:
        import wandb

        if wandb.run is not None and wandb.run.id != self.run:  # of an earlier training of this process
            wandb.run.finish()
        self._run = wandb.init(project=os.environ.get("WANDB_PROJECT") or _PROJECT, id=self.run, name=self.title,
                               resume="allow", config=dict(self.params), mode=os.environ.get("WANDB_MODE") or "offline")
        self._run.define_metric("*", step_metric="step")  # its own counter cannot go back to an earlier checkpoint

    def send(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({"step": step, **values})

    def close(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)


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
