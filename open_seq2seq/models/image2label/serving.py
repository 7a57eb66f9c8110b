"""What an exported classifier of images or recordings can do: classify files or waveforms, or return probabilities."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.image2label.image_layer import ImageDataLayer
from open_seq2seq.models.serving import Answer, ServingFunction, Tensors
from open_seq2seq.models.speech2text.serving import FRONT_END, feed_of_waveforms, waveform_specs


def classifying(model: Any) -> list[ServingFunction]:
    """Returns the functions ``classify``, which also returns names, and ``probabilities``.

    Args:
      model: an ``Image2Label`` built for ``interactive_infer``.
    """
    layer, names = model.data_layer, model.data_layer.class_names
    if isinstance(layer, ImageDataLayer):
        sources, raw, core = _of_images(layer)
    else:
        sources, raw, core = _of_recordings(layer)

    def probabilities(inputs: Tensors) -> Tensors:
        with tf.name_scope(FRONT_END):
            source = sources(inputs)
        (logits,) = model.predict({"source_tensors": source})
        return {"probabilities": tf.nn.softmax(tf.cast(logits[:, :len(names)], tf.float32))}

    def classify(inputs: Tensors) -> Tensors:
        outputs = probabilities(inputs)
        return {"labels": tf.gather(tf.constant(names), tf.argmax(outputs["probabilities"], -1)), **outputs}

    def answers(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
        rows = outputs["probabilities"]
        labels = [names[row.argmax()].encode() for row in rows]
        return [Answer((label.decode(),), (float(row.max()),))
                for label, row in zip(outputs.get("labels", labels), rows, strict=True)]

    def expected(result: Any) -> Answer:
        return Answer((model.label_of(result),), (result.probabilities[0],))

    described = {"probabilities": f"probability of each class [batch, {len(names)}], float32"}
    return [
        ServingFunction("classify", classify, raw[0], {"labels": "the most probable class [batch]", **described}, False,
                        raw[1], answers, expected),
        ServingFunction("probabilities", probabilities, core[0], described, True, core[1], answers, expected)]


# The specs of a function's inputs, and its feed; see ``ServingFunction``.
_Inputs = tuple[dict[str, tf.TensorSpec], Callable[[Sequence[Any], np.ndarray], dict[str, np.ndarray]]]


def _of_images(layer: ImageDataLayer) -> tuple[Callable[[Tensors], list[tf.Tensor]], _Inputs, _Inputs]:
    """Returns a function from inputs to ``source_tensors``, and the inputs of ``classify`` and ``probabilities``."""
    size = layer.params["image_size"]

    def sources(inputs: Tensors) -> list[tf.Tensor]:
        pixels = inputs["pixels"] if "pixels" in inputs else layer.graph_pixels(inputs["files"])
        return [layer.standardized(pixels)]

    def contents(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        files = [Path(one).read_bytes() if isinstance(one, (str, os.PathLike)) else tf.io.encode_png(one).numpy()
                 for one in inputs]
        return {"files": np.array(files, object)}

    def pixels(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        return {"pixels": layer.interactive_pixels(inputs).numpy()}

    return (sources, ({"files": tf.TensorSpec([None], tf.string)}, contents),
            ({"pixels": tf.TensorSpec([None, size, size, layer.channels], tf.float32)}, pixels))


def _of_recordings(layer: Any) -> tuple[Callable[[Tensors], list[tf.Tensor]], _Inputs, _Inputs]:
    """Does what ``_of_images`` does for recordings."""
    inputs = waveform_specs(), feed_of_waveforms(layer.params["sample_freq"])
    return lambda given: layer.graph_sources(given["waveforms"], given["lengths"]), inputs, inputs
