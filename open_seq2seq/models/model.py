"""The base of models: a task, its parameters, its forward pass and its evaluation."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.config.names import register
from open_seq2seq.config.params import FREE, SAY, Param, with_change
from open_seq2seq.data.data_layer import DataLayer
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.encoders.encoder import Encoder
from open_seq2seq.losses.loss import Loss, LossTerm
from open_seq2seq.models.part import Part
from open_seq2seq.models.reporter import Reporter
from open_seq2seq.models.results import ResultWriter
from open_seq2seq.optimizers.dtype import PrecisionPolicy, precision_of
from open_seq2seq.parts.component import Component
from open_seq2seq.parts.randomness import LARGEST_SEED

SUMMARIES = ("learning_rate", "gradients", "gradient_norm", "global_gradient_norm", "variables",
             "variable_norm", "larc_summaries", "loss_scale", "skipped_updates", "gradient_overflows",
             "gradient_underflow")
_STEPS = (int, type(None))
_FUNCTION = (callable, str, type(None))
# Parts of models that have them as parameters and do not declare them by get_parts.
_CUSTOMARY = {"encoder": Part(Encoder), "decoder": Part(Decoder),
              "loss": Part(Loss, optional=True, follows_dtype=False, inherits=False, modes=("train", "eval"))}


class Model(Component):
    """Base of models. The builder gives a model its parts after creating it.

    Subclasses declare their parts (``get_parts``), and implement the forward pass (``loss_terms``, ``predict``) and
    how results are evaluated, shown and written (``evaluate``, ``finalize_evaluation``, ``report_sample``, ``infer``,
    ``open_results``). The methods ``maybe_print_logs`` and ``finalize_inference`` of the TensorFlow 1 toolkit are
    supported too.

    Args:
      params: the parameters of one mode, merged and with classes resolved.
      mode: ``train``, ``eval``, ``infer`` or ``interactive_infer``.
    """

    data_layer: DataLayer
    object_name = "objects"
    interactive_hint = "Type a line"

    def __init__(self, params: Mapping[str, Any], mode: str = "train") -> None:
        super().__init__(params, None, "model", mode)

    def _value_problems(self, params: Mapping[str, Any]) -> list[str]:
        return []  # ``dtype`` names a policy, which resolve_dtype checks

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
        return with_change(FREE, {**_run_params(), **with_change(SAY, _optimization_params()), **_reporting_params()})

    @staticmethod
    def get_parts() -> dict[str, Part]:
        """Returns the model's parts by name, in order of construction.

        A subclass adds its own to those of its base class. They determine the keys of a config (``<name>``,
        ``<name>_params``), its checks and what is built.
        """
        return {"data_layer": Part(DataLayer, follows_dtype=False, inherits=False)}

    @classmethod
    def all_parts(cls) -> dict[str, Part]:
        """Returns the data layer, parts that are declared only as parameters, and those of ``get_parts``."""
        required = cls.get_required_params()
        declared = {**required, **cls.get_optional_params()}
        customary = {name: dataclasses.replace(part, optional=name not in required)
                     for name, part in _CUSTOMARY.items() if name in declared}
        return {**Model.get_parts(), **customary, **cls.get_parts()}

    @classmethod
    def declared_params(cls) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns (required, optional) parameters: those of ``get_…_params`` and the keys of the parts."""
        required, optional = dict(cls.get_required_params()), dict(cls.get_optional_params())
        declared = {**optional, **required}
        for name, part in cls.all_parts().items():
            required.update({key: spec for key, spec in part.required_params(name).items() if key not in declared})
            optional.update({key: spec for key, spec in part.optional_params(name).items() if key not in declared})
        return required, optional

    @property
    def precision(self) -> PrecisionPolicy:
        """The arithmetic of the model's parts."""
        return precision_of(self.params)

    def derived_params(self, part: str) -> dict[str, Any]:
        """Returns parameters of a part, not the data layer, that depend on the model or its data layer.

        A part declares them by ``Param(…, derived=True)``, so that a config need not give them. Those that a part does
        not declare are ignored, so a model may return the same for all parts.
        """
        return {}

    def connect(self) -> None:
        """Called when all parts exist, so that one part can get information from another."""

    @property
    def components(self) -> tuple[str, ...]:
        """Names of this model's parts except the data layer, in order of construction."""
        return tuple(name for name, part in self.all_parts().items() if name != "data_layer"
                     and self.params.get(name) is not None and self.mode in part.modes)

    @property
    def parts_of_other_modes(self) -> frozenset[str]:
        """Names of parts that are declared, but not for this model's mode."""
        return frozenset(name for name, part in self.all_parts().items() if self.mode not in part.modes)

    def loss_terms(self, batch: dict[str, Any], training: bool) -> tuple[list[LossTerm], dict[str, Any]]:
        """Computes the loss of a batch; returns (terms, the decoder's output)."""
        raise NotImplementedError("A model implements loss_terms(batch, training).")

    def predict(self, batch: dict[str, Any]) -> list[tf.Tensor]:
        """Computes the outputs for evaluation and inference from the source tensors alone."""
        raise NotImplementedError("A model implements predict(batch).")

    @property
    def predicts_in_evaluation(self) -> bool:
        """Whether evaluation needs ``predict``'s outputs besides the loss."""
        return True

    def num_objects(self, batch: dict[str, Any]) -> int:
        """Counts the objects that speed is measured in, such as tokens, in a batch of NumPy arrays."""
        return int(np.count_nonzero(np.asarray(batch["ids"]) >= 0))  # without the empty rows of xla_buckets

    def report_sample(self, batch: dict[str, Any], outputs: list[np.ndarray], reporter: Reporter) -> None:
        """Shows the model's output for a training batch; called on rank 0 only.

        Args:
          batch: NumPy arrays.
          outputs: the decoder's outputs for the batch, given the target.
          reporter: takes text, scalars, images, figures, sound and files.
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
        """Evaluates one batch; the results of all batches are passed to ``finalize_evaluation``."""
        return None

    def finalize_evaluation(self, results_per_batch: list[Any], training_step: int | None = None) -> dict[str, float]:
        """Prints and returns the metrics of an evaluation pass."""
        return {}

    def infer(self, input_values: dict[str, Any], output_values: list[np.ndarray]) -> Any:
        """Converts one inference batch to rows (example, result) for the writer of ``open_results``."""
        raise NotImplementedError("A model that can infer implements infer(input_values, output_values).")

    def answer(self, result: Any) -> str:
        """Returns one of ``infer``'s results as text for interactive inference."""
        return str(result)

    def open_results(self, output_file: str) -> ResultWriter:
        """Returns the writer of inference results, which gets them in the order of the input; called on rank 0 only.

        Args:
          output_file: the file or folder that the user named.
        """
        raise NotImplementedError("A model that can infer implements open_results(output_file).")

    def finalize_inference(self, results_per_batch: list[Any], output_file: str) -> None:
        """Writes the results of all batches at the end.

        This is called instead of ``open_results`` if a subclass overrides only this method. All results are then kept
        in memory.
        """
        with self.open_results(output_file) as writer:
            writer.write_batches(results_per_batch)


def _run_params() -> dict[str, Any]:
    return {
        "use_horovod": Param(bool, False, "Run on all processes that mpiexec or horovodrun started, one device each."),
        "num_gpus": Param(_STEPS, None, "GPUs that a process trains on, a replica on each; 1 by default, or as many as "
                          "gpu_ids names. With use_horovod each process has one.", "GPUs", minimum=1, maximum=1024),
        "gpu_ids": Param((list, type(None)), None, "Which of the machine's GPUs a process uses, like [0, 2]; the first "
                         "ones by default."),
        "num_cpu_towers": Param(_STEPS, None, "Number of replicas on the CPU, to try several devices without GPUs.",
                                "replicas", minimum=1, maximum=1024),
        "hvd_compression": Param([None, "fp16"], None, "With use_horovod: fp16 halves the network traffic of "
                                 "gradients; they are added up in FP16, and each tensor is scaled by a power of two. "
                                 "Not available for several replicas without Horovod."),
        "connect_seconds": Param((float, type(None)), 120.0, "How long ranks wait for all ranks to connect at the "
                                 "start, before they end with a message; None is no limit.", "seconds", above=0.0,
                                 maximum=10.0**7),
        "watchdog_seconds": Param((float, type(None)), 60.0, "All ranks end when one of them has not responded for "
                                  "this time because it is stopped, stuck or disconnected. A rank that dies is "
                                  "noticed at once. None disables both.", "seconds", above=0.0, maximum=10.0**7),
        "sync_batch_norm": Param(bool, False, "Whether batch norm on several replicas uses the statistics of all "
                                 "their batches together.", on_change=SAY),
        "elastic_commit_steps": Param(int, 10, "With --elastic: number of updates after which the run's state is "
                                      "copied to host memory, and processes may join; after the loss of a process, "
                                      "later updates are made again.", "updates", minimum=1),
        "eval_batch_size_per_gpu": Param(_STEPS, None, "Batch size of evaluation and inference; "
                                         "batch_size_per_gpu by default.", "examples or tokens",
                                         minimum=1, maximum=10**9),
        "eval_slots": Param(int, 1, "With a data layer whose examples continue one another: number of parallel "
                            "batches into which evaluation and inference divide the data, and greatest number of "
                            "devices that share the work. Results depend on it, but not on the number of devices.",
                            "batches", minimum=1, maximum=10**6, on_change=SAY),
        "carried_state_on_resume": Param(["refuse", "reset"], "refuse", "Whether a run with carried state, resumed "
                                         "with another number of batches an update (devices × iter_size) or another "
                                         "batch size, refuses to run, or resets the states, which belong to other "
                                         "rows."),
        "logdir": Param((str, type(None)), None, "Folder for checkpoints, summaries and logs."),
        "load_model": Param((str, type(None)), None, "Logdir or checkpoint whose weights start the training."),
        "restore_best_checkpoint": Param(bool, False, "Evaluate and infer with the best checkpoint, not the newest."),
        "random_seed": Param((int, type(None)), None, "Seed of everything random; the time by default.", minimum=0,
                             maximum=LARGEST_SEED),
        "num_epochs": Param(_STEPS, None, "Length of training; exclusive with max_steps.", "epochs",
                            minimum=1, maximum=10**9),
        "max_steps": Param(_STEPS, None, "Length of training; exclusive with num_epochs.", "updates",
                           minimum=1, maximum=10**15),
        "hooks": Param(list, [], "Hook classes or their names; made as Hook(train_model=…, eval_model=…).",
                       names="hook"),
        "use_xla_jit": Param(bool, False, "Compile the training step by XLA."),
        "xla_buckets": Param(_STEPS, None, "With use_xla_jit: number of static shapes, chosen from the data's lengths, "
                             "that training batches are padded to; XLA compiles the step once for each.", "shapes",
                             minimum=1, maximum=1000, on_change=SAY),
        "tf32": Param((bool, type(None)), None, "Whether GPUs may multiply float32 matrices in TensorFloat-32; None "
                      "is the system's setting. It holds for the whole process.", on_change=SAY),
    }


def _optimization_params() -> dict[str, Any]:
    return {
        "dtype": Param((str, tf.DType), "float32", "float32; mixed (float16 on GPUs; on CPUs bfloat16 where that is "
                       "faster); mixed_float16; mixed_bfloat16."),
        "mixed_choice": Param((list, tuple, type(None)), None, "Kinds of operations that mixed computes in bfloat16 on "
                              "a CPU: product, recurrence, convolution. By default those that a measurement finds "
                              "faster in bfloat16."),
        "optimizer": Param((type, str, type(None)), None, "Optimizer class or name.", names="optimizer"),
        "optimizer_params": Param(dict, {}, "Arguments of the optimizer."),
        "lr_policy": Param(_FUNCTION, None, "Learning-rate policy: a function of the update count, or its name.",
                           names="lr_policy"),
        "lr_policy_params": Param(dict, {}, "Arguments of the policy."),
        "lr_scale_with_world": Param(bool, False, "Multiply the policy's learning rate by the number of replicas."),
        "max_grad_norm": Param((float, type(None)), None, "Largest global norm of the gradient.", above=0.0),
        "decoupled_weight_decay": Param((float, type(None)), None, "At each update weights are reduced by this share, "
                                        "times the learning rate, with any optimizer.", above=0.0),
        "decoupled_weight_decay_exclude": Param((str, type(None)), None, "Regular expression; variables with a match "
                                                "in their name do not decay."),
        "ema_decay": Param((float, type(None)), None, "Decay of a moving average of the weights, which evaluation and "
                           "inference use; 0.999 for example.", above=0.0, below=1.0),
        "larc_params": Param((dict, type(None)), None, "Arguments of LARC, a rate for each variable; None is off."),
        "loss_scaling": Param((float, str, type, type(None)), None, "A number, Backoff, LogMax, or a subclass of "
                              "LossScaler; used with half-precision arithmetic. By default Backoff for float16 and "
                              "1.0 for bfloat16.", above=0.0),
        "loss_scaling_params": Param((dict, type(None)), None, "Arguments of the loss scaler."),
        "on_divergence": Param(["stop", "roll_back", "lower_precision"], "stop", "What a run does when it diverges: "
                               "stop; return to the last good checkpoint with a lower learning rate; or return to it "
                               "and use the next of mixed_float16, mixed_bfloat16, float32.", on_change=FREE),
        "max_skipped_updates": Param(int, 30, "Number of consecutive skipped updates that mean divergence; more if "
                                     "Backoff may need more from scale_max to scale_min.", "updates", minimum=1,
                                     on_change=FREE),
        "divergence_loss_factor": Param((float, type(None)), 100.0, "Ten consecutive losses above this multiple of the "
                                        "first losses mean divergence; None is off.", above=1.0, on_change=FREE),
        "divergence_lr_factor": Param(float, 0.5, "Factor of the learning rate in each roll_back.", above=0.0,
                                      below=1.0, on_change=FREE),
        "max_recoveries": Param(int, 5, "Number of recoveries after which a run stops.", minimum=0, on_change=FREE),
        "iter_size": Param(int, 1, "Gradient accumulation.", "micro-batches an update", minimum=1, maximum=10**6),
        "freeze_variables_regex": Param((str, type(None)), None, "Variables whose name starts with a match stay "
                                        "fixed."),
        "initializer": Param((type, callable, str, type(None)), None, "Default initialiser of encoder and decoder.",
                             names="initializer", on_change=FREE),
        "initializer_params": Param(dict, {}, "Arguments of the initialiser.", on_change=FREE),
        "regularizer": Param((type, callable, str, type(None)), None, "Default regulariser of encoder and decoder.",
                             names="regularizer"),
        "regularizer_params": Param(dict, {}, "Arguments of the regulariser."),
    }


def _reporting_params() -> dict[str, Any]:
    return {
        "save_summaries_steps": Param(_STEPS, None, "TensorBoard summaries; None is off.", "updates", minimum=1),
        "print_loss_steps": Param(_STEPS, None, "Progress lines; None is off.", "updates", minimum=1),
        "print_samples_steps": Param(_STEPS, None, "Samples of a training batch; None is off.", "updates", minimum=1),
        "print_bench_info_steps": Param(_STEPS, None, "Speed lines; None is off.", "updates", minimum=1),
        "save_checkpoint_steps": Param(_STEPS, None, "Checkpoints; None is off.", "updates", minimum=1),
        "num_checkpoints": Param(int, 5, "Number of regular, and of best, checkpoints that are kept.", minimum=1),
        "eval_steps": Param(_STEPS, None, "Evaluation during train_eval.", "updates", minimum=1),
        "best_metric": Param(str, "val_loss", "Metric that chooses the best checkpoints: val_loss, or a name that "
                             "the model's evaluation returns."),
        "best_metric_mode": Param(["min", "max"], "min", "Whether a smaller or a larger metric is better."),
        "average_checkpoints": Param(_STEPS, None, "At the end of training, average this many of the last checkpoints; "
                                     "evaluation and inference then use the average.", minimum=1),
        "bench_start": Param(int, 10, "First step that is timed.", "updates", minimum=0),
        "summaries": Param(list, ["learning_rate", "global_gradient_norm", "loss_scale", "skipped_updates",
                                  "gradient_overflows", "gradient_underflow"],
                           "What goes to TensorBoard: " + ", ".join(SUMMARIES) + "."),
    }


def _is_hook(value: Any) -> bool:
    made = value.func if isinstance(value, functools.partial) else value
    return callable(made) if not inspect.isclass(made) else all(
        callable(getattr(made, method, None)) for method in ("begin", "after_step", "end"))


register("hook", fits=_is_hook, wanted="a class with the methods begin, after_step and end, such as a subclass of "
         "open_seq2seq.training.hooks.Hook, or the name of one")
