"""CTC decoder that consists of one linear layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from open_seq2seq.config.params import FREE, Param, without_effect
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.decoding.ctc.decoder import CtcDecoder, beam_search_params
from open_seq2seq.decoding.ctc.greedy import greedy_decode
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.precision import cast_weight
from open_seq2seq.utils.errors import ConfigError

# Parameters of other decoders' language models, and what to do instead.
_OBSOLETE = {
    "trie_weight": "the language model scores whole words of its lexicon; remove the parameter",
    "lm_weight": "it is called alpha",
    "word_count_weight": "it is called beta",
    "valid_word_count_weight": "other words are forbidden or have the cost oov_penalty; remove the parameter",
    "lm_binary_path": "the language model is an ARPA file; name it in lm_path",
}


class FullyConnectedCTCDecoder(Decoder):
    """A linear layer from the encoder's output to the symbols and the blank, which is last; decodes greedily.

    Returns ``logits`` ``[batch, time, tgt_vocab_size]`` in FP32, ``src_length`` ``[batch]`` in frames, and ``outputs``.
    In training steps, ``outputs`` is None; otherwise it contains the greedily decoded ids ``[batch, symbols]``, their
    lengths, and, for each symbol, its first frame, the frame after its last one, and its confidence.

    With ``use_language_model``, the model decodes the logits in evaluation and inference by prefix beam search
    (``open_seq2seq.decoding.ctc.CtcDecoder``), whose settings are parameters of this decoder.
    """

    tells_times = True

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "tgt_vocab_size": Param(int, doc="Number of symbols, including the blank; set from the data layer.",
                                    unit="symbols", derived=True, minimum=2),
        }

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {
            **Decoder.get_optional_params(),
            **beam_search_params(),
            "hidden_size": Param((int, type(None)), None, "Number of channels of the encoder's output; by default the "
                                 "encoder's output_size.", "channels", minimum=1),
            "use_language_model": Param(bool, False, "Whether evaluation and inference use prefix beam search, with "
                                        "the language model lm_path if it is given, instead of greedy decoding.",
                                        on_change=FREE),
            "infer_logits_to_pickle": Param(bool, False, "Whether inference writes logits, for scripts/decode.py, "
                                            "to the output file instead of texts.", on_change=FREE),
            **{name: Param(object, None, f"Obsolete with a language model: {why}. Has no effect without one.",
                           on_change=FREE) for name, why in _OBSOLETE.items()},
            **without_effect("decoder_library_path", reason=", because decoding needs no compiled library"),
            **without_effect("trie_path", "lm_trie_path", reason=", because the lexicon is the words of lm_path"),
            **without_effect("alphabet_config_path", reason=", because the alphabet is that of the data layer"),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        problems = [f"'{self.params_path}/{key}' is obsolete: {why}." for key, why in _OBSOLETE.items()
                    if self.params[key] is not None and self.params["use_language_model"]]
        hidden_size = self.params["hidden_size"] or getattr(getattr(model, "encoder", None), "output_size", None)
        if hidden_size is None:
            problems.append(f"'{self.params_path}/hidden_size' is missing: set it, because the encoder has no "
                            "output_size.")
        if problems:
            raise ConfigError(problems)
        self._kernel = self.weight([int(hidden_size or 0), self.params["tgt_vocab_size"]], self.make_initializer(),
                                   regularizer=self.make_regularizer())
        self._bias = self.weight([self.params["tgt_vocab_size"]], "zeros")

    def beam_decoder(self, labels: Sequence[str]) -> CtcDecoder:
        """Creates a prefix beam search with this decoder's parameters.

        Args:
          labels: the alphabet without the blank, in the order of the ids.

        Raises:
          ConfigError, DataError: see ``CtcDecoder``.
        """
        return CtcDecoder(labels, {key: self.params[key] for key in beam_search_params()}, path=self.params_path)

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        encoded = input_dict["encoder_output"]
        hidden, lengths = encoded["outputs"], lengths_of(encoded)
        rows = tf.reshape(tf.cast(hidden, self.compute_dtype), [-1, self._kernel.shape[0]])
        product = tf.cast(tf.matmul(rows, cast_weight(self._kernel, self.compute_dtype)), tf.float32)
        shape = tf.concat([tf.shape(hidden)[:2], [self._kernel.shape[1]]], 0)
        logits = tf.reshape(product + self._bias, shape)
        # Training steps do not need outputs, and XLA cannot compile results of unknown length.
        outputs = None if self.training else list(greedy_decode(logits, lengths))
        return {"logits": logits, "src_length": lengths, "outputs": outputs}
