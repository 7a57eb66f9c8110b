"""Runs an export without this package: a program of its own, which imports NumPy and the format's runtime only.

usage: python -P outside.py FORMAT FOLDER CALLS.npz RESULTS.npz

CALLS contains the inputs of each call (see ``packed``), under the names ``number:function:input``. RESULTS gets the
outputs, under the names ``number:output``, and ``seconds``, how long each call took.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Call = Callable[[str, Mapping[str, np.ndarray]], dict[str, np.ndarray]]


def packed(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Returns arrays for a file: an array of byte strings becomes their lengths and all their bytes."""
    flat: dict[str, Any] = {}
    for name, array in arrays.items():
        if array.dtype == object:
            texts = array.reshape(-1).tolist()
            lengths = np.array(list(map(len, texts)), np.int64).reshape(array.shape)
            flat |= {f"{name}|lengths": lengths, f"{name}|bytes": np.frombuffer(b"".join(texts), np.uint8)}
        else:
            flat[name] = array
    return flat


def unpacked(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns the arrays that were given to ``packed``."""
    whole: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        first, _, part = name.partition("|")
        if part == "lengths":
            content, ends = arrays[f"{first}|bytes"].tobytes(), np.cumsum(array)
            texts = np.empty(array.size, object)
            texts[:] = [content[end - length:end] for length, end in zip(array.reshape(-1), ends, strict=True)]
            whole[first] = texts.reshape(array.shape)
        elif not part:
            whole[name] = array
    return whole


def saved_model(folder: str) -> Call:
    """Returns a function that calls a signature of a SavedModel."""
    import tensorflow as tf

    with contextlib.suppress(ImportError, tf.errors.OpError):  # one of another version of TensorFlow does not load
        import tensorflow_text  # noqa: F401  # the operations of SentencePiece
    signatures = tf.saved_model.load(folder).signatures

    def call(function: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = signatures[function](**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in outputs.items()}

    return call


def litert(folder: str) -> Call:
    """Returns a function that calls a file of LiteRT, on one thread."""
    from ai_edge_litert.interpreter import Interpreter

    @functools.cache
    def runner(function: str) -> Callable[..., dict[str, np.ndarray]]:
        return Interpreter(f"{folder}/{function}.tflite", num_threads=1).get_signature_runner(function)

    return lambda function, inputs: runner(function)(**inputs)


def onnx(folder: str) -> Call:
    """Returns a function that calls a file of ONNX Runtime, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1

    @functools.cache
    def session(function: str) -> Any:
        return onnxruntime.InferenceSession(f"{folder}/{function}.onnx", options)

    def call(function: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        loaded = session(function)
        names = [output.name for output in loaded.get_outputs()]
        return dict(zip(names, loaded.run(names, dict(inputs)), strict=True))

    return call


def hugging_face(folder: str) -> Call:
    """Returns a function that translates texts, or continues prompts, with ``transformers`` on one thread."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    translates = AutoConfig.from_pretrained(folder).is_encoder_decoder
    model = (AutoModelForSeq2SeqLM if translates else AutoModelForCausalLM).from_pretrained(folder)

    def call(function: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        texts, limits = [text.decode() for text in inputs["texts"].tolist()], inputs["limits"].tolist()
        batch = tokenizer(texts, return_tensors="pt", padding=True, truncation=translates, return_token_type_ids=False)
        ids = model.generate(**batch, max_length=None, max_new_tokens=max(limits)).numpy()
        if not translates:
            return {"ids": ids[:, -max(limits):]}
        translations = [tokenizer.decode(row[1:1 + limit], skip_special_tokens=True) if text.strip() else ""
                        for row, limit, text in zip(ids, limits, texts, strict=True)]
        return {"texts": np.array([text.encode() for text in translations], object)}

    return call


RUNTIMES: dict[str, Callable[[str], Call]] = {
    "savedmodel": saved_model, "litert": litert, "litert_float16": litert, "litert_int8": litert, "onnx": onnx,
    "huggingface": hugging_face}
"""Name of a format → function that loads a folder, and returns the function that calls one of its functions."""


def main(name: str, folder: str, calls: str, results: str) -> None:
    """Runs the calls, and writes their outputs."""
    sys.modules["open_seq2seq"] = None  # type: ignore[assignment]  # importing it fails
    call, by_call = RUNTIMES[name](folder), dict[int, tuple[str, dict[str, Any]]]()
    with np.load(calls) as file:
        for key, array in unpacked(dict(file)).items():
            place, function, which = key.split(":")
            by_call.setdefault(int(place), (function, {}))[1][which] = array
    outputs: dict[str, np.ndarray] = {}
    seconds = []
    for number, (function, inputs) in sorted(by_call.items()):
        start = time.perf_counter()
        values = call(function, inputs)
        seconds.append(time.perf_counter() - start)
        outputs |= {f"{number}:{which}": value for which, value in values.items()}
    with open(results, "xb") as file:
        np.savez(file, seconds=np.array(seconds), **packed(outputs))


if __name__ == "__main__":
    main(*sys.argv[1:])
