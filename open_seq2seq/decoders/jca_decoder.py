"""Joint CTC-attention decoding: two decoders on the same encoder."""

from __future__ import annotations

from typing import Any

from open_seq2seq.config.names import resolve_name
from open_seq2seq.config.params import FREE, Param
from open_seq2seq.decoders.autoregressive import AutoregressiveDecoder
from open_seq2seq.decoders.decoder import Decoder
from open_seq2seq.decoding.ctc.prefix_scores import CtcPrefixScorer
from open_seq2seq.parts.keys import lengths_of
from open_seq2seq.parts.portable import scan
from open_seq2seq.utils.errors import ConfigError

_CLASS = (type, str)


class JointCTCAttentionDecoder(Decoder):
    """An attention decoder and a CTC decoder, which are trained jointly and score the hypotheses of a search jointly.

    See Kim et al. 2016, https://arxiv.org/abs/1609.06773; the joint search follows Watanabe et al. 2017, algorithm 2.
    The CTC decoder has all symbols except GO_SYMBOL and END_SYMBOL, plus the blank. The result is that of the
    attention decoder, with the CTC decoder's result as ``ctc_output``. The model uses only the CTC decoder's result in
    evaluation and inference if ``ctc_decoder_params`` set ``use_language_model``, and in inference if they set
    ``infer_logits_to_pickle``.
    """

    @staticmethod
    def get_required_params() -> dict[str, Any]:
        return {
            **Decoder.get_required_params(),
            "ctc_decoder": Param(_CLASS, doc="CTC decoder class.", names="decoder"),
            "attn_decoder": Param(_CLASS, doc="Attention decoder class.", names="decoder"),
            "attn_decoder_params": Param(dict, doc="Parameters of the attention decoder."),
            "ctc_decoder_params": Param(dict, doc="Parameters of the CTC decoder."),
            "beam_search_params": Param(dict, doc="Further parameters of the attention decoder, such as beam_width, "
                                        "length_penalty, n_best and sampling_temperature; and ctc_weight, the weight "
                                        "of CTC's log probabilities in the search, from 0 to 1, 0.3 by default.",
                                        on_change=FREE),
            "language_model_params": Param(dict, doc="Further parameters of the attention decoder: only "
                                           "use_language_model, which must be False.", on_change=FREE),
            "GO_SYMBOL": Param(int, doc="Id that starts a transcript; set from the data layer.", derived=True,
                               minimum=0),
            "END_SYMBOL": Param(int, doc="Id that ends a transcript; set from the data layer.", derived=True,
                                minimum=0),
            "tgt_vocab_size": Param(int, doc="Number of ids; set from the data layer.", unit="symbols", derived=True,
                                    minimum=3),
        }

    def __init__(self, params: Any, model: Any = None, name: str | None = "decoder", mode: str = "train") -> None:
        super().__init__(params, model, name, mode)
        params = self.params
        search = dict(params["beam_search_params"])
        self.ctc_weight = search.pop("ctc_weight", 0.3)
        if not isinstance(self.ctc_weight, (int, float)) or not 0.0 <= self.ctc_weight <= 1.0:
            raise ConfigError([f"'{self.params_path}/beam_search_params/ctc_weight' must be a number from 0 to 1, "
                               f"got {self.ctc_weight!r}."])
        if (params["GO_SYMBOL"], params["END_SYMBOL"]) != (params["tgt_vocab_size"] - 2, params["tgt_vocab_size"] - 1):
            raise ConfigError([f"GO_SYMBOL and END_SYMBOL in '{self.params_path}' must be the last two ids, because "
                               "CTC "
                               "uses the ids before them: set autoregressive to True in data_layer_params."])
        shared = {key: params[key] for key in ("dtype", "initializer", "initializer_params", "regularizer",
                                               "regularizer_params")}
        symbols = {key: params[key] for key in ("GO_SYMBOL", "END_SYMBOL", "tgt_vocab_size")}
        self.attention = resolve_name(params["attn_decoder"], "decoder", f"{self.params_path}/attn_decoder")(
            {**shared, **params["attn_decoder_params"], **search, **params["language_model_params"], **symbols},
            model, "attn_decoder", mode)
        self.ctc = resolve_name(params["ctc_decoder"], "decoder", f"{self.params_path}/ctc_decoder")(
            {**shared, **params["ctc_decoder_params"], "tgt_vocab_size": params["tgt_vocab_size"] - 1},
            model, "ctc_decoder", mode)
        if mode != "train" and self.ctc_weight > 0.0 and not isinstance(self.attention, AutoregressiveDecoder):
            raise ConfigError([f"'{self.params_path}/attn_decoder' is {type(self.attention).__name__}, whose search "
                               "cannot include CTC: derive it from AutoregressiveDecoder, or set "
                               "beam_search_params/ctc_weight to 0.0."])

    def _decode(self, input_dict: dict[str, Any]) -> dict[str, Any]:
        """Runs both decoders; see ``ListenAttendSpellDecoder`` and ``FullyConnectedCTCDecoder``."""
        encoded, targets = input_dict["encoder_output"], input_dict.get("target_tensors")
        ctc = self.ctc.decode({"encoder_output": encoded}, self.training)
        if targets is not None or self.ctc_weight == 0.0:
            return {**self.attention.decode(input_dict, self.training), "ctc_output": ctc}
        scorer = CtcPrefixScorer(ctc["logits"], lengths_of(ctc, "the CTC decoder"), self.params["END_SYMBOL"], scan)
        result = self.attention.search(encoded, scorer, float(self.ctc_weight), input_dict.get("ids"))
        return {**result, "ctc_output": ctc}
