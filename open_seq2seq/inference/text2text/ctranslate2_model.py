"""Converts a Transformer to a model of CTranslate2 (https://opennmt.net/CTranslate2), and translates with that model.

CTranslate2's Transformer is the same network as this toolkit's: normalisation before each sublayer, scaled embeddings,
ReLU. Three things differ from CTranslate2's defaults and are set explicitly: the table of sinusoids, because sines and
cosines are not interleaved in this toolkit; the first input of the decoder, which is a zero vector instead of the
embedding of a start token; and the epsilon of the normalisation.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from open_seq2seq.data.text2text.tokenizers import SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.decoders import TransformerDecoder
from open_seq2seq.encoders import TransformerEncoder
from open_seq2seq.models.text2text.translations import Translation
from open_seq2seq.parts.transformer.position import position_signal
from open_seq2seq.utils import disk
from open_seq2seq.utils.errors import UserError

QUANTIZATIONS = ("float32", "int8", "float16")


def ctranslate2_package() -> Any:
    """Returns the module ``ctranslate2``.

    Raises:
      UserError: CTranslate2 cannot be imported.
    """
    try:
        return importlib.import_module("ctranslate2")
    except ImportError as error:
        raise UserError(f"CTranslate2 cannot be imported ({error}): run `pip install ctranslate2`, or install this "
                        "package with its extra ctranslate2.") from error


def check_exportable(model: Any) -> None:
    """Raises UserError unless CTranslate2 can compute the same function as the model."""
    encoder, decoder, layer = model.encoder, model.decoder, model.data_layer
    problem = ""
    if not isinstance(encoder, TransformerEncoder) or not isinstance(decoder, TransformerDecoder):
        problem = f"the model has a {type(encoder).__name__} and a {type(decoder).__name__}"
    elif layer.params["use_start_token"]:
        problem = "'data_layer_params/use_start_token' is True"
    else:
        norms = [part.params["norm_params"].get("type", "layernorm_L2") for part in (encoder, decoder)]
        if norms != ["layernorm_L2"] * 2:
            problem = f"'norm_params/type' is {next(norm for norm in norms if norm != 'layernorm_L2')}"
        elif encoder.output_norm.epsilon != decoder.output_norm.epsilon:
            problem = "the encoder's 'norm_params/epsilon' differs from the decoder's"
    if problem:
        raise UserError(f"The model cannot be converted, because {problem}: CTranslate2 supports only "
                        "models of TransformerEncoder and TransformerDecoder with layernorm_L2 and equal epsilons, "
                        "without use_start_token.")


def write_model(model: Any, folder: Path, quantization: str, max_positions: int) -> None:
    """Writes the CTranslate2 model, and the SentencePiece models if there are any.

    Args:
      model: a model that ``check_exportable`` accepts, with restored weights.
      folder: an existing folder.
      quantization: ``float32``, ``int8`` or ``float16``.
      max_positions: longest source or translation, in tokens; CTranslate2 refuses longer ones.
    """
    spec = _specification(model, max_positions)
    tokenizers = _tokenizers(model)
    spec.register_source_vocabulary(_tokens(tokenizers[0]))
    spec.register_target_vocabulary(_tokens(tokenizers[1]))
    special = _tokens(tokenizers[1])
    spec.config.unk_token = special[SpecialTextTokens.UNK_ID]
    spec.config.bos_token = spec.config.decoder_start_token = special[SpecialTextTokens.S_ID]
    spec.config.eos_token = special[SpecialTextTokens.EOS_ID]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = float(model.encoder.output_norm.epsilon)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))
    for name, tokenizer in zip(_piece_files(model), dict.fromkeys(tokenizers), strict=False):
        disk.copy_new(tokenizer.path, folder / name)


def _tokenizers(model: Any) -> tuple[Any, Any]:
    return model.data_layer.tokenizers


def _tokens(tokenizer: Any) -> list[str]:
    """Returns the token of each id; ids that only pad the vocabulary get unique names."""
    tokens = list(tokenizer.tokens)
    return tokens + [f"<unused {number}>" for number in range(len(tokens), tokenizer.vocab_size)]


def _piece_files(model: Any) -> list[str]:
    """Returns the names of the SentencePiece models in the folder: one for both sides, one for each, or none."""
    source, target = _tokenizers(model)
    if not isinstance(source, SentencePieceTokenizer):
        return []
    return ["sentencepiece.model"] if source is target else ["source.model", "target.model"]


def _specification(model: Any, max_positions: int) -> Any:
    encoder, decoder = model.encoder, model.decoder
    specs = ctranslate2_package().specs
    spec = specs.TransformerSpec.from_config((len(encoder.layers), len(decoder.layers)), encoder.params["num_heads"])
    spec.decoder.num_heads = np.int16(decoder.params["num_heads"])
    source = encoder.embedding.table.numpy()[:model.data_layer.source_vocab_size]
    target = (decoder.embedding or encoder.embedding).table.numpy()[:model.data_layer.target_vocab_size]
    spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight = _zero_padding(source), _zero_padding(target)
    spec.decoder.projection.weight = target
    spec.decoder.start_from_zero_embedding = True
    for side, part in ((spec.encoder, encoder), (spec.decoder, decoder)):
        signal = position_signal(tf.range(max_positions), part.params["hidden_size"])
        side.position_encodings.encodings = signal.numpy()
        _set_norm(side.layer_norm, part.output_norm)
        for target, layer in zip(side.layer, part.layers, strict=True):
            _set_attention(target.self_attention, layer.self_attention, layer.self_attention_norm, ("qkv", "o"))
            if part is decoder:
                _set_attention(target.attention, layer.cross_attention, layer.cross_attention_norm, ("q", "kv", "o"))
            _set_feed_forward(target.ffn, layer)
    return spec


def _zero_padding(table: np.ndarray) -> np.ndarray:
    """Returns a table whose first row, the embedding of padding, is zeros."""
    return np.concatenate([np.zeros_like(table[:1]), table[1:]])


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


def translations_by_ctranslate2(model: Any, folder: Path, lines: Sequence[str], beam_size: int,
                                length_penalty: float) -> list[Translation]:
    """Returns CTranslate2's translations of lines, with the model's limits on lengths.

    Args:
      model: the model that was converted.
      folder: the folder of the converted model.
      lines: source sentences.
      beam_size: width of the beam.
      length_penalty: exponent of the length by which CTranslate2 divides the log probability of a translation.

    Raises:
      UserError: CTranslate2 refuses a sentence, for instance because it is longer than the model's positions.
    """
    translator = ctranslate2_package().Translator(str(folder), device="cpu", inter_threads=1)
    layer = model.data_layer
    limit = layer.params["max_length"] - layer.num_special
    tokens = [_tokenizers(model)[0].split(line)[:limit] for line in lines]
    translations = [Translation(0.0, "")] * len(lines)
    ids = {token: number for number, token in enumerate(_tokens(_tokenizers(model)[1]))}
    # max_decoding_length applies to a whole batch, so each batch has sentences of one length.
    for length in sorted({len(words) for words in tokens} - {0}):
        rows = [row for row, words in enumerate(tokens) if len(words) == length]
        limits = model.decoder.limits({"outputs_length": tf.constant([length + layer.num_special])})
        try:
            found = translator.translate_batch([tokens[row] for row in rows], beam_size=beam_size, max_batch_size=64,
                                               length_penalty=length_penalty, max_decoding_length=int(limits[0]),
                                               min_decoding_length=0, return_scores=True)
        except (RuntimeError, ValueError) as error:
            raise UserError(f"CTranslate2 cannot translate a sentence of {length} tokens ({error}): give a larger "
                            "--max_positions if it names positions.") from error
        for row, result in zip(rows, found, strict=True):
            text = layer.ids_to_text([ids[token] for token in result.hypotheses[0]])
            translations[row] = Translation(result.scores[0], text)
    return translations


def lines_that_load(model: Any, folder: str, beam_size: int, length_penalty: float) -> list[str]:
    """Returns three lines of Python that load the converted model and translate a sentence."""
    files = _piece_files(model)
    search = f"beam_size={beam_size}, length_penalty={length_penalty:g}, min_decoding_length=0"
    if not files:
        return ["import ctranslate2",
                f"translator = ctranslate2.Translator({folder!r})",
                f'print(translator.translate_batch(["…".split()], {search})[0].hypotheses[0])']
    encode, decode = (f"sentencepiece.SentencePieceProcessor({str(Path(folder, name))!r})"
                      for name in (files[0], files[-1]))
    pieces = f"translator, encoder, decoder = ctranslate2.Translator({folder!r}), {encode}, {decode}"
    return ["import ctranslate2, sentencepiece", pieces,
            f'print(decoder.decode(translator.translate_batch([encoder.encode("…", out_type=str)], {search})[0]'
            ".hypotheses[0]))"]
