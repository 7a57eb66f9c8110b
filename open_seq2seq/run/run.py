"""``Run``: a config with values and a log directory, and everything that can be done with them."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from open_seq2seq.config import user_code
from open_seq2seq.config.data_note import names_missing_path, remedy
from open_seq2seq.config.loader import (
    ConfigFile,
    check_exists,
    config_of_values,
    lies_in_logdir,
    possible_keys,
)
from open_seq2seq.config.overrides import Override, check_words, overrides_of, parse_overrides
from open_seq2seq.config.recipes import find_recipe
from open_seq2seq.config.resolve import Benchmark
from open_seq2seq.utils.console import in_python
from open_seq2seq.utils.errors import DataError, UserError
from open_seq2seq.utils.tensorflow_import import import_tensorflow

if TYPE_CHECKING:
    from open_seq2seq.config.resolve import RunOptions
    from open_seq2seq.inference.trained_model import TrainedModel
    from open_seq2seq.report.sweep import SweepTable
    from open_seq2seq.run.session import Outcome

Folder = str | os.PathLike[str]
Config = str | os.PathLike[str] | Mapping[str, Any]


class Run:
    """A config with values and a log directory, and everything that can be done with them.

    >>> run = Run("config.py", {"decoder_params/beam_size": 4}, logdir="my_run")  # doctest: +SKIP
    >>> metrics = run.train(evaluate=True)  # doctest: +SKIP

    The methods print what the command line prints. They can be called one after the other, also after an error.

    Args:
      config: the path of a config file; the name of a recipe in ``example_configs``, such as ``"recipe:own-text"`` or
        ``"own-text"``; or a dict with the keys ``base_model`` and ``base_params`` and, if needed, ``train_params``,
        ``eval_params`` and ``infer_params``. Without a config, that of the newest checkpoint in ``logdir`` is used.
      values: values that replace those of the config, by path, such as ``"decoder_params/beam_size"``. A path may begin
        with a section, such as ``eval_params``; otherwise, the value is for all of them. The name of a parameter is
        enough if only one part has a parameter of this name.
      logdir: the log directory, instead of that of the config; or several, whose models infer as an ensemble. The
        config and the values are for the first model; of the values, the others get ``dtype`` only.
      trust_code: whether a config in a log directory may import and run code from outside the package.

    Raises:
      ConfigError: the config file does not exist, or a path of ``values`` is not valid.
      UserError: ``logdir`` is an empty list.
    """

    def __init__(self, config: Config | None = None, values: Mapping[str, Any] | None = None, *,
                 logdir: Folder | Sequence[Folder] | None = None, trust_code: bool = False) -> None:
        self._config: ConfigFile | str | None = None
        with in_python():
            if isinstance(config, Mapping):
                self._config = config_of_values(config)
            elif config is not None:
                self._config = path = find_recipe(os.fspath(config))
                check_exists(path)
                if not lies_in_logdir(path):
                    possible_keys(path)  # reports that a base does not exist before TensorFlow is imported
            self._overrides = overrides_of(values or {})
        if isinstance(logdir, (str, os.PathLike)):
            self._overrides.append(Override(None, ("logdir",), os.fspath(logdir)))
        elif logdir is not None:
            if not logdir:
                raise UserError("logdir is an empty list: give at least one log directory.")
            self._overrides.append(Override(None, ("logdir",), [os.fspath(one) for one in logdir]))
        self._trust_code = trust_code
        self._words: Collection[str] = ()
        self._is_command = False

    @classmethod
    def of_command(cls, config: str | None, overrides: Sequence[Override], trust_code: bool,
                   words: Collection[str]) -> Run:
        """Returns the run of a command line.

        Args:
          config: path of the config file, or None.
          overrides: the config values.
          trust_code: see the class.
          words: options of the command line, which a value may be a misspelling of.

        Raises:
          ConfigError: the config file does not exist, or a value is a misspelt option.
        """
        run = cls(config, trust_code=trust_code)
        if isinstance(path := run._config, str):
            check_words(overrides, lambda: possible_keys(path), words)
        run._overrides, run._words, run._is_command = list(overrides), words, True
        return run

    def __repr__(self) -> str:
        values = {"/".join(filter(None, (one.section, *one.keys))): one.value for one in self._overrides}
        logdir = values.pop("logdir", None)
        shown = ["<config>" if isinstance(self._config, ConfigFile) else repr(self._config)]
        shown += [repr(values)] if values else []
        shown += [f"logdir={logdir!r}"] if logdir else []
        return f"Run({', '.join(shown)})"

    def train(self, *, evaluate: bool = False, resume: bool = False, no_dir_check: bool = False,
              enable_logs: bool = False, verbose: bool = False) -> dict[str, float]:
        """Trains the model.

        Args:
          evaluate: whether to evaluate the model during training and at its end, as in the mode ``train_eval``.
          resume: whether to continue from the newest checkpoint in the log directory.
          no_dir_check: whether problems of the log directory are only warnings.
          enable_logs: whether to save output, config and git state in the log directory.
          verbose: whether to print the config and all variables.

        Returns:
          The metrics of the last evaluation, by name; {} without evaluation.

        Raises:
          UserError: the config, the data or the log directory cannot be used.
          KeyboardInterrupt: training was interrupted by Ctrl-C; its state has been saved.
        """
        outcome = self._perform("train_eval" if evaluate else "train", continue_learning=resume,
                                no_dir_check=no_dir_check, enable_logs=enable_logs, verbose=verbose)
        if outcome.signum is not None:
            signal.raise_signal(outcome.signum)
        return outcome.metrics

    def sweep(self, values: Mapping[str, Sequence[Any]], *, evaluate: bool = False, processes: int = 1) -> SweepTable:
        """Trains the model with each combination of values, in folders of the log directory; see ``run.sweep``.

        Each training is a process of its own. The same call continues a sweep that was stopped or killed.

        Args:
          values: path of a parameter → its values; those of ``random_seed`` are repetitions.
          evaluate: whether to evaluate during training, as in the mode ``train_eval``.
          processes: number of trainings at the same time.

        Returns:
          The table, with the mean and the deviation of each metric over the repetitions.

        Raises:
          UserError: the config is not a file, a value cannot be used, or trainings failed.
          KeyboardInterrupt: the sweep was interrupted by Ctrl-C.
        """
        import_tensorflow()
        from open_seq2seq.run.sweep import sweep_of

        with self._speaking():
            if not isinstance(self._config, str):
                raise UserError("A sweep starts processes, which read the config: give the path of a config file, or "
                                "the name of a recipe.")
            if not values or processes < 1:
                raise UserError("A sweep needs at least one parameter with values, and at least one process.")
            if empty := [path for path, some in values.items()
                         if isinstance(some, (str, Mapping)) or not hasattr(some, "__getitem__") or not len(some)]:
                raise UserError(f"{empty[0]!r} has to have a list of values.")
            mode, flags = "train_eval" if evaluate else "train", ["--trust_code"] if self._trust_code else []
            first = overrides_of({path: some[0] for path, some in values.items()})
            overrides = self._with([*self._overrides, *first]).options(mode).config.overrides
            table, signum = sweep_of([f"--config_file={self._config}", f"--mode={mode}", *flags], overrides, values,
                                     processes, lambda words: self._with(parse_overrides(words)).options(mode))
        if signum is not None:
            signal.raise_signal(signum)
        assert table is not None
        return table

    def evaluate(self, *, no_dir_check: bool = False, verbose: bool = False) -> dict[str, float]:
        """Evaluates the model of the log directory; returns the metrics by name.

        Args:
          no_dir_check: whether a config that does not fit the checkpoint is only a warning.
          verbose: whether to print the config and all variables.

        Raises:
          UserError: there is no usable checkpoint, or the config or the data cannot be used.
        """
        return self._perform("eval", no_dir_check=no_dir_check, verbose=verbose).metrics

    def infer(self, files: Sequence[str | os.PathLike[str]] = (), output_file: str | os.PathLike[str] = "infer-out.txt",
              *, no_dir_check: bool = False, verbose: bool = False) -> None:
        """Runs the model of the log directory on files, and writes its results to a file.

        Args:
          files: files or folders to read; none for the data that the config names.
          output_file: the file to write.
          no_dir_check: whether a config that does not fit the checkpoint is only a warning.
          verbose: whether to print the config and all variables.

        Raises:
          UserError: there is no usable checkpoint, or the config, the files or the output cannot be used.
        """
        from open_seq2seq.utils.output_file import check_output_file

        output = os.fspath(output_file)
        with self._speaking():
            check_output_file(output)
        self._perform("infer", infer_files=_names(files), infer_output_file=output,
                      no_dir_check=no_dir_check, verbose=verbose)

    def check(self, mode: str = "train", *, resume: bool = False, verbose: bool = False) -> None:
        """Checks config, data and model, and prints the findings; in training, also its memory and time.

        Args:
          mode: ``train``, ``train_eval``, ``eval`` or ``infer``.
          resume: whether training would continue from the newest checkpoint.
          verbose: whether to print the config and all variables.

        Raises:
          UserError: the run would fail; the message says why.
        """
        self._perform(mode, check=True, continue_learning=resume, verbose=verbose)

    def benchmark(self, steps: int = 20, start: int | None = None) -> None:
        """Measures the speed of training, and prints it, without saving anything.

        Args:
          steps: number of updates.
          start: number of these that are made before timing begins; by default that of the config.
        """
        self._perform("train", benchmark=Benchmark(steps, start), no_dir_check=True)

    def report(self, *, license: str = "", languages: Sequence[str] = (), datasets: Sequence[str] = ()) -> Path:
        """Writes the page about the run in the log directory, and its model card; returns the path of the page.

        For several log directories, one page shows their runs side by side, and there is no card.

        Args:
          license: identifier of the model's licence for the card, such as ``apache-2.0``.
          languages: codes of its languages, such as ``en``.
          datasets: names of its data sets on the Hugging Face Hub.

        Raises:
          UserError: a log directory contains no run, or the page cannot be written.
        """
        logdirs, _ = self._logdirs()
        if not logdirs:
            raise UserError("A report needs the log directory of a run: give logdir.")
        import_tensorflow()
        from open_seq2seq.report.page import write_report

        with self._speaking():
            return write_report(*(Path(one).expanduser() for one in logdirs), license=license, languages=languages,
                                datasets=datasets)

    def pack(self, file: str | os.PathLike[str], *, license: str = "", languages: Sequence[str] = (),
             datasets: Sequence[str] = ()) -> Path:
        """Writes the trained model of the log directory to one file, from which ``load`` reads it; returns its path.

        Args:
          file: the file, such as ``model.zip``; an earlier packed model is replaced.
          license, languages, datasets: see ``report``.

        Raises:
          UserError: there is no usable checkpoint, or the file cannot be written.
        """
        logdirs, _ = self._logdirs()
        if len(logdirs) != 1:
            raise UserError("A packed model is that of one log directory: give one logdir.")
        import_tensorflow()
        from open_seq2seq.report.packing import pack

        with self._speaking():
            return pack(Path(logdirs[0]).expanduser(), Path(file).expanduser(), license, languages, datasets)

    def export(self, format: str = "savedmodel", folder: str | os.PathLike[str] = "exported",
               files: Sequence[str | os.PathLike[str]] = (), *, verbose: bool = False) -> dict[str, Any]:
        """Writes the model of the log directory in a format of another program, and compares its results.

        The model is exported in float32, unless the values of this run say otherwise.

        Args:
          format: name of the format; see ``open_seq2seq.export.formats``.
          folder: the folder to write; an earlier export is replaced, and anything else is left as it is.
          files: files with the examples for the comparison; none for the validation data that the config names.
          verbose: whether to print the config and all variables.

        Returns:
          What is in the folder's ``report.json``: the numbers of results compared and of equal ones, the largest
          difference, the size, and the times of an example.

        Raises:
          UserError: there is no usable checkpoint, the model cannot be exported, or the results differ.
        """
        from open_seq2seq.export.formats import check_format

        with user_code.loading, self._speaking():
            check_format(format)
            self._check_alone("An export contains one model")
            names = _names(files)
            if "-" in names:
                raise UserError("An export is checked with files, not with standard input: give the names of files.")
            needs_dtype = not any(one.keys == ("dtype",) for one in self._overrides)
            run = self._with([*self._overrides, *([Override(None, ("dtype",), "float32")] if needs_dtype else [])])
            options = run.options("interactive_infer", verbose=verbose)
            from open_seq2seq.run.exporting import export_run

            return export_run(options, lambda: run.options("infer", infer_files=names) if names
                              else run.options("eval"), format, os.fspath(folder))

    def load(self) -> TrainedModel:
        """Returns the model of the log directory, whose methods can be called from any thread.

        Raises:
          UserError: there is no usable checkpoint, or a value cannot be used.
        """
        with user_code.loading, self._speaking():
            options = self.options("interactive_infer")
            from open_seq2seq.run import session

            return session.load(options)

    def options(self, mode: str, **options: Any) -> RunOptions:
        """Returns the checked options of the run in a mode; builds no model.

        Args:
          mode: ``train``, ``train_eval``, ``eval``, ``infer`` or ``interactive_infer``.
          **options: fields of ``RunOptions``.

        Raises:
          UserError: the config or a value has a mistake; a ``ConfigError`` lists all of them.
        """
        import_tensorflow()  # the first import of TensorFlow, so that its log is suppressed
        from open_seq2seq.checkpoints.packed import unpacked
        from open_seq2seq.run.resolution import resolve_run

        if mode not in ("infer", "interactive_infer"):
            self._check_alone(f"The models of several log directories infer together, but the mode is {mode}")
        given, others = self._logdirs()
        logdirs = given if mode.startswith("train") else [unpacked(one) for one in given]
        as_given = [one.value for one in self._overrides if one.keys == ("logdir",)][-1:]
        overrides = self._overrides if as_given == logdirs or not logdirs else [
            Override(None, one.keys, logdirs[0]) if one.keys == ("logdir",) else one for one in self._overrides]
        chosen = resolve_run(self._config, mode, overrides, trust_code=self._trust_code, words=self._words, **options)
        dtypes = [one.value for one in others if one.keys == ("dtype",)]
        members = [Run(None, {"dtype": dtypes[-1]} if dtypes else {}, logdir=logdir,
                       trust_code=self._trust_code).options("interactive_infer") for logdir in logdirs[1:]]
        return dataclasses.replace(chosen, members=members) if members else chosen

    def _logdirs(self) -> tuple[list[str], list[Override]]:
        """Returns the log directories, several for an ensemble, and the other values."""
        given = [one.value for one in self._overrides if one.keys == ("logdir",)]
        others = [one for one in self._overrides if one.keys != ("logdir",)]
        if not given or given[-1] is None:
            return [], others
        return list(map(str, given[-1] if isinstance(given[-1], list) else [given[-1]])), others

    def _check_alone(self, why: str) -> None:
        """Raises UserError if there are several log directories."""
        if len(self._logdirs()[0]) > 1:
            raise UserError(f"{why}: give one logdir.")

    def perform(self, mode: str, **options: Any) -> Outcome:
        """Does what one command does; see ``options`` for the arguments, and ``session.run`` for the errors."""
        chosen = self.options(mode, **options)
        from open_seq2seq.run import session

        try:
            return session.run(chosen)
        except DataError as error:
            config = chosen.config
            if "does not exist" in str(error) or any(
                    names_missing_path(config.params(section).get("data_layer_params")) for section in config.sections):
                error.add_note(remedy(config.config_file.data_note))
            raise

    def _perform(self, mode: str, **options: Any) -> Outcome:
        with self._speaking():
            return self.perform(mode, **options)

    def _with(self, overrides: Sequence[Override]) -> Run:
        """Returns a copy of this run with other values."""
        run = copy.copy(self)
        run._overrides = list(overrides)
        return run

    def _speaking(self) -> contextlib.AbstractContextManager[None]:
        """Returns the context manager that words messages for Python, unless the run is that of a command line."""
        return contextlib.nullcontext() if self._is_command else in_python()


def _names(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    return [os.fspath(file) for file in ([files] if isinstance(files, (str, os.PathLike)) else files)]


def load(logdir: Folder | Sequence[Folder], values: Mapping[str, Any] | None = None, *, trust_code: bool = False,
         **more_values: Any) -> TrainedModel:
    """Loads a trained model from its log directory alone, wherever that has been moved.

    >>> model = open_seq2seq.load("logdir", beam_size=1)  # doctest: +SKIP
    >>> model.translate(["a b c", "d e"])  # doctest: +SKIP
    ['c b a', 'e d']

    Args:
      logdir: folder that training has written to, or one of its checkpoints; a file that ``Run.pack`` has written; or
        the name of a toy model of this package, such as ``"toy:reversal"``. Several translate as an ensemble with the
        mean of their log probabilities (see ``Run``).
      values: values that replace those of the config, by path; see ``Run``.
      trust_code: whether the config in the log directory may import and run code from outside the package.
      **more_values: more values, by name.

    Returns:
      The model, whose methods can be called from any thread. Threads may call ``load``, too; they load one after the
      other.

    Raises:
      open_seq2seq.utils.errors.UserError: the log directory has no usable checkpoint, or a value is invalid.
    """
    return Run(None, {**(values or {}), **more_values}, logdir=logdir, trust_code=trust_code).load()
