"""Recognisers for sherpa-onnx (https://github.com/k2-fsa/sherpa-onnx): an ONNX file and ``tokens.txt``.

Most of its loaders compute features of their own, whose frames lie elsewhere than those of this toolkit. The one for
omnilingual models gives the network the waveform, at 16 kHz and scaled to mean 0 and variance 1, and expects logits
``[batch, steps, symbols]`` with a fixed number of symbols, of which it takes the likeliest. The scale does not matter
to features of audio that is divided by its peak. Recordings whose mean is far from 0 are transcribed differently.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from open_seq2seq.decoders import FullyConnectedCTCDecoder
from open_seq2seq.export.converted import writer
from open_seq2seq.export.formats import Format
from open_seq2seq.models.serving import Answer, ServingFunction, Tensors, answers_of_texts
from open_seq2seq.models.speech2text.speech2text import Speech2Text
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError

_RATE = 16000  # Hz
_BLANK = "<blk>"
TOKENS = "tokens.txt"


def functions(model: Any) -> list[ServingFunction]:
    """Returns the function ``transcribe``, from a waveform to logits.

    Raises:
      UserError: sherpa-onnx cannot transcribe with the model.
    """
    if problem := _refusal(model):
        raise UserError(f"The model cannot be written for sherpa-onnx, because {problem}: the format holds recognisers "
                        "with CTC that read audio of 16,000 Hz divided by its peak.")
    logits = next(one for one in model.serving_functions() if one.name == "logits")

    def call(inputs: Tensors) -> Tensors:
        waveforms = inputs["waveforms"]
        lengths = tf.fill([tf.shape(waveforms)[0]], tf.shape(waveforms)[1])
        found = logits.function({"waveforms": waveforms, "lengths": lengths})
        return {"logits": found["logits"][:, :found["logit_lengths"][0]]}

    return [dataclasses.replace(
        logits, name="transcribe", function=call, inputs={"waveforms": logits.inputs["waveforms"]},
        answers=answers_of_texts, outputs={"logits": logits.outputs["logits"]},
        expected=lambda result: Answer((result.text.strip(),)), numbers=None)]


def _refusal(model: Any) -> str | None:
    if not isinstance(model, Speech2Text):
        return f"it is a {type(model).__name__}"
    if not isinstance(model.decoder, FullyConnectedCTCDecoder):
        return f"it has a {type(model.decoder).__name__}"
    settings = model.data_layer.settings
    if settings.sample_freq != _RATE:
        return f"'data_layer_params/sample_freq' is {settings.sample_freq}"
    return None if settings.gain is None else f"'data_layer_params/gain' is {settings.gain}"


def write(model: Any, declared: Sequence[ServingFunction], folder: Path) -> None:
    """Writes the ONNX file and the symbols of a model that ``functions`` accepts."""
    import onnx

    name, symbols = f"{declared[0].name}.onnx", [*model.data_layer.alphabet.labels, _BLANK]
    with tempfile.TemporaryDirectory() as place:
        writer("onnx", "sherpa-onnx", ".onnx")(model, declared, Path(place))
        graph = onnx.load(str(Path(place, name)))
    graph.graph.output[0].type.tensor_type.shape.dim[2].dim_value = len(symbols)
    onnx.helper.set_model_props(graph, {"vocab_size": str(len(symbols)), "sample_rate": str(_RATE)})
    disk.write_new(folder / name, graph.SerializeToString())
    disk.write_new(folder / TOKENS, "".join(f"{symbol} {number}\n" for number, symbol in enumerate(symbols)))


def _search(model: Any) -> dict[str, Any]:
    """Returns the value with which inference takes the likeliest symbols."""
    return {"decoder_params": {"use_language_model": False}} if model.decoder.params.get("use_language_model") else {}


def loading(function: ServingFunction, folder: str) -> list[str]:
    """Returns lines of Python that transcribe a recording."""
    return ["import sherpa_onnx", "import soundfile", "",
            "recognizer = sherpa_onnx.OfflineRecognizer.from_omnilingual_asr_ctc(",
            f"    model='{folder}/{function.name}.onnx', tokens='{folder}/{TOKENS}')",
            "stream = recognizer.create_stream()", "audio, rate = soundfile.read('….wav', dtype='float32')",
            "stream.accept_waveform(rate, audio)", "recognizer.decode_stream(stream)", "print(stream.result.text)"]


FORMAT = Format("sherpa", "sherpa-onnx", True, write, loading, "pip install sherpa-onnx soundfile", 1.0, 1e-3,
                functions, _search, ("sherpa_onnx",))
