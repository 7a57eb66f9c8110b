"""Tokenizers, which convert lines of text to ids and back."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from open_seq2seq.config.params import Param, check_params
from open_seq2seq.data.sentencepiece_models import BLANK, normalized, sentencepiece_of
from open_seq2seq.data.text2text.vocabulary import NUM_SPECIAL, SpecialTextTokens, Vocabulary, rounded_up
from open_seq2seq.utils.data_files import read_data
from open_seq2seq.utils.errors import ConfigError, DataError
from open_seq2seq.utils.unicode_text import TextIds

_KINDS = ("delimiter", "sentencepiece")


class Tokenizer(Protocol):
    """Protocol of objects that convert lines to ids."""

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digest of everything that the ids depend on."""
        ...

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Returns the concatenated ids of all lines ``[tokens]``, and the number of ids in each line ``[lines]``."""
        ...


class LookupTokenizer:
    """Base class of tokenizers that split lines into tokens and look up the tokens in a vocabulary.

    A token that is not in the vocabulary is looked up in another Unicode form (``TextIds``).

    Args:
      vocabulary: a ``Vocabulary`` or an ``LMVocabulary``.
      unknown_id: the id of tokens that the vocabulary does not have.
    """

    def __init__(self, vocabulary: Any, unknown_id: int) -> None:
        self.vocabulary, self.unknown_id, self.vocab_size = vocabulary, unknown_id, len(vocabulary)
        self.tokens: Sequence[str] = vocabulary.tokens
        self._ids = TextIds(vocabulary.ids, unknown_id)

    def split(self, line: str) -> Sequence[str]:
        """Returns the tokens of a line as text, including those that the vocabulary does not contain."""
        raise NotImplementedError("A LookupTokenizer must define split.")

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Returns the concatenated ids of all lines ``[tokens]``, and the number of ids in each line ``[lines]``."""
        split = [self.split(line) for line in lines]
        counts = np.fromiter(map(len, split), np.int64, len(split))
        ids = map(self._ids.__getitem__, itertools.chain.from_iterable(split))
        return np.fromiter(ids, np.int32, int(counts.sum())), counts

    def first_unknown(self, line: str) -> str:
        """Returns the first token of a line that is not in the vocabulary; an empty string if there is none."""
        return next((token for token in self.split(line) if self._ids[token] == self.unknown_id), "")


class DelimiterTokenizer(LookupTokenizer):
    """Splits tokenised lines at a delimiter, and looks up the tokens in a vocabulary.

    A space as delimiter stands for every white space, also for no-break and ideographic spaces, unless a token of the
    vocabulary contains one.

    Args:
      vocabulary: the known tokens; all others become UNK.
      delimiter: the separator of tokens.
      detokenize: whether ``decode`` joins SentencePiece pieces to plain text.

    Raises:
      ConfigError: the delimiter is empty.
    """

    def __init__(self, vocabulary: Vocabulary, delimiter: str = " ", detokenize: bool = False) -> None:
        if not delimiter:
            raise ConfigError(["'data_layer_params/delimiter' is empty: set it to the separator of tokens."])
        super().__init__(vocabulary, int(SpecialTextTokens.UNK_ID))
        self.delimiter, self.detokenize = delimiter, detokenize
        self.at_white_space = delimiter == " " and not any(len(token.split()) > 1 for token in vocabulary.tokens)
        self.fingerprint = hashlib.sha256(f"split at {delimiter!r} {vocabulary.fingerprint}".encode()).hexdigest()

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids up to EOS, without PAD and start tokens."""
        return self.join(self.tokens_of(ids))

    def split(self, line: str) -> list[str]:
        if self.at_white_space:
            return line.split()
        return [token for token in line.strip().split(self.delimiter) if token]

    def tokens_of(self, ids: Iterable[int]) -> list[str]:
        """Returns the tokens of ids up to EOS as text, without PAD and start tokens."""
        unknown = self.vocabulary.tokens[SpecialTextTokens.UNK_ID]
        return [self.vocabulary.tokens[i] if 0 <= i < self.vocab_size else unknown for i in visible_ids(ids)]

    def join(self, tokens: Sequence[str]) -> str:
        """Returns the text that tokens form; those that the vocabulary does not contain stay as they are."""
        return self.to_text(self.delimiter.join(tokens))

    def to_text(self, tokenised: str) -> str:
        """Returns a tokenised line as ``decode`` would return it: as plain text if ``detokenize`` is True."""
        if not self.detokenize:
            return tokenised
        return "".join(tokenised.split(self.delimiter)).replace(BLANK, " ").strip()


class SentencePieceTokenizer:
    """Tokenizes raw text with a SentencePiece model (Kudo and Richardson 2018, https://arxiv.org/abs/1808.06226).

    Args:
      path: the ``.model`` file; its special ids must be those of ``SpecialTextTokens``.
      pad_vocab_to_eight: whether to round ``vocab_size`` up to a multiple of 8.

    Raises:
      DataError: the file is missing, is not a SentencePiece model, or has other special ids.
    """

    unknown_id = int(SpecialTextTokens.UNK_ID)

    def __init__(self, path: str, pad_vocab_to_eight: bool = False) -> None:
        self.path = path
        content = read_data(path, "The SentencePiece model")
        self._processor = sentencepiece_of(content, path)
        ids = [self._processor.pad_id(), self._processor.eos_id(), self._processor.bos_id(), self._processor.unk_id()]
        if ids != list(range(NUM_SPECIAL)):
            raise DataError(
                f"The SentencePiece model {path} has the ids pad {ids[0]}, eos {ids[1]}, bos {ids[2]}, unk {ids[3]}, "
                "but they must be 0, 1, 2, 3: train a model with scripts/tokenizer_wrapper.py --mode=train.")
        self._pieces = self._processor.get_piece_size()
        self.tokens: Sequence[str] = self._processor.id_to_piece(list(range(self._pieces)))
        self.vocab_size = rounded_up(self._pieces) if pad_vocab_to_eight else self._pieces
        self.fingerprint = hashlib.sha256(content).hexdigest()

    def encode(self, lines: Sequence[str], threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        encoded = self._processor.encode(list(lines), out_type=int, num_threads=threads)
        counts = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return np.fromiter(itertools.chain.from_iterable(encoded), np.int32, int(counts.sum())), counts

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of ids up to EOS, without PAD and start tokens."""
        return self._processor.decode(self._known(ids))

    def _known(self, ids: Iterable[int]) -> list[int]:
        return [i if 0 <= i < self._pieces else int(SpecialTextTokens.UNK_ID) for i in visible_ids(ids)]

    def split(self, line: str) -> list[str]:
        """Returns the pieces of a line as text."""
        return self._processor.encode(line, out_type=str)

    def first_unknown(self, line: str) -> str:
        """Returns the first piece of a line that is not in the model; an empty string if there is none."""
        positions = np.flatnonzero(self.encode([line])[0] == self.unknown_id)
        return self.split(line)[int(positions[0])] if len(positions) else ""

    def normalized(self, line: str) -> str:
        """Returns a line after the changes that the model makes before it splits the line."""
        return normalized(self._processor, line)

    def tokens_of(self, ids: Iterable[int]) -> list[str]:
        """Returns the pieces of ids up to EOS, without PAD and start tokens."""
        return [self._processor.id_to_piece(i) for i in self._known(ids)]

    def join(self, tokens: Sequence[str]) -> str:
        """Returns the text that pieces form."""
        return self._processor.decode_pieces(list(tokens))

    def to_text(self, line: str) -> str:
        """Returns a line unchanged, because ``decode`` returns raw text, too."""
        return line


def visible_ids(ids: Iterable[int]) -> list[int]:
    """Returns the ids before the first EOS, without PAD and start tokens."""
    visible = []
    for i in np.asarray(ids).reshape(-1).tolist():
        if i == SpecialTextTokens.EOS_ID:
            break
        if i not in (SpecialTextTokens.PAD_ID, SpecialTextTokens.S_ID):
            visible.append(i)
    return visible


def make_tokenizers(params: Mapping[str, Any], path: str = "data_layer_params",
                    sides: Sequence[str] = ("source", "target")) -> list[Any]:
    """Returns the tokenizers of some sides; the same object twice if they use the same file.

    Args:
      params: the parameters of a text data layer: ``tokenizer``, ``src_vocab_file``, ``delimiter``…
      path: path of the parameters in the config, for messages.
      sides: the sides: ``source``, ``target`` or both.

    Raises:
      ConfigError: a parameter is missing or unknown.
      DataError: a file cannot be used.
    """
    files = _files_of(params, path, sides)
    first = _made(files[0], params)
    return [first if os.path.abspath(file) == os.path.abspath(files[0]) else _made(file, params) for file in files]


def _files_of(params: Mapping[str, Any], path: str, sides: Sequence[str]) -> list[str]:
    """Returns the vocabulary file or the SentencePiece model of each side."""
    settings = dict(params["tokenizer"] or {"type": "delimiter"})
    kind = settings.pop("type", None)
    if kind not in _KINDS:
        raise ConfigError([f"'{path}/tokenizer/type' must be 'delimiter' or 'sentencepiece', got {kind!r}."])
    allowed = ("model", "source_model", "target_model") if kind == "sentencepiece" else ()
    settings, problems = check_params(settings, {}, dict.fromkeys(allowed, Param((str, type(None)))),
                                      f"{path}/tokenizer")
    if problems:
        raise ConfigError(problems)
    if kind == "sentencepiece":
        files = [settings.get(f"{side}_model") or settings.get("model") or "" for side in sides]
        if not all(files):
            raise ConfigError([f"'{path}/tokenizer' names no SentencePiece model: set 'model', or 'source_model' and "
                               "'target_model'."])
        return files
    names = [{"source": "src_vocab_file", "target": "tgt_vocab_file"}[side] for side in sides]
    missing = [f"'{path}/{name}' is missing: name the vocabulary file, or set a 'tokenizer' of type 'sentencepiece'."
               for name in names if not params[name]]
    if missing:
        raise ConfigError(missing)
    return [params[name] for name in names]


def _made(file: str, params: Mapping[str, Any]) -> Any:
    if (params["tokenizer"] or {}).get("type") == "sentencepiece":
        return SentencePieceTokenizer(file, params["pad_vocab_to_eight"])
    vocabulary = Vocabulary.load(file, params["special_tokens_already_in_vocab"], params["pad_vocab_to_eight"])
    return DelimiterTokenizer(vocabulary, params["delimiter"], params.get("detokenize", False))
