"""Checkpoints of NVIDIA's OpenSeq2Seq, converted, compute what the original computes.

The files in ``original`` have the weights, inputs, outputs, losses and gradients of tiny models with random weights,
which the original has run under TensorFlow 1.15 on a CPU; ``train.loss`` and the gradients are without dropout, and
so are the three training steps, of which the files have the sums of the updates, those of kernels in float16.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq import decoders, encoders, losses
from open_seq2seq.checkpoints.original import Conventions, Conversion, convert
from open_seq2seq.optimizers import Larc, MixedPrecisionOptimizer, make_optimizer, make_schedule
from open_seq2seq.parts.component import creating_variables, named_variables, regularized_variables
from open_seq2seq.parts.forward_pass import forward_pass

FOLDER = Path(__file__).parent / "original"
# What a data layer or a model would derive.
DERIVED: dict[str, Any] = {"num_audio_features": 16, "in_channels": 3, "batch_size": 2, "num_classes": 10,
                           "GO_SYMBOL": 28, "END_SYMBOL": 29}
LEFT_OUT = ("dtype", "batch_size", "initializer", "initializer_params", "regularizer", "regularizer_params",
            "logits_to_outputs_func", "conv_activation")


class Parts(tf.Module):
    """An encoder, a decoder and a loss with the parameters of a config."""

    precision = None

    def __init__(self, params: dict[str, Any], mode: str = "eval", regularized: bool = False, **changes: Any) -> None:
        super().__init__()
        size = params.get("decoder_params", {}).get("tgt_vocab_size")
        self.derived = {**DERIVED, **({"tgt_vocab_size": size} if size else {}),
                        "image_shape": [28, 28, 3] if params["encoder"] == "CNNEncoder" else [32, 32, 3]}
        if params["loss"] == "CrossEntropyLoss" and params["encoder"] == "LMEncoder":
            params["encoder_params"].update(head="classes", num_classes=2)
        params.setdefault("decoder_params", {}).update(changes)
        for part, room in (("encoder", encoders), ("decoder", decoders), ("loss", losses)):
            part_class = getattr(room, params[part])
            required, optional = part_class.declared_params()
            given = {name: value for name, value in {**self.derived, **plain(params.get(f"{part}_params", {}))}.items()
                     if name in {**required, **optional}}
            if regularized and "regularizer" in params and "regularizer" in {**required, **optional}:
                given |= {"regularizer": "l2_regularizer", "regularizer_params": params["regularizer_params"]}
            with creating_variables(1):
                setattr(self, part, part_class(given, self, part, mode))

    def converted(self, arrays: dict[str, np.ndarray]) -> Conversion:
        """Returns arrays by the original's names as values of the variables."""
        shapes = {name: tuple(variable.shape) for name, variable in named_variables(self).items()}
        return convert(arrays, shapes, Conventions.of({part: getattr(self, part).params
                                                       for part in ("encoder", "decoder")}))


def plain(params: Any) -> Any:
    """Returns parameters without dropout, regularisers and what has no effect here."""
    if isinstance(params, list):
        return [plain(value) for value in params]
    if not isinstance(params, dict):
        return "relu20" if params == "relu clipped at 20" else params
    return {name: 1.0 if "keep_prob" in name else 0.0 if "dropout" in name and name != "dropout_seed" else plain(value)
            for name, value in params.items() if name not in LEFT_OUT and not name.endswith("_path")}


def load(name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays = dict(np.load(FOLDER / f"{name}.npz"))
    return arrays, json.loads(str(arrays["params"]))


def of_prefix(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


def assign(parts: Parts, arrays: dict[str, np.ndarray]) -> dict[str, tf.Variable]:
    variables = named_variables(parts)
    conversion = parts.converted(of_prefix(arrays, "weight."))
    assert conversion.unused == []
    assert {name: value.shape for name, value in conversion.weights.items()} == {
        name: tuple(variable.shape) for name, variable in variables.items()}
    for name, value in conversion.weights.items():
        variables[name].assign(value)
    return variables


def inputs(arrays: dict[str, np.ndarray]) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    return tuple([tf.constant(arrays[f"in.{name}"]) for name in (side, f"{side}_len") if f"in.{name}" in arrays]
                 for side in ("x", "y"))


def run(parts: Parts, arrays: dict[str, np.ndarray], training: bool) -> tuple[dict[str, Any], tf.Tensor]:
    source, target = inputs(arrays)
    with forward_pass(0, 0):
        encoded = parts.encoder.encode({"source_tensors": source}, training)
        decoded = parts.decoder.decode({"encoder_output": encoded, "target_tensors": target}, training)
        return decoded, loss_of(parts, decoded, target)


def loss_of(parts: Parts, decoded: dict[str, Any], target: list[tf.Tensor]) -> tf.Tensor:
    """Returns the loss in the original's meaning: means over all positions, and JCA's without the last symbol."""
    kind = type(parts.loss).__name__
    terms = parts.loss.compute_loss({"decoder_output": decoded, "target_tensors": target})
    if kind == "MultiTaskCTCEntropyLoss":
        by_symbol = tf.nn.sparse_softmax_cross_entropy_with_logits(target[0], decoded["logits"])
        attention = tf.reduce_sum(by_symbol[:, :-1]) / tf.size(by_symbol, tf.float32)
        ctc = next(term for term in terms if term.name == "ctc")
        return (1.0 - ctc.weight) * attention + ctc.weight * ctc.sum / ctc.units
    term = terms[0]
    if kind == "BasicSequenceLoss" and parts.loss.params["do_mask"] and parts.loss.params["average_across_timestep"]:
        return term.sum / (tf.size(target[0], tf.float32) - tf.cast(len(target[0]), tf.float32))
    return term.sum / tf.cast(term.units, tf.float32)


def difference(values: Any, expected: np.ndarray) -> float:
    """Returns the largest difference, relative to the largest value."""
    values = np.asarray(values)
    assert values.shape == expected.shape
    return float(np.max(np.abs(values - expected)) / max(float(np.max(np.abs(expected))), 1e-5))


def gradient_differences(parts: Parts, arrays: dict[str, np.ndarray],
                         variables: dict[str, tf.Variable]) -> tuple[float, dict[str, float]]:
    with tf.GradientTape() as tape:
        loss = run(parts, arrays, True)[1]
    trained = {name: variable for name, variable in variables.items() if variable.trainable}
    gradients = dict(zip(trained, tape.gradient(loss, [*trained.values()]), strict=True))
    theirs = {**{name: np.zeros_like(value) for name, value in of_prefix(arrays, "weight.").items()},
              **of_prefix(arrays, "grad.")}
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    expected = convert(theirs, shapes, Conventions({"encoder": 0.0, "decoder": 0.0})).weights
    gradients = {name: tf.convert_to_tensor(one).numpy() for name, one in gradients.items() if one is not None}
    if "encoder/positions/table" in gradients:
        gradients["encoder/positions/table"][0] = 0.0  # the original has no position 0
    differences = {name: difference(one, expected[name]) for name, one in gradients.items()
                   if is_linear(name, arrays)}
    return float(loss), differences


def is_linear(name: str, arrays: dict[str, np.ndarray]) -> bool:
    """Returns whether a variable exists in the original, and is not a product of two variables there."""
    is_product = "residual" in name and name.endswith("/kernel") and any("/res/depth" in one for one in arrays)
    return not is_product and name != "decoder/attention/speller/head_0/bias"


def optimizer_of(params: dict[str, Any]) -> MixedPrecisionOptimizer:
    """Returns the optimizer of a config, with the original's meaning."""
    name, values = params["optimizer"].removesuffix("Optimizer"), dict(params["optimizer_params"])
    if name == "NovoGrad":
        values["compat_no_ema"] = True
    schedule = make_schedule(params["lr_policy"], params["lr_policy_params"], params["max_steps"])
    larc = Larc(**params["larc_params"]) if "larc_params" in params else None
    return MixedPrecisionOptimizer(make_optimizer(name, values), schedule, larc=larc,
                                   max_grad_norm=params.get("max_grad_norm"))


def update(parts: Parts, arrays: dict[str, np.ndarray], optimizer: MixedPrecisionOptimizer,
           variables: dict[str, tf.Variable]) -> float:
    """Makes an update; returns the loss before it, without the regularisation.

    The original does not regularise recurrent layers other than those of speech synthesis.
    """
    recurrent = [part for name in variables for part, kernel in [name.rsplit("/", 1)] if kernel == "recurrent_kernel"]
    names = {id(variable): name for name, variable in variables.items()}
    with tf.GradientTape() as tape:
        loss = run(parts, arrays, True)[1]
        penalties = [regularizer(variable) for variable, regularizer in regularized_variables(parts)
                     if names[id(variable)].rpartition("/")[0] not in recurrent]
        total = tf.add_n([loss, *penalties])
    gradients = tape.gradient(total, [*variables.values()])
    optimizer.update(dict(zip(variables, gradients, strict=True)), variables)
    return float(loss)


def logits_difference(decoded: dict[str, Any], arrays: dict[str, np.ndarray]) -> float:
    if "eval.decoder.logits" not in arrays:  # joint CTC and attention, whose attention is free-running
        return difference(decoded["ctc_output"]["logits"], arrays["eval.decoder.ctc_outputs.logits"].swapaxes(0, 1))
    expected, logits = arrays["eval.decoder.logits"], decoded["logits"]
    return difference(logits, expected if len(expected) == len(logits) else expected.swapaxes(0, 1))


# Tolerances of the logits by name; those with "_full" have no padding, which the original does not mask.
MODELS = {"transformer": 1e-5, "convs2s_full": 1e-5, "w2l_full": 1e-5, "jasper_dense_full": 1e-5,
          "quartznet_full": 1e-5, "ds2_lstm_uni_full": 1e-4, "jca_full": 1e-5, "gnmt": 1e-4, "lstm_lm": 1e-4,
          "resnet_v1_bottleneck": 1e-5, "resnet_v2_basic": 1e-5, "cifar_cnn": 1e-5, "sentiment": 1e-4}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_loss_and_gradients_are_those_of_the_original(name: str):
    arrays, params = load(name)
    if name == "resnet_v1_bottleneck":
        params["encoder_params"]["version"] = 1.5  # the original's version 1
    parts = Parts(params)
    variables = assign(parts, arrays)
    if name != "gnmt":  # whose evaluation does not force targets there; nor does that of JCA's attention
        decoded, loss = run(parts, arrays, False)
        assert logits_difference(decoded, arrays) < MODELS[name]
        assert name == "jca_full" or float(loss) == pytest.approx(float(arrays["eval.loss"]), rel=1e-6)
    loss, differences = gradient_differences(parts, arrays, variables)
    assert loss == pytest.approx(float(arrays["train.loss"]), rel=1e-6)
    assert max(differences.values()) < 1e-4, max(differences, key=differences.__getitem__)


def test_without_masks_padding_has_the_effect_that_it_has_in_the_original():
    arrays, params = load("w2l_full")
    params["encoder_params"]["use_conv_mask"] = False
    parts = Parts(params)
    assign(parts, arrays)
    padded = of_prefix(arrays, "padded.")
    decoded, loss = run(parts, padded, False)
    assert logits_difference(decoded, padded) < 1e-5
    assert float(loss) == pytest.approx(float(padded["eval.loss"]), rel=1e-6)
    assert float(run(parts, padded, True)[1]) == pytest.approx(float(padded["train.loss"]), rel=1e-6)


@pytest.mark.parametrize("name", ["w2l_full", "jasper_dense_full", "ds2_lstm_uni_full", "lstm_lm"])
def test_three_training_steps_are_those_of_the_original(name: str):
    """The moving variance of batch norm is left out: there, it is that of an infinite population.

    So are weights whose gradient is 0 up to rounding, because Adam divides it by its own size.
    """
    arrays, params = load(name)
    parts = Parts(params, regularized=True)
    variables = {name: variable for name, variable in assign(parts, arrays).items() if variable.trainable}
    optimizer = optimizer_of(params)
    optimizer.build(variables)
    losses = [update(parts, arrays, optimizer, variables) for _ in range(3)]
    np.testing.assert_allclose(losses, arrays["losses"], rtol=1e-6)
    before = of_prefix(arrays, "weight.")
    moved = {name: before[name] + np.float32(value) for name, value in of_prefix(arrays, "moved.").items()}
    expected, gradients = (parts.converted({**before, **values}).weights for values in (
        moved, of_prefix(arrays, "grad.")))
    for name, variable in variables.items():
        gradient = np.abs(gradients[name])
        ours = np.where(gradient < 1e-6 * gradient.max(), expected[name], variable)
        assert difference(ours, expected[name]) < 1e-4


# The original's name of each search, and the parameters of the decoder. Beams of recurrent decoders are not compared:
# at the length limit, the original may return an unfinished hypothesis.
SEARCHES = [("transformer_search_1", "infer.", {"beam_size": 4}), ("convs2s_full", "infer.", {"beam_size": 5}),
            ("gnmt", "infer_greedy.", {"beam_width": 1}), ("nmt_small_search_1", "infer_greedy.", {"beam_width": 1}),
            ("jca_full", "infer.", {"beam_search_params": {"beam_width": 4, "ctc_weight": 0.0}})]


@pytest.mark.parametrize(("name", "search", "values"), SEARCHES)
def test_searches_find_what_the_original_finds(name: str, search: str, values: dict[str, Any]):
    arrays, params = load(name)
    parts = Parts(params, "infer", **values)
    assign(parts, arrays)
    with forward_pass(0, 0):
        encoded = parts.encoder.encode({"source_tensors": inputs(arrays)[0]}, False)
        found = parts.decoder.decode({"encoder_output": encoded}, False)["outputs"][0].numpy()
    expected = arrays[f"{search}decoder.outputs.0"][:, name.startswith("convs2s"):]  # ConvS2S' has the start symbol
    for ours, theirs in zip(found, expected, strict=True):
        # The limit depends on each sentence; there, on the longest.
        length = min(len(np.trim_zeros(ours, "b")), len(theirs))
        assert length and until_end(ours, length) == until_end(theirs, length)


def until_end(ids: np.ndarray, length: int) -> list[int]:
    """Returns the first ids ``[length]``, without those after the end symbol, 1."""
    listed = ids.tolist()[:length]
    return listed[:listed.index(1) + 1] if 1 in listed else listed
