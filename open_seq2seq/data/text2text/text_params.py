"""The parameters that data layers of text share."""

from __future__ import annotations

from typing import Any

from open_seq2seq.config.files import ASSET, DATA
from open_seq2seq.config.params import FREE, REFUSE, Param, with_change

PATH = (str, type(None))


def max_length_param(what: str = "sentence", longer: str = "Training drops pairs with a longer sentence; evaluation "
                     "and inference truncate it.") -> dict[str, Any]:
    """Returns the parameter ``max_length``, which every layer of text requires.

    Args:
      what: what an example is called in the description.
      longer: sentence of the description that says what happens to longer examples.
    """
    return {"max_length": Param(int, doc=f"Maximum length of a {what}, special tokens included. {longer}",
                                unit="tokens", minimum=1, maximum=10**6)}


def shared_params() -> dict[str, Any]:
    """Returns the optional parameters that all text-to-text layers share."""
    return {
        "src_vocab_file": Param(PATH, None, "Source vocabulary, one token per line; not used with SentencePiece.",
                                file=ASSET),
        "tgt_vocab_file": Param(PATH, None, "Target vocabulary, one token per line; not used with SentencePiece.",
                                file=ASSET),
        "tokenizer": Param((dict, type(None)), None, "Tokenizer: {'type': 'delimiter'} (the default) for tokenised "
                           "text; {'type': 'sentencepiece', 'model': path} for raw text, with source_model and "
                           "target_model instead of model if the two sides have different models.",
                           file={"model": ASSET, "source_model": ASSET, "target_model": ASSET}, on_change=REFUSE),
        "delimiter": Param(str, " ", "Separator of tokens in a line.", on_change=REFUSE),
        "detokenize": Param(bool, False, "With the tokenizer delimiter: whether to join tokens that are SentencePiece "
                            "pieces to plain text in results.", on_change=FREE),
        "special_tokens_already_in_vocab": Param(bool, True, "Whether vocabulary files begin with PAD, EOS, S and UNK; "
                                                 "if False, these tokens are added as ids 0 to 3.", on_change=REFUSE),
        "pad_vocab_to_eight": Param(bool, False, "Whether to round vocabulary sizes up to a multiple of 8."),
        "index_dir": Param(PATH, None, "Folder for indexes of tokenised text. By default, the index of a large file is "
                           "in .os2s_index beside the file, or in the user's cache folder if that is not writable; "
                           "small files have no index.", on_change=FREE),
        "map_parallel_calls": Param(int, 8, "Number of threads for tokenising, if the tokenizer supports threads.",
                                    "threads", minimum=1, maximum=1024, on_change=FREE),
        "prefetch_buffer_size": Param((int, type(None)), None, "Number of batches to make in advance; 8 if None or not "
                                      "positive.", "batches", maximum=10**4,
                                      on_change=FREE),
    }


def given_target_params() -> dict[str, Any]:
    """Returns the parameters that name texts of the target side for inference."""
    return with_change(FREE, {
        "prefix_file": Param(PATH, None, "For inference: text file with the beginning of each translation, one line "
                             "for each source sentence; an empty line prescribes no beginning.", file=DATA),
        "prefix_column": Param(bool, False, "For inference: whether each line of source_file may have a second column, "
                               "after a tab, with the beginning of the translation."),
        "score_file": Param(PATH, None, "For inference: text file with a translation of each source sentence. "
                            "Inference then computes the log probabilities of these translations and does not "
                            "translate.", file=DATA),
    })
