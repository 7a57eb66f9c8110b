"""Writes Transformers for CTranslate2 (https://opennmt.net/CTranslate2), and translators for Argos Translate.

CTranslate2's Transformer is the same network as this toolkit's: normalisation before each sublayer, scaled embeddings,
ReLU. Three things differ from CTranslate2's defaults and are set explicitly: the table of sinusoids, because sines and
cosines are not interleaved in this toolkit; the first input of the decoder, which is a zero vector instead of the
embedding of a start token; and the epsilon of the normalisation.

A language model becomes a decoder without attention to an encoder, with sinusoids or with ALiBi. Its first input is the
token that ends lines, and this token does not end its texts.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.lm.tokenizers import split_characters, split_normalized_words, split_words
from open_seq2seq.data.sentencepiece_models import BLANK
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer, SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder, TransformerLMEncoder
from open_seq2seq.export import outside
from open_seq2seq.export.formats import Format
from open_seq2seq.export.runtime_texts import (
    SAMPLING_OFF,
    TEXTS,
    RuntimeFunction,
    continuing,
    greedy_search,
    loading,
    positions_of_translation,
    refusal_of_norms,
    runtime_function,
    translation_limits,
    without_padding,
)
from open_seq2seq.models.lm.language_model import LanguageModel
from open_seq2seq.models.serving import Answer, ServingFunction, feed_of_texts
from open_seq2seq.models.text2text.text2text import Text2Text, check_single_source
from open_seq2seq.parts.output_layer import OutputLayer
from open_seq2seq.parts.transformer.position import position_signal
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError

_PIECES = "sentencepiece.model"
_PACKAGE_VERSION = "1.0"
_CODES = {"source_language": "en", "target_language": "de"}  # of packages of Argos Translate; examples
_LEAST_POSITIONS = 1024  # of a written model; CTranslate2 refuses longer texts


def functions(model: Any) -> list[ServingFunction]:
    """Returns what the export can do: ``translate`` or ``continue``.

    Raises:
      UserError: CTranslate2 cannot compute the same function as the model.
    """
    check_exportable(model)
    return [_continue(model) if isinstance(model, LanguageModel) else translating(model)]


def check_exportable(model: Any) -> None:
    """Raises UserError unless CTranslate2 can compute the same function as the model."""
    if isinstance(model, LanguageModel):
        problem = _refusal_of_language(model.encoder)
    elif isinstance(model, Text2Text):
        check_single_source(model)
        problem = _refusal_of_translation(model)
    else:
        problem = f"it is a {type(model).__name__}"
    if problem:
        raise UserError(f"The model cannot be written for CTranslate2, because {problem}: the format holds models of "
                        "TransformerEncoder and TransformerDecoder with layernorm_L2 and equal epsilons, without "
                        "use_start_token, and language models of TransformerLMEncoder with layernorm_L2, without "
                        "memory_length and adaptive_softmax.")


def _refusal_of_translation(model: Any) -> str | None:
    encoder, decoder = model.encoder, model.decoder
    if not isinstance(encoder, TransformerEncoder) or not isinstance(decoder, TransformerDecoder):
        return f"it has a {type(encoder).__name__} and a {type(decoder).__name__}"
    if model.data_layer.params["use_start_token"]:
        return "'data_layer_params/use_start_token' is True"
    if norm := refusal_of_norms(encoder, decoder):
        return norm
    if encoder.output_norm.epsilon != decoder.output_norm.epsilon:
        return "the encoder's 'norm_params/epsilon' differs from the decoder's"
    return None


def _refusal_of_language(encoder: Any) -> str | None:
    if not isinstance(encoder, TransformerLMEncoder):
        return f"it has a {type(encoder).__name__}"
    if encoder.params["memory_length"] is not None:
        return f"'encoder_params/memory_length' is {encoder.params['memory_length']}"
    if type(encoder.output_layer) is not OutputLayer:
        return "its output layer is an adaptive softmax"
    return refusal_of_norms(encoder)


def translating(model: Any) -> RuntimeFunction:
    """Returns the function ``translate``: from texts with SentencePiece, else from tokens."""
    layer, params, (source, target) = model.data_layer, model.decoder.params, model.data_layer.tokenizers
    is_raw, ids = bool(piece_files(model)), {token: number for number, token in enumerate(_tokens(target))}
    what = "texts" if is_raw else "tokens"

    def feed(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        rows, lengths = layer.make_interactive_batch(inputs)["source_tensors"]
        given = feed_of_texts({})(inputs, numbers) if is_raw else _joined(
            source, [row[:length - layer.num_special] for row, length in zip(rows, lengths, strict=True)])
        return {**given, "limits": translation_limits(model, lengths), "beam_size": np.array(params["beam_size"]),
                "length_penalty": np.array(params["alpha"]),
                "longest": np.array(layer.params["max_length"] - layer.num_special)}

    def answer(found: bytes, score: float) -> Answer:
        tokens = [ids[token] for token in found.decode().split(outside.SEPARATOR) if token] if not is_raw else []
        return Answer((found.decode() if is_raw else layer.ids_to_text(tokens),), (float(score),))

    def answers(outputs: Mapping[str, np.ndarray]) -> list[Answer]:
        return [answer(*pair) for pair in zip(outputs[what].tolist(), outputs["scores"], strict=True)]

    described = {what: f"{what} of each translation [batch]", "scores": "score of each translation [batch], float32"}
    return runtime_function("translate", {what: TEXTS}, described, feed, answers,
                            lambda result: Answer((result[0].text,), (float(result[0].score),)),
                            lambda folder: lines_that_load(model, folder))


def _continue(model: Any) -> RuntimeFunction:
    """Returns the function ``continue``: from texts with SentencePiece, else from tokens."""
    layer = model.data_layer

    def tokens(inputs: Sequence[Any], numbers: np.ndarray) -> dict[str, np.ndarray]:
        rows, lengths = layer.make_interactive_batch(inputs)["source_tensors"]
        return _joined(layer.tokenizer, [row[1:length] for row, length in zip(rows, lengths, strict=True)])

    feed, what = (feed_of_texts({}), "texts") if piece_files(model) else (tokens, "tokens")
    return continuing(model, {what: TEXTS}, {"ids": "ids that follow each prompt [batch]"}, feed,
                      lambda folder: lines_that_load(model, folder))


def _joined(tokenizer: Any, rows: Sequence[Any]) -> dict[str, np.ndarray]:
    """Returns the tokens of ids as the input ``tokens`` of ``outside``: the tokens of each row, separated."""
    names = _tokens(tokenizer)
    texts = [outside.SEPARATOR.join(names[number] for number in row).encode() for row in rows]
    return {"tokens": np.array(texts, object)}


def write_model(model: Any, folder: Path, quantization: str = "float32") -> None:
    """Writes the CTranslate2 model, without SentencePiece models.

    Args:
      model: a model that ``check_exportable`` accepts, with restored weights.
      folder: an existing folder.
      quantization: ``float32``, ``int8`` or ``float16``.
    """
    is_language = isinstance(model, LanguageModel)
    spec = _language_model(model) if is_language else _translator(model)
    tokenizers = _tokenizers(model)
    special = _tokens(tokenizers[-1])
    end = tokenizers[-1].end_id if is_language else int(SpecialTextTokens.EOS_ID)
    spec.config.unk_token, spec.config.eos_token = special[tokenizers[-1].unknown_id], special[end]
    if is_language:
        spec.register_vocabulary(special)
        spec.config.bos_token = special[end]
    else:
        spec.register_source_vocabulary(_tokens(tokenizers[0]))
        spec.register_target_vocabulary(special)
        spec.config.bos_token = spec.config.decoder_start_token = special[SpecialTextTokens.S_ID]
        spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = float(model.encoder.output_norm.epsilon)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def _tokenizers(model: Any) -> tuple[Any, ...]:
    """Returns the tokenizers of source and target, or that of a language model."""
    layer = model.data_layer
    return (layer.tokenizer,) if isinstance(model, LanguageModel) else layer.tokenizers


def _tokens(tokenizer: Any) -> list[str]:
    """Returns the token of each id; ids that only pad the vocabulary get unique names."""
    tokens = list(tokenizer.tokens)
    return tokens + [f"<unused {number}>" for number in range(len(tokens), tokenizer.vocab_size)]


def piece_files(model: Any) -> list[str]:
    """Returns the names of the SentencePiece models in the folder: one for both sides, one for each, or none."""
    tokenizers = _tokenizers(model)
    if not isinstance(tokenizers[0], SentencePieceTokenizer):
        return []
    return [_PIECES] if tokenizers[0] is tokenizers[-1] else ["source.model", "target.model"]


def _translator(model: Any) -> Any:
    """Returns the specification of a translation model, with its weights."""
    encoder, decoder = model.encoder, model.decoder
    specs = importlib.import_module("ctranslate2").specs
    spec = specs.TransformerSpec.from_config((len(encoder.layers), len(decoder.layers)), encoder.params["num_heads"])
    spec.decoder.num_heads = np.int16(decoder.params["num_heads"])
    source = encoder.embedding.table.numpy()[:model.data_layer.source_vocab_size]
    target = (decoder.embedding or encoder.embedding).table.numpy()[:model.data_layer.target_vocab_size]
    spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight = without_padding(source), without_padding(target)
    spec.decoder.projection.weight = target
    spec.decoder.start_from_zero_embedding = True
    positions = positions_of_translation(model, _LEAST_POSITIONS)
    for side, part in ((spec.encoder, encoder), (spec.decoder, decoder)):
        side.position_encodings.encodings = position_signal(tf.range(positions), part.params["hidden_size"]).numpy()
        _set_layers(side, part)
    return spec


def _language_model(model: Any) -> Any:
    """Returns the specification of a language model, with its weights."""
    encoder, specs = model.encoder, importlib.import_module("ctranslate2").specs
    params, has_sinusoids = encoder.params, encoder.params["position_encoding"] == "sinusoidal"
    spec = specs.TransformerDecoderModelSpec.from_config(len(encoder.layers), params["num_heads"],
                                                         alibi=not has_sinusoids)
    spec.decoder.embeddings.weight = encoder.embedding.numpy()
    spec.decoder.projection.weight = encoder.output_layer.table.numpy()
    if encoder.output_layer.bias is not None:
        spec.decoder.projection.bias = encoder.output_layer.bias.numpy()
    if has_sinusoids:
        positions = tf.range(_LEAST_POSITIONS + params["num_tokens_gen"])
        spec.decoder.position_encodings.encodings = position_signal(positions, params["hidden_size"]).numpy()
    _set_layers(spec.decoder, encoder)
    return spec


def _set_layers(side: Any, part: Any) -> None:
    """Sets the weights of the layers and of the last normalisation of an encoder or a decoder."""
    _set_norm(side.layer_norm, part.output_norm)
    for target, layer in zip(side.layer, part.layers, strict=True):
        _set_attention(target.self_attention, layer.self_attention, layer.self_attention_norm, ("qkv", "o"))
        if hasattr(layer, "cross_attention"):
            _set_attention(target.attention, layer.cross_attention, layer.cross_attention_norm, ("q", "kv", "o"))
        _set_feed_forward(target.ffn, layer)


def _set_norm(target: Any, norm: Any) -> None:
    target.gamma, target.beta = norm.gamma.numpy(), norm.beta.numpy()


def _set_attention(target: Any, attention: Any, norm: Any, matrices: Sequence[str]) -> None:
    """Sets an attention's weights; each string of ``matrices`` names the kernels to concatenate (q, k, v, o)."""
    projections = {"q": attention.query, "k": attention.key, "v": attention.value, "o": attention.output}
    _set_norm(target.layer_norm, norm)
    for linear, names in zip(target.linear, matrices, strict=True):
        linear.weight = np.concatenate([projections[name].numpy().T for name in names])


def _set_feed_forward(target: Any, layer: Any) -> None:
    _set_norm(target.layer_norm, layer.feed_forward_norm)
    weights = layer.feed_forward
    target.linear_0.weight, target.linear_0.bias = weights.filter_kernel.numpy().T, weights.filter_bias.numpy()
    target.linear_1.weight, target.linear_1.bias = weights.output_kernel.numpy().T, weights.output_bias.numpy()


def lines_that_load(model: Any, folder: str) -> list[str]:
    """Returns lines of Python that load the converted model, and translate or continue a text."""
    files, is_language = piece_files(model), isinstance(model, LanguageModel)
    kind, name = ("Generator", "generator") if is_language else ("Translator", "translator")
    lines = ["import ctranslate2", *(["import sentencepiece"] if files else []), "",
             f"{name} = ctranslate2.{kind}({folder!r}, device='cpu')"]
    lines += [f"{side} = sentencepiece.SentencePieceProcessor({f'{folder}/{file}'!r})"
              for side, file in (("encoder", files[0]), ("decoder", files[-1]))] if files else []
    tokens, text = ("encoder.encode('…', out_type=str)", "decoder.decode(hypothesis)") if files else (
        _splitting(_tokenizers(model)[0]), _joining(_tokenizers(model)[-1]))
    if is_language:
        tokenizer = model.data_layer.tokenizer
        lines += [f"prompt = [{_tokens(tokenizer)[tokenizer.end_id]!r}, *{tokens}]",
                  "hypothesis = generator.generate_batch("
                  f"[prompt], max_length={model.encoder.params['num_tokens_gen']}, "
                  f"include_prompt_in_result=False, end_token=[{tokenizer.vocab_size}])[0].sequences[0]"]
    else:
        params = model.decoder.params
        lines += [f"tokens = {tokens}",
                  f"hypothesis = translator.translate_batch([tokens], beam_size={params['beam_size']}, "
                  f"length_penalty={params['alpha']:g}, min_decoding_length=0)[0].hypotheses[0]"]
    return [*lines, f"print({text})"]


def _splitting(tokenizer: Any) -> str:
    """Returns an expression of Python for the tokens of a text, which is ``'…'``."""
    if isinstance(tokenizer, DelimiterTokenizer):
        if tokenizer.at_white_space:
            return "'…'.split()"
        return f"[token for token in '…'.strip().split({tokenizer.delimiter!r}) if token]"
    return {split_words: "'…'.split()", split_characters: "list('…')", split_normalized_words:
            "'…'.replace('@-@', '-').replace('-', ' - ').replace(\"n 't\", \" n't\").split()"}[tokenizer.splits_by]


def _joining(tokenizer: Any) -> str:
    """Returns an expression of Python for the text of the tokens ``hypothesis``."""
    if not isinstance(tokenizer, DelimiterTokenizer):
        return f"{tokenizer.separator!r}.join(hypothesis)"
    if tokenizer.detokenize:
        return f"''.join(hypothesis).replace({BLANK!r}, ' ').strip()"
    return f"{tokenizer.delimiter!r}.join(hypothesis)"


def search(model: Any) -> dict[str, Any]:
    """Returns the values with which inference searches by the rules of CTranslate2, with the same beam size."""
    if isinstance(model, LanguageModel):
        return greedy_search(model)
    return {"replace_unknowns": False, "save_alignments": False,
            "decoder_params": {**SAMPLING_OFF, "n_best": 1, "beam_rules": "ctranslate2", "beam_groups": 1,
                               "coverage_penalty": 0.0}}


def _format(name: str, title: str, quantization: str, least_equal: float, most_difference: float) -> Format:
    def write(model: Any, declared: Sequence[ServingFunction], folder: Path) -> None:
        write_model(model, folder, quantization)
        for file, tokenizer in zip(piece_files(model), dict.fromkeys(_tokenizers(model)), strict=False):
            disk.copy_new(tokenizer.path, folder / file)

    return Format(name, title, True, write, loading, "pip install ctranslate2 sentencepiece", least_equal,
                  most_difference, functions, search)


FORMAT = _format("ctranslate2", "CTranslate2", "float32", 0.99, 1e-3)
FLOAT16 = _format("ctranslate2_float16", "CTranslate2 in float16", "float16", 0.95, 0.05)
INT8 = _format("ctranslate2_int8", "CTranslate2 in int8", "int8", 0.8, 0.5)


def _functions_of_argos(model: Any) -> list[ServingFunction]:
    """Returns the function ``translate``.

    Raises:
      UserError: CTranslate2 cannot compute the same function as the model, the model has no SentencePiece model for
        both languages, or no languages.
    """
    if not isinstance(model, Text2Text):
        raise UserError(f"Argos Translate translates, but the model is a {type(model).__name__}: export another model, "
                        "or choose another format.")
    check_exportable(model)
    if piece_files(model) != [_PIECES]:
        raise UserError("A package of Argos Translate needs one SentencePiece model for both languages, which this "
                        "model was not trained with: choose the format ctranslate2.")
    _languages(model)
    function = translating(model)

    def expected(result: Any) -> Answer:
        answer = function.expected(result)
        return Answer((outside.as_argos(answer.texts[0]),), answer.numbers)

    return [dataclasses.replace(function, expected=expected, loading=lambda folder: _lines_of_argos(model, folder))]


def _languages(model: Any) -> tuple[str, str]:
    """Returns the codes of the languages.

    Raises:
      UserError: the config does not name them.
    """
    missing = [name for name in _CODES if not model.params[name]]
    if missing:
        raise UserError(f"A package of Argos Translate names its languages, but {' and '.join(missing)} "
                        f"{'is' if len(missing) == 1 else 'are'} not in the config: give the codes, as in "
                        f"{' '.join(f'--{name}={_CODES[name]}' for name in missing)}.")
    return model.params["source_language"], model.params["target_language"]


def _name_of_package(model: Any) -> str:
    return f"translate-{'_'.join(_languages(model))}-{_PACKAGE_VERSION.replace('.', '_')}"


def _write_argos(model: Any, declared: Sequence[ServingFunction], folder: Path) -> None:
    """Writes the package of a model that ``_functions_of_argos`` accepts, ``translate-en_de-1_0.argosmodel``.

    A package, which LibreTranslate also serves, is a zip archive of a folder with ``metadata.json``, the SentencePiece
    model, and a model of CTranslate2 in ``model/``. See ``argostranslate/package.py`` of
    https://github.com/argosopentech/argos-translate 1.11. Argos Translate divides texts into sentences with a model
    that it downloads by itself, and translates with a beam of at least 4 and the length penalty 0.2.
    """
    source, target = _languages(model)
    metadata = {"package_version": _PACKAGE_VERSION, "argos_version": "1.11", "from_code": source, "from_name": source,
                "to_code": target, "to_name": target, "links": [], "type": "translate"}
    name = _name_of_package(model)
    with tempfile.TemporaryDirectory() as place:
        whole = Path(place)
        (whole / "model").mkdir()
        write_model(model, whole / "model")
        disk.copy_new(model.data_layer.tokenizers[0].path, whole / _PIECES)
        disk.write_new(whole / "metadata.json", json.dumps(metadata, indent=2) + "\n")
        disk.write_new(whole / "README.md", f"# {source} to {target}\n\nA translation model of OpenSeq2Seq.\n")
        with zipfile.ZipFile(folder / f"{name}.argosmodel", "x", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(path for path in whole.rglob("*") if path.is_file()):
                archive.write(path, f"{name}/{path.relative_to(whole)}")


def _lines_of_argos(model: Any, folder: str) -> list[str]:
    """Returns lines of Python that install the package and translate."""
    source, target = _languages(model)
    return ["import argostranslate.package", "import argostranslate.translate", "",
            f"argostranslate.package.install_from_path('{folder}/{_name_of_package(model)}.argosmodel')",
            f"print(argostranslate.translate.translate('…', {source!r}, {target!r}))"]


def _search_of_argos(model: Any) -> dict[str, Any]:
    """Returns the values with which inference searches as Argos Translate does."""
    values = search(model)
    return {**values, "decoder_params": {**values["decoder_params"], "beam_size": outside.ARGOS["beam_size"],
                                         "alpha": outside.ARGOS["length_penalty"]}}


ARGOS = Format("argos", "package of Argos Translate", True, _write_argos, loading, "pip install argostranslate", 0.99,
               1e-3, _functions_of_argos, _search_of_argos)
