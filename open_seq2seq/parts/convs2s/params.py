"""Parameters that the convolutional encoder and decoder share, and the settings derived from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from open_seq2seq.config.params import REFUSE, Param
from open_seq2seq.parts.convs2s.conv_layer import NORMALIZATIONS, ConvSettings, LayerSettings
from open_seq2seq.parts.convs2s.utils import gated_linear_units, inputs_per_output
from open_seq2seq.utils.errors import ConfigError

# Standard deviation of the initial values of embeddings (Gehring et al. 2017, §3.5).
EMBEDDING_DEVIATION = 0.1


def required_conv_params() -> dict[str, Any]:
    """Returns the declarations of the required parameters."""
    return {
        "conv_nchannels_kwidth": Param(list, doc="Convolutions, each a pair (channels, kernel width)."),
        "embedding_dropout_keep_prob": Param(float, doc="Keep probability of dropout for embeddings.", above=0.0,
                                             maximum=1.0),
        "hidden_dropout_keep_prob": Param(float, doc="Keep probability of dropout before each convolution.", above=0.0,
                                          maximum=1.0),
    }


def optional_conv_params() -> dict[str, Any]:
    """Returns the declarations of the optional parameters."""
    return {
        "max_input_length": Param(int, 128, "Number of position embeddings; all later positions share the last "
                                  "embedding.", "tokens", minimum=1, maximum=10**6),
        "PAD_SYMBOL": Param(int, 0, "Id of padding; must be 0."),
        "conv_activation": Param((callable, str, type(None)), gated_linear_units, "Function after each convolution. It "
                                 "may halve the number of channels, as gated_linear_units does; the convolution then "
                                 "computes twice as many channels.", names="convs2s_activation", on_change=REFUSE),
        "normalization_type": Param(NORMALIZATIONS, "weight_norm", "weight_norm normalises all kernels except "
                                    "embeddings; batch_norm and layer_norm normalise the outputs of all linear "
                                    "layers and convolutions.", on_change=REFUSE),
        "scaling_factor": Param(float, math.sqrt(0.5), "Factor that multiplies three kinds of sums: those of residual "
                                "connections, of the attention's queries and the target's embeddings, and of the "
                                "encoder's outputs and embeddings.",
                                above=0.0, on_change=REFUSE),
        "init_var": Param((float, type(None)), None, "Standard deviation of the initial values of all kernels except "
                          "embeddings; by default it depends on each kernel's size. Ignored if initializer is set.",
                          above=0.0),
    }


def check_padding(params: Mapping[str, Any], path: str) -> None:
    """Checks that ``PAD_SYMBOL`` is 0.

    Args:
      params: the checked parameters of the encoder or decoder.
      path: their path in the config, for messages.

    Raises:
      ConfigError: ``PAD_SYMBOL`` is not 0.
    """
    if params["PAD_SYMBOL"] != 0:
        raise ConfigError([f"'{path}/PAD_SYMBOL' must be 0, got {params['PAD_SYMBOL']}."])


def conv_settings(params: Mapping[str, Any], path: str, initializer: Any, regularizer: Any,
                  is_causal: bool) -> ConvSettings:
    """Returns the settings of all convolutions.

    Args:
      params: the checked parameters of the encoder or decoder.
      path: their path in the config, for messages.
      initializer: the configured initialiser of kernels, or None.
      regularizer: the configured regulariser of kernels, or None.
      is_causal: whether an output does not depend on later positions.

    Raises:
      ConfigError: the activation is invalid.
    """
    activation = params["conv_activation"]
    layer = LayerSettings(params["normalization_type"], params["init_var"], initializer, regularizer)
    return ConvSettings(layer, activation, inputs_per_output(activation, f"{path}/conv_activation"),
                        params["hidden_dropout_keep_prob"], params["scaling_factor"], is_causal)
