"""Runs an export without this package: a program of its own, which imports NumPy and the format's runtime only.

usage: python -P outside.py FORMAT FOLDER CALLS.npz RESULTS.npz

CALLS contains the inputs of each call (see ``packed``), under the names ``number:function:input``. RESULTS gets the
outputs, under the names ``number:output``, and ``seconds``, how long each call took.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SEPARATOR = "\x1f"
"""Separates the tokens of a text."""
ARGOS: Mapping[str, Any] = {"beam_size": 4, "length_penalty": 0.2}
"""How Argos Translate searches."""
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
        batch = tokenizer(texts, return_tensors="pt", padding=True, truncation=translates)
        ids = model.generate(**batch, max_length=None, max_new_tokens=max(limits)).numpy()
        if not translates:
            return {"ids": ids[:, -max(limits):]}
        translations = [tokenizer.decode(row[1:1 + limit], skip_special_tokens=True) if text.strip() else ""
                        for row, limit, text in zip(ids, limits, texts, strict=True)]
        return {"texts": np.array([text.encode() for text in translations], object)}

    return call


def ctranslate2(folder: str) -> Call:
    """Returns a function that translates or continues texts with CTranslate2, on one thread.

    The input ``texts`` is tokenised by the SentencePiece models of the folder. Rows of the input ``tokens`` are tokens,
    joined with ``SEPARATOR``, and so are rows of the output ``tokens``.
    """
    import ctranslate2 as library

    place = Path(folder)
    load = functools.cache(lambda kind: getattr(library, kind)(folder, device="cpu", intra_threads=1))
    encoder, decoder = _piece_models(place)

    def call(function: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        what = "texts" if "texts" in inputs else "tokens"
        texts = [text.decode() for text in inputs[what].tolist()]
        rows = [encoder(text) if what == "texts" else text.split(SEPARATOR) if text else [] for text in texts]
        if function == "continue":
            return {"ids": _continued(load("Generator"), place, rows, int(inputs["limits"][0]))}
        found, scores = _translated(load("Translator"), [row[:int(inputs["longest"])] for row in rows],
                                    inputs["limits"].tolist(), beam_size=int(inputs["beam_size"]),
                                    length_penalty=float(inputs["length_penalty"]), min_decoding_length=0)
        results = [decoder(tokens) if what == "texts" else SEPARATOR.join(tokens) for tokens in found]
        return {what: np.array([text.encode() for text in results], object), "scores": scores}

    return call


def argos(folder: str) -> Call:
    """Returns a function that translates with the package in a folder as Argos Translate 1.11 translates a sentence.

    Unlike there, the lengths of translations are limited as in inference, and an empty translation is possible.
    """
    import ctranslate2 as library

    place = tempfile.TemporaryDirectory()
    (package,) = Path(folder).glob("*.argosmodel")
    with zipfile.ZipFile(package) as archive:
        archive.extractall(place.name)
    root = Path(place.name, package.stem)
    translator = library.Translator(str(root / "model"), device="cpu", intra_threads=1)
    encoder, decoder = _piece_models(root)

    def call(function: str, inputs: Mapping[str, np.ndarray], kept: Any = place) -> dict[str, np.ndarray]:
        rows = [encoder(text.decode())[:int(inputs["longest"])] for text in inputs["texts"].tolist()]
        found, scores = _translated(translator, rows, inputs["limits"].tolist(), replace_unknowns=True,
                                    min_decoding_length=0, **ARGOS)
        texts = [as_argos(decoder(tokens)) for tokens in found]
        return {"texts": np.array([text.encode() for text in texts], object), "scores": scores}

    return call


def sherpa(folder: str) -> Call:
    """Returns a function that transcribes waveforms of 16 kHz with sherpa-onnx, one by one, on one thread."""
    import sherpa_onnx

    @functools.cache
    def recognizer(function: str) -> Any:
        return sherpa_onnx.OfflineRecognizer.from_omnilingual_asr_ctc(f"{folder}/{function}.onnx",
                                                                      f"{folder}/tokens.txt")

    def text_of(function: str, audio: np.ndarray) -> bytes:
        stream = recognizer(function).create_stream()
        stream.accept_waveform(16000, audio)
        recognizer(function).decode_stream(stream)
        return stream.result.text.strip().encode()

    return lambda function, inputs: {"texts": np.array([
        text_of(function, row[:length]) for row, length in zip(inputs["waveforms"], inputs["lengths"], strict=True)],
        object)}


def as_argos(text: str) -> str:
    """Returns a text as Argos Translate writes it: with spaces instead of underscores."""
    return text.replace("\u2581", " ").replace("_", " ").removeprefix(" ")


def _piece_models(folder: Path) -> tuple[Any, Any]:
    """Returns functions from a text to pieces and back; fails when they are called if the folder has no models."""
    names = [name for name in ("sentencepiece.model", "source.model", "target.model") if (folder / name).exists()]
    if not names:
        return None, None
    import sentencepiece

    first, last = (sentencepiece.SentencePieceProcessor(str(folder / name)) for name in (names[0], names[-1]))
    return functools.partial(first.encode, out_type=str), last.decode


def _continued(generator: Any, folder: Path, prompts: Sequence[Sequence[str]], count: int) -> np.ndarray:
    """Returns the ids ``[batch, count]`` that follow prompts; the token that ends lines does not end texts."""
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    no_end = [len(json.loads((folder / "vocabulary.json").read_text(encoding="utf-8")))]
    ids = np.zeros([len(prompts), count], np.int64)
    for length in {len(prompt) for prompt in prompts}:  # results of CTranslate2 depend on longer prompts of a call
        numbers = [number for number, prompt in enumerate(prompts) if len(prompt) == length]
        rows = [[settings["eos_token"], *prompts[number]] for number in numbers]
        found = generator.generate_batch(rows, max_length=count, include_prompt_in_result=False, end_token=no_end)
        ids[numbers] = [result.sequences_ids[0] for result in found]
    return ids


def _translated(translator: Any, rows: Sequence[Sequence[str]], limits: Sequence[int],
                **options: Any) -> tuple[list[list[str]], np.ndarray]:
    """Returns the translations of tokens, as tokens, and their scores; those of empty rows are empty, with score 0.

    Args:
      translator: a ``ctranslate2.Translator``.
      rows: the tokens of each text.
      limits: maximum number of tokens of each translation, including EOS.
      options: arguments of ``translate_batch``.
    """
    found: list[list[str]] = [[] for _ in rows]
    scores = np.zeros(len(rows), np.float32)
    for limit in sorted(set(limits)):  # max_decoding_length applies to all texts of a call
        numbers = [number for number, row in enumerate(rows) if row and limits[number] == limit]
        results = translator.translate_batch([rows[number] for number in numbers], max_decoding_length=limit,
                                             max_input_length=0, return_scores=True, **options)
        for number, result in zip(numbers, results, strict=True):
            found[number], scores[number] = result.hypotheses[0], result.scores[0]
    return found, scores


RUNTIMES: dict[str, Callable[[str], Call]] = {
    "savedmodel": saved_model, "litert": litert, "litert_float16": litert, "litert_int8": litert, "onnx": onnx,
    "huggingface": hugging_face, "ctranslate2": ctranslate2, "ctranslate2_float16": ctranslate2,
    "ctranslate2_int8": ctranslate2, "argos": argos, "sherpa": sherpa}
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
