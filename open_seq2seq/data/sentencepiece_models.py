"""Loads and trains SentencePiece models."""

from __future__ import annotations

import os
import shutil
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from open_seq2seq.data.text_files import writing
from open_seq2seq.utils import disk
from open_seq2seq.utils.console import deco_print
from open_seq2seq.utils.data_files import read_data, read_lines
from open_seq2seq.utils.errors import DataError
from open_seq2seq.utils.unicode_text import composition_rules

BLANK = "\u2581"
"""SentencePiece's symbol for a space."""
_MOST_BYTES = 4192  # SentencePiece ignores longer lines in training, so these are divided at spaces


def load_sentencepiece(path: str) -> Any:
    """Loads a model file and returns its ``SentencePieceProcessor``.

    Raises:
      DataError: the file is missing or is not a SentencePiece model.
    """
    return sentencepiece_of(read_data(path, "The SentencePiece model"), path)


def sentencepiece_of(content: bytes, path: str) -> Any:
    """Returns the ``SentencePieceProcessor`` for the content of a model file; ``path`` is only used in messages.

    Raises:
      DataError: the content is not a SentencePiece model.
    """
    import sentencepiece

    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        if processor.get_piece_size() > 0:
            return processor
        reason: Exception | None = None
    except (OSError, RuntimeError) as error:
        reason = error
    raise DataError(f"{path} is not a valid SentencePiece model: name the .model file, not .vocab.") from reason


def normalized(processor: Any, line: str) -> str:
    """Returns a line after the changes that a model makes before it splits the line into pieces."""
    return processor.normalize(line).replace(BLANK, " ").strip()


def train_sentencepiece(inputs: Sequence[str], model_prefix: str, vocab_size: int, model_type: str = "bpe",
                        character_coverage: float = 1.0, max_sentences: int = 10_000_000) -> str:
    """Trains a SentencePiece model on text files, plain or ``.gz``; several files train a joint model.

    See ``train_pieces`` for the other arguments.

    Returns:
      The path of the model.

    Raises:
      DataError: the text cannot be read, or is too small for the vocabulary.
    """
    lines = (line for path in inputs for line in read_lines(path))
    train_pieces(lines, ", ".join(inputs), model_prefix, vocab_size, model_type=model_type,
                 character_coverage=character_coverage, input_sentence_size=max_sentences)
    deco_print(f"Wrote {model_prefix}.model and {model_prefix}.vocab ({vocab_size} pieces)")
    return f"{model_prefix}.model"


def train_pieces(lines: Iterable[str], what: str, model_prefix: str, vocab_size: int, ignore_case: bool = False,
                 **options: Any) -> int:
    """Trains a SentencePiece model with the ids that data layers expect: pad 0, eos 1, bos 2, unk 3.

    The model composes letters (NFC) and reads every white space as a space, but changes no other character: the NFKC
    that SentencePiece does by default makes 102 of 10², which a translation could then not contain. With
    ``ignore_case``, for texts that are only read, it does NFKC and makes all letters small.

    Args:
      lines: the text.
      what: what the text is, for messages.
      model_prefix: the model is written to ``<prefix>.model``, its pieces and scores to ``<prefix>.vocab``.
      vocab_size: number of pieces, including special pieces.
      ignore_case: whether the model makes the same pieces of capital and small letters.
      **options: further options of SentencePiece's trainer, such as ``model_type`` (``bpe`` or ``unigram``),
        ``character_coverage`` (share of the text's characters that the pieces cover, by default 1),
        ``input_sentence_size`` (maximum number of sentences to train on; of a larger text, a random sample is used), or
        ``hard_vocab_limit`` (False to make fewer pieces of a text that is too small).

    Returns:
      The number of pieces.

    Raises:
      DataError: the text is too small for the vocabulary; or the error that ``lines`` raises.
    """
    import sentencepiece

    failures: list[Exception] = []

    def guarded() -> Iterator[str]:
        try:
            for line in lines:
                is_short = len(line.encode()) <= _MOST_BYTES
                yield from (line,) if is_short else textwrap.wrap(line, _MOST_BYTES // 4, break_on_hyphens=False)
        except Exception as error:
            failures.append(error)  # kept, because the trainer replaces it with its own error
            raise

    with tempfile.TemporaryDirectory() as folder:
        rules = f"{folder}/rules.tsv"
        disk.write_new(rules, "".join(f"{_code_points(old)}\t{_code_points(new)}\n"
                                      for old, new in composition_rules().items()))
        settings: dict[str, Any] = {"normalization_rule_tsv": rules}
        if ignore_case:
            settings = {"normalization_rule_name": "nmt_nfkc_cf"}
        settings = {"character_coverage": 1.0, **settings, **options}
        try:
            sentencepiece.set_random_generator_seed(0)
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=guarded(), model_prefix=f"{folder}/pieces", vocab_size=vocab_size,
                shuffle_input_sentence=True, pad_id=0, eos_id=1, bos_id=2, unk_id=3, num_threads=os.cpu_count() or 1,
                minloglevel=2, **settings)
        except Exception as error:
            if failures:
                raise failures[0] from error
            reason = str(error).strip().splitlines()[-1].split("] ")[-1].rstrip(".")
            reason = "there is no text in it" if "sentences_.empty" in reason or "all_chars" in reason else reason
            raise DataError(f"SentencePiece cannot make {vocab_size} pieces from {what}: {reason}.") from error
        for ending in ("model", "vocab"):
            with open(f"{folder}/pieces.{ending}", "rb") as file, writing(f"{model_prefix}.{ending}") as out:
                shutil.copyfileobj(file, out)
        return load_sentencepiece(f"{folder}/pieces.model").get_piece_size()


def _code_points(text: str) -> str:
    return " ".join(f"{ord(char):X}" for char in text)
