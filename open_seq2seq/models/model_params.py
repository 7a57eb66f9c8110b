"""The parameters that every model has, by subject."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import tensorflow as tf

from open_seq2seq.config.names import register
from open_seq2seq.config.params import FREE, SAY, Param, without_effect
from open_seq2seq.metrics.trackers import TRACKERS
from open_seq2seq.parts.randomness import LARGEST_SEED

SUMMARIES = ("learning_rate", "gradients", "gradient_norm", "global_gradient_norm", "variables",
             "variable_norm", "larc_summaries", "loss_scale", "skipped_updates", "gradient_overflows",
             "gradient_underflow")
# Defaults of the parameters by which checkpoints are compared.
BEST_METRIC, BEST_METRIC_MODE = "val_loss", "min"
_STEPS = (int, type(None))
_FUNCTION = (callable, str, type(None))
# The methods of a hook, with a placeholder for each argument after self.
_HOOK_METHODS: dict[str, tuple[None, ...]] = {"begin": (None,), "after_step": (None, None), "end": (None,)}


def run_params() -> dict[str, Any]:
    """Returns the parameters of devices, processes, the log directory, the length of training and compilation."""
    return {**_device_params(), **_process_params(), **_evaluation_params(), **_logdir_params(), **_length_params(),
            **_compilation_params()}


def _device_params() -> dict[str, Any]:
    return {
        "use_horovod": Param(bool, False, "Whether to use all processes started by mpiexec or horovodrun, with one "
                             "device each."),
        "num_gpus": Param(_STEPS, None, "Number of GPUs that a process uses, with one replica on each; by default the "
                          "number of gpu_ids, or 1. With use_horovod, each process has one GPU.", "GPUs", minimum=1,
                          maximum=1024),
        "gpu_ids": Param((list, type(None)), None, "Indices of the machine's GPUs that a process uses, such as "
                         "[0, 2]; by default the first ones."),
        "num_cpu_towers": Param(_STEPS, None, "Number of replicas on the CPU, to test training on several devices "
                                "without GPUs.", "replicas", minimum=1, maximum=1024),
        "hvd_compression": Param([None, "fp16"], None, "With use_horovod: fp16 halves the network traffic of "
                                 "gradients. Each tensor is scaled by a power of two and summed in FP16. Not "
                                 "available for several replicas without Horovod."),
    }


def _process_params() -> dict[str, Any]:
    return {
        "connect_seconds": Param((float, type(None)), 120.0, "How long ranks wait at the start for all ranks to "
                                 "connect, before they exit with an error; None is no limit.", "seconds", above=0.0,
                                 maximum=10.0**7),
        "watchdog_seconds": Param((float, type(None)), 60.0, "All ranks end when one of them has not responded for "
                                  "this long, because it is stopped, stuck or disconnected. If the process of a rank "
                                  "ends, the others notice at once. None disables both checks.", "seconds", above=0.0,
                                  maximum=10.0**7),
        "sync_batch_norm": Param(bool, False, "Whether batch norm on several replicas uses the joint statistics of "
                                 "all replicas' batches.", on_change=SAY),
        "elastic_commit_steps": Param(int, 10, "With --elastic: number of updates between copies of the run's state "
                                      "to host memory. Processes can join after a copy. After the loss of a process, "
                                      "training resumes from the last copy and repeats the updates made since.",
                                      "updates", minimum=1),
    }


def _evaluation_params() -> dict[str, Any]:
    return {
        "eval_batch_size_per_gpu": Param(_STEPS, None, "Batch size of evaluation and inference; "
                                         "batch_size_per_gpu by default.", "examples or tokens",
                                         minimum=1, maximum=10**9),
        "eval_slots": Param(int, 1, "With a data layer in which each example continues the previous one (carry_state): "
                            "number of parts into which evaluation and inference divide the data, to process them side "
                            "by side. At most this many devices share the work. Results depend on this number, but "
                            "not on the number of devices.", "batches", minimum=1, maximum=10**6, on_change=SAY),
        "carried_state_on_resume": Param(["refuse", "reset"], "refuse", "What a run with carried state does if it is "
                                         "resumed with a different batch size or number of batches per update (devices "
                                         "× iter_size), so that the saved states do not fit. refuse: the run ends "
                                         "with an error. reset: the run resets the states."),
    }


def _logdir_params() -> dict[str, Any]:
    return {
        "logdir": Param((str, type(None)), None, "Folder for checkpoints, summaries and logs."),
        "load_model": Param((str, type(None)), None, "Logdir or checkpoint from which training takes the initial "
                            "weights. In a logdir, they are taken from the newest checkpoint or, with "
                            "restore_best_checkpoint, from the best one. May also be a checkpoint of NVIDIA's "
                            "OpenSeq2Seq, such as old/model.ckpt-1000, or a folder of Hugging Face that an export has "
                            "written."),
        "restore_best_checkpoint": Param(bool, False, "Whether evaluation, inference and load_model always use the "
                                         "best checkpoint, if there is one. By default, evaluation and inference use "
                                         "whichever of the newest, the best and the averaged checkpoint has the best "
                                         "best_metric. If these cannot be compared, they use the averaged checkpoint "
                                         "if it is as new as the newest one, otherwise the newest one."),
    }


def _length_params() -> dict[str, Any]:
    return {
        "random_seed": Param((int, type(None)), None, "Seed of all random numbers; by default derived from the time.",
                             minimum=0, maximum=LARGEST_SEED),
        "num_epochs": Param(_STEPS, None, "Length of training. Cannot be combined with max_steps; on the command line, "
                            "it replaces max_steps.", "epochs", minimum=1, maximum=10**9),
        "max_steps": Param(_STEPS, None, "Length of training. Cannot be combined with num_epochs; on the command line, "
                           "it replaces num_epochs.", "updates", minimum=1, maximum=10**15),
        "original_defaults": Param(bool, True, "For configs of NVIDIA's OpenSeq2Seq: whether the parameters that they "
                                   "leave open have the values of that toolkit (see migrating.md).", on_change=FREE),
        **without_effect("finetune", "use_trt", "trt_precision_mode", "trt_max_workspace_size_bytes",
                         "trt_minimum_segment_size", "trt_is_dynamic_op", "trt_maximum_cached_engines"),
        "hooks": Param(list, [], "Hook classes or their names; created as Hook(train_model=…, eval_model=…).",
                       names="hook"),
    }


def _compilation_params() -> dict[str, Any]:
    return {
        "use_xla_jit": Param(bool, False, "Whether to compile the training step with XLA."),
        "xla_buckets": Param(_STEPS, None, "With use_xla_jit: number of static shapes, chosen from the data's lengths, "
                             "to which training batches are padded; XLA compiles the step once for each shape.",
                             "shapes", minimum=1, maximum=1000, on_change=SAY),
        "tf32": Param((bool, type(None)), None, "Whether GPUs may multiply float32 matrices in TensorFloat-32; None "
                      "keeps the system's setting. The setting applies to the whole process.", on_change=SAY),
    }


def optimization_params() -> dict[str, Any]:
    """Returns the parameters of the optimisation."""
    return {**_precision_params(), **_update_params(), **_divergence_params(), **_weight_params()}


def _precision_params() -> dict[str, Any]:
    """Returns the parameters of arithmetic types and of loss scaling."""
    return {
        "dtype": Param((str, tf.DType), "float32", "Precision: float32, mixed_float16, mixed_bfloat16, or mixed "
                       "(float16 on GPUs; on CPUs, bfloat16 for the operations that it speeds up)."),
        "mixed_choice": Param((list, tuple, type(None)), None, "Kinds of operations that mixed computes in bfloat16 on "
                              "a CPU: product, recurrence, convolution. By default, those that are measured to be "
                              "faster in bfloat16."),
        "loss_scaling": Param((float, str, type, type(None)), None, "Loss scaling in half precision: a number, "
                              "Backoff, LogMax, or a subclass of LossScaler. By default Backoff for float16 and 1.0 "
                              "for bfloat16.", above=0.0),
        "loss_scaling_params": Param((dict, type(None)), None, "Arguments of the loss scaler."),
    }


def _update_params() -> dict[str, Any]:
    """Returns the parameters of the optimizer, and of what else determines an update."""
    return {
        "optimizer": Param((type, str, type(None)), None, "Optimizer class or name.", names="optimizer"),
        "optimizer_params": Param(dict, {}, "Arguments of the optimizer."),
        "lr_policy": Param(_FUNCTION, None, "Learning-rate policy: a function of the update count, or its name.",
                           names="lr_policy"),
        "lr_policy_params": Param(dict, {}, "Arguments of the policy."),
        "lr_scale_with_world": Param(bool, False, "Whether to multiply the policy's learning rate by the number of "
                                     "replicas."),
        "lr_factors": Param(dict, {}, "Factors of the learning rate by regular expression: the first expression that "
                            "matches the beginning of a variable's name applies; other variables have the factor "
                            "1. For example {'encoder': 0.1}."),
        "unfreeze_at": Param(dict, {}, "Gradual unfreezing: by regular expression, as in lr_factors, the number of "
                             "updates after which a variable begins to change. For example {'encoder': 500}."),
        "freeze_variables_regex": Param((str, type(None)), None, "Regular expression; variables whose names begin "
                                        "with a match are not trained."),
        "larc_params": Param((dict, type(None)), None, "Arguments of LARC, which adapts the learning rate to each "
                             "variable; None disables it."),
        "max_grad_norm": Param((float, type(None)), None, "Maximum global norm of the gradient; larger gradients are "
                               "scaled down. None disables this.", above=0.0),
        "iter_size": Param(int, 1, "Number of micro-batches whose gradients are accumulated in each update.",
                           "micro-batches per update", minimum=1, maximum=10**6),
        "decoupled_weight_decay": Param((float, type(None)), None, "Weight decay with any optimizer: each update "
                                        "reduces the weights by this fraction times the learning rate.", above=0.0),
        "decoupled_weight_decay_exclude": Param((str, type(None)), None, "Regular expression; variables whose names "
                                                "contain a match do not decay."),
        "ema_decay": Param((float, type(None)), None, "Decay of a moving average of the weights, which evaluation and "
                           "inference use; for example 0.999.", above=0.0, below=1.0),
        "average_from": Param(_STEPS, None, "Averaged SGD: number of updates after which averaging begins. Evaluation "
                              "and inference use the arithmetic mean of the weights over all later updates. Until "
                              "averaging begins, they use the current weights.", "updates",
                              minimum=0),
        "average_after_evals_without_gain": Param(_STEPS, None, "Averaged SGD with the trigger of AWD-LSTM: averaging "
                                                  "begins when the validation loss is greater than the smallest loss "
                                                  "of all previous evaluations except the most recent ones. This "
                                                  "parameter is the number of evaluations that are left out. Needs "
                                                  "evaluations during training.", "evaluations", minimum=1,
                                                  maximum=10**6),
    }


def _divergence_params() -> dict[str, Any]:
    """Returns the parameters of divergence and recovery."""
    return {
        "on_divergence": Param(["stop", "roll_back", "lower_precision"], "stop", "What a run does when it diverges. "
                               "stop: it stops. roll_back: it returns to the last good checkpoint, or to the start, "
                               "with a lower learning rate. lower_precision: it returns to the same checkpoint, and "
                               "uses the next of mixed_float16, mixed_bfloat16 and float32. With several processes, "
                               "only stop is possible.",
                               on_change=FREE),
        "max_skipped_updates": Param(int, 30, "Number of consecutive skipped updates that count as divergence. The "
                                     "number is raised if Backoff may have to skip as many updates to reduce its scale "
                                     "from scale_max to scale_min.",
                                     "updates", minimum=1, on_change=FREE),
        "divergence_loss_factor": Param((float, type(None)), 100.0, "Ten consecutive losses count as divergence if all "
                                        "are greater than this number times the smallest of the run's first ten "
                                        "losses. None disables this check.", above=1.0, on_change=FREE),
        "divergence_lr_factor": Param(float, 0.5, "Factor by which each roll_back multiplies the learning rate.",
                                      above=0.0, maximum=1.0, on_change=FREE),
        "max_recoveries": Param(int, 5, "Maximum number of recoveries from divergence; the next divergence stops the "
                                "run.", minimum=0, on_change=FREE),
    }


def _weight_params() -> dict[str, Any]:
    """Returns the parameters of initialisers and regularisers."""
    return {
        "initializer": Param((type, callable, str, type(None)), None, "Default initialiser of the encoder and the "
                             "decoder.", names="initializer", on_change=FREE),
        "initializer_params": Param(dict, {}, "Arguments of the initialiser.", on_change=FREE),
        "regularizer": Param((type, callable, str, type(None)), None, "Default regulariser of the encoder and the "
                             "decoder.", names="regularizer"),
        "regularizer_params": Param(dict, {}, "Arguments of the regulariser."),
    }


def reporting_params() -> dict[str, Any]:
    """Returns the parameters of what a run prints and records."""
    return {
        "save_summaries_steps": Param(_STEPS, None, "Interval of TensorBoard summaries; None disables them.", "updates",
                                      minimum=1),
        "print_loss_steps": Param(_STEPS, None, "Interval of progress lines; None disables them.", "updates",
                                  minimum=1),
        "print_samples_steps": Param(_STEPS, None, "Interval of samples of training batches, a multiple of "
                                     "print_loss_steps if that is set; None disables them.", "updates", minimum=1),
        "print_bench_info_steps": Param(_STEPS, None, "Interval of speed lines; None disables them.", "updates",
                                        minimum=1),
        "save_checkpoint_steps": Param(_STEPS, None, "Interval of regular checkpoints; another one is saved at the end "
                                       "of training. None disables regular and best checkpoints; a run that is stopped "
                                       "by a signal or an error is still saved if possible.", "updates", minimum=1),
        "num_checkpoints": Param(int, 5, "Number of regular checkpoints that are kept, and of best checkpoints. If "
                                 "average_checkpoints is greater, that many regular checkpoints are kept.", minimum=1),
        "eval_steps": Param(_STEPS, None, "Interval of evaluations in the mode train_eval; training always ends with "
                            "one.", "updates", minimum=1),
        "best_metric": Param(str, BEST_METRIC, "Metric that determines the best checkpoints: val_loss, or a metric "
                             "that the model's evaluation returns."),
        "best_metric_mode": Param(["min", "max"], BEST_METRIC_MODE, "Whether a smaller or a larger metric is better."),
        "stop_after_evals_without_gain": Param(_STEPS, None, "Number of evaluations in a row without a gain in "
                                               "best_metric after which training ends; None disables this.",
                                               "evaluations", minimum=1),
        "average_checkpoints": Param(_STEPS, None, "Number of most recent checkpoints whose weights are averaged at "
                                     "the end of training. Checkpoints from before a jump of the learning rate, or "
                                     "from before a change of its schedule, are left out. Evaluation and inference can "
                                     "then also use the averaged checkpoint; see restore_best_checkpoint. None "
                                     "disables averaging.",
                                     minimum=1),
        "bench_start": Param(int, 10, "Number of updates at the start of a process that are not timed.", "updates",
                             minimum=0),
        "trackers": Param(list, [], "Trackers of experiments that get the metrics, as the table metrics.csv does: any "
                          f"of {', '.join(TRACKERS)}, or subclasses of Tracker.", names="tracker", on_change=FREE),
        "summaries": Param(list, ["learning_rate", "global_gradient_norm", "loss_scale", "skipped_updates",
                                  "gradient_overflows", "gradient_underflow"],
                           "Summaries written to TensorBoard, any of " + ", ".join(SUMMARIES) + "."),
    }


def _is_hook(value: Any) -> bool:
    unwrapped = value.func if isinstance(value, functools.partial) else value
    return callable(value) and _accepts(value, train_model=None, eval_model=None) and (
        not inspect.isclass(unwrapped) or all(_accepts(getattr(unwrapped, method, None), None, *arguments)
                                              for method, arguments in _HOOK_METHODS.items()))


def _accepts(function: Any, *arguments: Any, **named: Any) -> bool:
    """Returns whether a function can be called with these arguments; True if its signature is unknown."""
    try:
        inspect.signature(function).bind(*arguments, **named)
    except TypeError:
        return False
    except ValueError:  # a built-in without a signature
        return callable(function)
    return True


register("hook", fits=_is_hook, wanted="a class that is created as Hook(train_model=…, eval_model=…) and has the "
         "methods begin(trainer), after_step(trainer, results) and end(trainer), such as a subclass of "
         "open_seq2seq.training.hooks.Hook, or the name of one")
