"""Base class of models: a task with its parameters, forward pass and evaluation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.params import FREE, SAY, Param, with_change
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.decoders.autoregressive import AutoregressiveDecoder
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.losses.loss import Loss, LossTerm
from open_seq2seq.models.model_params import optimization_params, reporting_params, run_params
from open_seq2seq.models.part import Part
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.models.serving import ServingFunction
from open_seq2seq.optimizers.dtype import PrecisionPolicy, precision_of
from open_seq2seq.parts.component import Component
from open_seq2seq.utils.errors import UserError

# Parts of models that declare an encoder, a decoder or a loss only as a parameter, not in get_parts.
_CUSTOMARY = {"encoder": Part(Encoder), "decoder": Part(Decoder),
              "loss": Part(Loss, optional=True, follows_dtype=False, inherits=False, modes=("train", "eval"))}

COMMANDS = {"synthesize": "speak"}
"""``Model.verb`` → verb of the command line, if it is another word."""


class Model(Component):
    """Base class of models. The builder creates a model and then adds its parts.

    Subclasses declare their parts in ``get_parts``. They implement the forward pass in ``loss_terms`` and ``predict``,
    evaluation in ``evaluate`` and ``finalize_evaluation``, samples during training in ``report_sample``, and inference
    in ``infer`` and ``open_results``. The methods ``maybe_print_logs`` and ``finalize_inference`` of NVIDIA's
    OpenSeq2Seq are supported too.

    In the methods below, ``batch`` and ``input_values`` are batches in the structure of ``DataLayer.input_signature``:
    dicts with ``source_tensors``, ``target_tensors`` (lists ``[values, lengths, …]``) and ``ids`` ``[batch]``. Methods
    of the forward pass get tensors, all other methods NumPy arrays.

    Args:
      params: the parameters of one mode, including inherited ones, with names of classes replaced by the classes.
      mode: ``train``, ``eval``, ``infer`` or ``interactive_infer``.

    Attributes:
      object_name: what ``num_objects`` counts, for messages about speed.
      object_description: a more exact name of these objects; None if ``object_name`` is exact enough.
      interactive_hint: what the user should type at the prompt of interactive inference.
      verb: name of the method of ``TrainedModel`` that returns the short result of each input: ``translate``,
        ``transcribe``, ``classify``, ``generate`` or ``synthesize``; None if the model can only be used with
        ``TrainedModel.infer``.
      hub_task: name of the task on the Hugging Face Hub, for model cards; None if it has none there.
      validates: whether the model is evaluated on the validation set of its run, not on other data such as a test set;
        results on other data are not called "validation loss".
      ensemble: the other models of an ensemble, such as a ``models.text2text.text2text.Ensemble``; None without them.
    """

    data_layer: DataLayer
    object_name = "objects"
    object_description: str | None = None
    interactive_hint = "Type a line"
    verb: str | None = None
    hub_task: str | None = None
    validates = True
    ensemble: Any = None

    def __init__(self, params: Mapping[str, Any], mode: str = "train") -> None:
        super().__init__(params, None, "model", mode)

    @classmethod
    def use_of(cls, params: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """Returns (``verb``, ``hub_task``) of the model of a config.

        Args:
          params: the config's ``base_params``, with names instead of classes.
        """
        return cls.verb, cls.hub_task

    def _value_problems(self, params: Mapping[str, Any]) -> list[str]:
        return []  # a model's ``dtype`` is a precision policy, which resolve_dtype checks

    @property
    def params_path(self) -> str:
        return ""

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            "batch_size_per_gpu": Param(int, doc="Batch size on each device.", unit="examples or tokens",
                                        minimum=1, maximum=10**9),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return with_change(FREE, {**run_params(), **with_change(SAY, optimization_params()), **reporting_params()})

    @staticmethod
    def get_parts() -> dict[str, Part]:
        """Returns the model's parts by name, in order of construction.

        A subclass adds its own parts to those of its base class. The parts determine the keys of a config (``<name>``,
        ``<name>_params``), the checks of the config, and what is built.
        """
        return {"data_layer": Part(DataLayer, follows_dtype=False, inherits=False)}

    @classmethod
    def all_parts(cls) -> dict[str, Part]:
        """Returns all parts by name: the data layer, parts declared only as parameters, and those of ``get_parts``."""
        required = cls.get_required_params()
        declared = {**required, **cls.get_optional_params()}
        customary = {name: dataclasses.replace(part, optional=name not in required)
                     for name, part in _CUSTOMARY.items() if name in declared}
        return {**Model.get_parts(), **customary, **cls.get_parts()}

    @classmethod
    def declared_params(cls) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the declarations (required, optional) of the model's own parameters and of the keys of its parts."""
        required, optional = dict(cls.get_required_params()), dict(cls.get_optional_params())
        declared = {**optional, **required}
        for name, part in cls.all_parts().items():
            required.update({key: spec for key, spec in part.required_params(name).items() if key not in declared})
            optional.update({key: spec for key, spec in part.optional_params(name).items() if key not in declared})
        return required, optional

    @property
    def precision(self) -> PrecisionPolicy:
        """The precision policy of the model's parts."""
        return precision_of(self.params)

    def derived_params(self, part: str) -> dict[str, Any]:
        """Returns those parameters of a part that depend on the model or its data layer, by name.

        The builder calls this for each part except the data layer. A part declares these parameters with
        ``Param(…, derived=True)``, so that configs need not set them. Parameters that a part does not declare are
        ignored, so a model may return the same parameters for all parts.

        Args:
          part: name of the part, such as ``encoder``.
        """
        return {}

    def part_problems(self) -> list[str]:
        """Returns one sentence for each class of a part, or parameter, that does not suit the task; by default none.

        The builder calls this when only the data layer exists, because the errors of other parts would not name what
        has to be changed. ``params`` contains the classes of these parts.
        """
        return []

    def connect(self) -> None:
        """Called after all parts exist, so that parts can get information from one another.

        A model may also check here that they fit together, and let the data layer leave out examples that the encoder
        cannot handle.
        """

    def initialize_from_data(self) -> None:
        """Sets those new variables whose initial values depend on the training data; by default there are none.

        The builder calls this in training, also before the variables are restored from a checkpoint.
        """

    def join(self, others: Mapping[str, Any]) -> None:
        """Makes an ensemble of this model and others, which have been built for ``interactive_infer`` and restored.

        Args:
          others: the other models, by the names of their log directories.

        Raises:
          UserError: the models cannot be an ensemble.
        """
        raise UserError(f"{type(self).__name__} cannot be a model of an ensemble: give one log directory.")

    @classmethod
    def needed_models(cls, params: Mapping[str, Any]) -> dict[str, str]:
        """Returns the log directories, by attribute, of other models that one with these parameters needs.

        Outside of training, they are built for ``interactive_infer`` and restored, and then given to ``use``. By
        default, none are needed.
        """
        return {}

    def use(self, name: str, other: Model) -> None:
        """Makes this model use another one, which ``needed_models`` names.

        Args:
          name: the attribute that the other model becomes.
          other: the other model, with its weights.

        Raises:
          UserError: the models do not fit together.
        """
        setattr(self, name, other)

    def adapted_weights(self, weights: Mapping[str, np.ndarray], assets: Mapping[str, Any],
                        current: Mapping[str, tf.Variable]) -> Mapping[str, np.ndarray]:
        """Returns the weights of the checkpoint that ``load_model`` names, adapted to this model; by default unchanged.

        Args:
          weights: the checkpoint's weights by name.
          assets: paths of the files in the checkpoint, by name.
          current: this model's variables by name.
        """
        return weights

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the parts that this model has in its mode, except the data layer, in order of construction."""
        return tuple(name for name, part in self.all_parts().items() if name != "data_layer"
                     and self.params.get(name) is not None and self.mode in part.modes)

    @property
    def parts_of_other_modes(self) -> frozenset[str]:
        """Names of the parts that are declared for other modes only."""
        return frozenset(name for name, part in self.all_parts().items() if self.mode not in part.modes)

    def loss_terms(self, batch: dict[str, Any], training: bool) -> tuple[list[LossTerm], dict[str, Any]]:
        """Computes the loss of a batch.

        Args:
          batch: a batch of tensors.
          training: whether to apply dropout and similar operations.

        Returns:
          (the terms of the loss, the decoder's output, see ``parts.keys.DecoderOutput``).
        """
        raise NotImplementedError("A model must implement loss_terms(batch, training).")

    def penalties(self, encoded: dict[str, Any], batch: dict[str, Any]) -> list[LossTerm]:
        """Returns further terms of the loss in training, such as penalties on activations; by default none.

        Args:
          encoded: the encoder's output for the batch; see ``parts.keys.EncoderOutput``.
          batch: a batch of tensors.
        """
        return []

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        """Computes the tensors that ``evaluate`` and ``infer`` get as ``output_values``.

        Args:
          batch: a batch of tensors; in inference, it may have no ``target_tensors``.
        """
        raise NotImplementedError("A model must implement predict(batch).")

    def evaluation_outputs(self, batch: dict[str, Any], terms: list[LossTerm],
                           decoded: dict[str, Any]) -> list[tf.Tensor]:
        """Computes the tensors that ``evaluate`` gets as ``output_values``; by default those of ``predict``.

        Args:
          batch: a batch of tensors.
          terms, decoded: what ``loss_terms`` has returned for the batch.
        """
        return self.predict(batch)

    @property
    def predicts_in_evaluation(self) -> bool:
        """Whether evaluation needs the outputs of ``predict`` in addition to the loss."""
        return True

    def num_objects(self, batch: dict[str, Any]) -> int:
        """Counts the objects (by default examples) in a batch of NumPy arrays; speed is given in objects per second."""
        return int(np.count_nonzero(np.asarray(batch["ids"]) >= 0))  # without the empty rows of xla_buckets

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        """Shows the model's output for a training batch; called on rank 0 only.

        Args:
          batch: a batch of NumPy arrays.
          outputs: the decoder's ``outputs`` for the batch, computed with teacher forcing.
          reporter: receives text, scalars, images, figures, sound and files.
        """

    def maybe_print_logs(self, input_values: dict[str, Any], output_values: list[np.ndarray],
                         training_step: int) -> dict[str, float]:
        """Prints samples of a training batch, and returns scalars for TensorBoard.

        This is called instead of ``report_sample`` if a subclass overrides only this method.
        """
        reporter = Reporter(training_step)
        self.report_sample(input_values, output_values, reporter)
        return reporter.scalars

    def evaluate(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> Any:
        """Evaluates one batch; the results of all batches are passed to ``finalize_evaluation``.

        They are also passed to ``worst_examples`` and ``report_evaluation``, unless a subclass overrides only this
        method: the results may then be of another form than those that the base class shows.

        Args:
          input_values: a batch of NumPy arrays, without empty rows.
          output_values: the arrays that ``predict`` computed for the batch, without empty rows.
        """
        return None

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        """Prints and returns the metrics of an evaluation pass, by name; called on rank 0 only.

        Args:
          results_per_batch: the results of ``evaluate``, in the order of the batches.
          training_step: number of updates so far; None if the evaluation is not part of a training run.
        """
        return {}

    def report_evaluation(self, results_per_batch: list[Any], reporter: Reporter) -> None:
        """Shows pictures and other samples of an evaluation during training; called on rank 0 only.

        Args:
          results_per_batch: the results of ``evaluate``.
          reporter: receives text, scalars, images, figures, sound and files.
        """

    def worst_examples(self, results_per_batch: list[Any], count: int) -> list[dict[str, str]]:
        """Returns the examples with the worst results of an evaluation, worst first, for the report of a run.

        Args:
          results_per_batch: the results of ``evaluate``.
          count: maximum number of examples.

        Returns:
          One dict of texts per example, such as its name, score, target and prediction; by default none.
        """
        return []

    def infer(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> Any:
        """Returns a list of pairs (index of the example, result) for one batch, for the writer of ``open_results``.

        Args:
          input_values: a batch of NumPy arrays, without empty rows; in interactive inference also a list of what the
            user passed, with the key ``data_layer.INPUTS``.
          output_values: the arrays that ``predict`` computed for the batch, without empty rows.
        """
        raise NotImplementedError("For inference, a model must implement infer(input_values, output_values).")

    @property
    def searches(self) -> bool:
        """Whether inference chooses one symbol after the other, in steps of many small operations.

        For a single example on CPUs, it takes less time to run these one after the other than to share them out.
        TensorFlow does so for loops that are traced for its single-threaded executor. It optimises such loops less, so
        that batches would take longer.
        """
        return any(isinstance(part, AutoregressiveDecoder) for part in self.submodules)

    def serving_functions(self) -> list[ServingFunction]:
        """Returns what an exported model can do, the function of raw inputs first; by default nothing.

        The model has been built for ``interactive_infer``.
        """
        return []

    @property
    def can_score(self) -> bool:
        """Whether the model implements ``score`` and ``target_scores``."""
        return False

    def score(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        """Computes scores of the targets of a batch, given its sources.

        Args:
          batch: a batch of tensors, in the structure of ``DataLayer.scoring_signature``.

        Returns:
          Tensors ``[batch, …]`` for ``target_scores``.
        """
        raise NotImplementedError("To score targets, a model must implement score(batch).")

    def target_scores(self, output_values: list[np.ndarray]) -> list[Any]:
        """Converts the arrays that ``score`` computed to a list with one result for each row of the batch."""
        raise NotImplementedError("To score targets, a model must implement target_scores(output_values).")

    def divided(self, given: Any) -> list[Any]:
        """Returns the inputs that the result of one input is computed from, such as sentences; by default itself."""
        return [given]

    def joined(self, given: Any, results: list[Any]) -> Any:
        """Returns the result of an input, from ``infer``'s results for the inputs into which it was divided."""
        return results[0]

    def answer(self, result: Any) -> str:
        """Returns one of ``infer``'s results as text for interactive inference."""
        return str(result)

    def prompt_answer(self, result: Any) -> str:
        """Returns the text that the prompt of interactive inference shows; by default ``answer``."""
        return self.answer(result)

    def open_results(self, output_file: str) -> ResultWriter:
        """Returns the writer of inference results, which receives them in input order; called on rank 0 only.

        Args:
          output_file: path of the file or folder, as given by the user.
        """
        raise NotImplementedError("For inference, a model must implement open_results(output_file).")

    def finalize_inference(self, results_per_batch: list[Any], output_file: str) -> None:
        """Writes the results of all batches at the end.

        This is called instead of ``open_results`` if a subclass overrides only this method. All results are then kept
        in memory.
        """
        with self.open_results(output_file) as writer:
            writer.write_batches(results_per_batch)
