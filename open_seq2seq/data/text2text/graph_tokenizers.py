"""Tokenizers as TensorFlow operations, for exported models.

They return the same ids and texts as the tokenizers in Python, with two exceptions. Bytes that are not UTF-8 become
U+FFFD. And words that the vocabulary spells in another Unicode form are recognised if they consist of composed or of
decomposed letters, but not if they mix both; single characters are recognised only as the vocabulary spells them.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf

from open_seq2seq.data.lm.tokenizers import (
    FittingTokenizer,
    VocabularyTokenizer,
    split_characters,
    split_normalized_words,
    split_words,
)
from open_seq2seq.data.sentencepiece_models import BLANK
from open_seq2seq.data.text2text.tokenizers import DelimiterTokenizer
from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens
from open_seq2seq.utils.errors import NoGraphForm
from open_seq2seq.utils.unicode_text import APOSTROPHES, plain


class GraphTokenizer(Protocol):
    """Protocol of tokenizers whose methods are traced.

    Attributes:
      resources: the tables that its operations use.
    """

    resources: Sequence[Any]

    def ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of texts ``[batch]``, int32 ``[batch, (time)]``."""
        ...

    def texts_of(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Returns the texts ``[batch]`` of ids ``[batch, (time)]``."""
        ...


@functools.singledispatch
def graph_tokenizer(tokenizer: Any) -> GraphTokenizer:
    """Returns the graph form of a tokenizer; the room ``export`` adds that of SentencePiece.

    Raises:
      NoGraphForm: there is none.
    """
    raise NoGraphForm(f"{type(tokenizer).__name__} is not a tokenizer of this package")


def whole_texts(texts: tf.Tensor) -> tf.Tensor:
    """Returns texts ``[batch]`` as valid UTF-8 without line breaks."""
    return tf.strings.regex_replace(tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"), "\n", " ")


def without_special(ids: tf.Tensor) -> tf.RaggedTensor:
    """Returns ids ``[batch, time]`` up to the first EOS, without PAD and start tokens: the ids of the text."""
    before_end = tf.equal(tf.cumsum(tf.cast(tf.equal(ids, int(SpecialTextTokens.EOS_ID)), tf.int32), axis=1), 0)
    is_token = tf.not_equal(ids, int(SpecialTextTokens.PAD_ID)) & tf.not_equal(ids, int(SpecialTextTokens.S_ID))
    return tf.ragged.boolean_mask(ids, before_end & is_token)


def without_special_ragged(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns ids ``[batch, (time)]`` without PAD and start tokens."""
    return tf.ragged.boolean_mask(ids, tf.not_equal(ids, int(SpecialTextTokens.PAD_ID))
                                  & tf.not_equal(ids, int(SpecialTextTokens.S_ID)))


@functools.cache
def _white_space() -> str:
    """Returns the characters at which ``str.split`` splits, as the inside of a class of RE2."""
    return "".join(f"\\x{{{ord(char):x}}}" for char in map(chr, range(sys.maxunicode + 1)) if char.isspace())


def _words(texts: tf.Tensor) -> tf.RaggedTensor:
    """Splits texts at white space, like ``str.split``."""
    return tf.strings.split(tf.strings.regex_replace(texts, f"[{_white_space()}]+", " "))


def _stripped(texts: tf.Tensor) -> tf.Tensor:
    """Removes white space at both ends, like ``str.strip``."""
    return tf.strings.regex_replace(texts, f"^[{_white_space()}]+|[{_white_space()}]+$", "")


class TokenTable:
    """Ids of tokens and tokens of ids, like ``utils.unicode_text.TextIds``.

    Args:
      tokens: the tokens in the order of their ids.
      ids: id of each token.
      unknown: the id of all other tokens.
    """

    def __init__(self, tokens: Sequence[str], ids: Mapping[str, int], unknown: int) -> None:
        spellings = dict(ids)
        for token, number in ids.items():
            for form in () if token.isascii() else (plain(token), unicodedata.normalize("NFD", plain(token))):
                spellings.setdefault(form, number)
        keys = tf.constant([token.encode("utf-8", "surrogatepass") for token in spellings])
        numbers = tf.constant(list(spellings.values()), tf.int32)
        self._table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, numbers), -1)
        self._tokens, self._unknown = [token.encode("utf-8", "surrogatepass") for token in tokens], unknown
        self.resources: Sequence[Any] = [self._table]

    def ids(self, tokens: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the ids of tokens ``[batch, (time)]``; unknown ones are looked up with ASCII apostrophes."""
        flat = tokens.flat_values
        numbers = self._table.lookup(flat)
        other = self._table.lookup(tf.strings.regex_replace(flat, f"[{APOSTROPHES[1:]}]", "'"))
        other = tf.where(other < 0, self._unknown, other)
        return tokens.with_flat_values(tf.where(numbers < 0, other, numbers))

    def tokens(self, ids: tf.RaggedTensor) -> tf.RaggedTensor:
        """Returns the tokens of ids ``[batch, (time)]``."""
        flat = ids.flat_values
        valid = (flat >= 0) & (flat < len(self._tokens))
        return ids.with_flat_values(tf.gather(tf.constant(self._tokens), tf.where(valid, flat, self._unknown)))


class GraphDelimiterTokenizer:
    """The graph form of a ``DelimiterTokenizer``."""

    def __init__(self, tokenizer: DelimiterTokenizer) -> None:
        self._tokenizer = tokenizer
        self._table = TokenTable(tokenizer.tokens, tokenizer.vocabulary.ids, tokenizer.unknown_id)
        self.resources = self._table.resources

    def ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        if self._tokenizer.at_white_space:
            return self._table.ids(_words(texts))
        tokens = tf.strings.split(_stripped(texts), self._tokenizer.delimiter)
        return self._table.ids(tf.ragged.boolean_mask(tokens, tf.not_equal(tokens, "")))

    def texts_of(self, ids: tf.RaggedTensor) -> tf.Tensor:
        delimiter = self._tokenizer.delimiter
        texts = tf.strings.reduce_join(self._table.tokens(ids), axis=1, separator=delimiter)
        if not self._tokenizer.detokenize:
            return texts
        joined = tf.strings.regex_replace(texts, re.escape(delimiter), "")
        return _stripped(tf.strings.regex_replace(joined, BLANK, " "))


graph_tokenizer.register(DelimiterTokenizer)(GraphDelimiterTokenizer)


def split_lines(ids: tf.RaggedTensor, end_id: int) -> tuple[tf.RaggedTensor, tf.Tensor]:
    """Splits texts ``[batch, (time)]`` into lines, each of which but the last is followed by an end token.

    Returns:
      (the ids of all lines ``[lines, (time)]`` without end tokens, the number of lines in each text ``[batch]``).
    """
    is_end = tf.cast(tf.equal(ids, end_id), tf.int32)
    counts = tf.cast(tf.reduce_sum(is_end, axis=1), tf.int64) + 1
    ends = tf.cast(is_end.flat_values, tf.int64)
    # Each text before has one line more than end tokens.
    numbers = tf.cumsum(ends, exclusive=True) + tf.cast(ids.value_rowids(), tf.int64)
    lines = tf.RaggedTensor.from_value_rowids(ids.flat_values, numbers, tf.reduce_sum(counts), validate=False)
    return tf.ragged.boolean_mask(lines, tf.not_equal(lines, end_id)), counts


def joined_lines(lines: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    """Joins lines ``[lines]`` with line breaks to texts ``[batch]``, given the number of lines in each of them."""
    # Not with a separator, which TensorFlow leaves out after empty strings at the beginning.
    breaks = tf.where(tf.ragged.range(counts).flat_values > 0, "\n", "")
    return tf.strings.reduce_join(tf.RaggedTensor.from_row_lengths(breaks + lines, counts, validate=False), axis=1)


class GraphVocabularyTokenizer:
    """The graph form of a ``VocabularyTokenizer`` of words or characters."""

    def __init__(self, tokenizer: VocabularyTokenizer) -> None:
        self._tokenizer = tokenizer
        splits: dict[Any, Any] = {
            split_words: _words, split_normalized_words: _normalized_words, split_characters: _characters}
        self._split = splits[tokenizer.splits_by]
        ids: Mapping[str, int] = tokenizer.vocabulary.ids
        usual = next((char for char in APOSTROPHES if char in ids), "")
        if usual and tokenizer.splits_by is split_characters:
            ids = {**dict.fromkeys(APOSTROPHES, ids[usual]), **ids}
        self._table = TokenTable(tokenizer.tokens, ids, tokenizer.unknown_id)
        self.resources = self._table.resources

    def ids_of(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return self._table.ids(self._split(texts))

    def texts_of(self, ids: tf.RaggedTensor) -> tf.Tensor:
        lines, counts = split_lines(ids, self._tokenizer.end_id)
        texts = tf.strings.reduce_join(self._table.tokens(lines), axis=1, separator=self._tokenizer.separator)
        return joined_lines(texts, counts)


graph_tokenizer.register(VocabularyTokenizer)(GraphVocabularyTokenizer)


@graph_tokenizer.register
def _fitting(tokenizer: FittingTokenizer) -> GraphTokenizer:
    raise NoGraphForm("its tokenizer of raw words looks ahead, which regular expressions of TensorFlow cannot do")


def _normalized_words(texts: tf.Tensor) -> tf.RaggedTensor:
    for old, new in (("@-@", "-"), ("-", " - "), ("n 't", " n't")):
        texts = tf.strings.regex_replace(texts, old, new)
    return _words(texts)


def _characters(texts: tf.Tensor) -> tf.RaggedTensor:
    return tf.strings.unicode_split(tf.strings.regex_replace(texts, "\r+$", ""), "UTF-8")
