"""SentencePiece tokenizers as operations of TensorFlow Text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.data.lm.tokenizers import PieceTokenizer
from open_seq2seq.data.text2text.graph_tokenizers import (
    graph_tokenizer,
    joined_lines,
    split_lines,
    without_special_ragged,
)
from open_seq2seq.data.text2text.tokenizers import SentencePieceTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.utils.data_files import read_data
from open_seq2seq.utils.errors import NoGraphForm, UserError

_VERSION = "2.21"  # of TensorFlow; the operations of TensorFlow Text load into the same version only
INSTALL = f"pip install --no-deps tensorflow-text=={_VERSION}.*"


def _text_package() -> Any:
    if not tf.__version__.startswith(f"{_VERSION}."):
        raise NoGraphForm(f"SentencePiece in an export needs TensorFlow {_VERSION}, and this is {tf.__version__}")
    try:
        import tensorflow_text
    except (ImportError, tf.errors.OpError) as error:
        raise UserError(f"Texts of a SentencePiece model are exported with TensorFlow Text, which is missing: "
                        f"{INSTALL}") from error
    return tensorflow_text


class GraphPieceTokenizer:
    """The graph form of a ``SentencePieceTokenizer``."""

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        self._text = _text_package()
        self._pieces = len(tokenizer.tokens)
        self._tokenizer = self._text.SentencepieceTokenizer(read_data(tokenizer.path), out_type=tf.int32)
        self.resources: Sequence[Any] = [self._tokenizer]

    def ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._tokenizer.tokenize(texts)

    def texts_of(self, ids: tf.RaggedTensor) -> tf.Tensor:
        flat = ids.flat_values
        valid = (flat >= 0) & (flat < self._pieces)  # the size of a vocabulary may be rounded up
        return self._tokenizer.detokenize(ids.with_flat_values(tf.where(valid, flat, int(SpecialTextTokens.UNK_ID))))


class GraphLinesTokenizer(GraphPieceTokenizer):
    """The graph form of a ``PieceTokenizer``, whose EOS ends lines."""

    def texts_of(self, ids: tf.RaggedTensor) -> tf.Tensor:
        lines, counts = split_lines(ids, int(SpecialTextTokens.EOS_ID))
        return joined_lines(super().texts_of(without_special_ragged(lines)), counts)


graph_tokenizer.register(SentencePieceTokenizer)(GraphPieceTokenizer)
graph_tokenizer.register(PieceTokenizer)(GraphLinesTokenizer)


def is_resource(resource: Any) -> bool:
    """Returns whether a resource of a function is a SentencePiece model."""
    return type(resource).__module__.startswith("tensorflow_text")
