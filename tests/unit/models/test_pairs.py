"""Any encoder of text with any decoder: every pair is built from a config, trains, decodes, and ignores padding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.models import Text2Text
from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError

WORDS = "abcdefghi"
CELL = {"core_cell": "LSTMCell", "core_cell_params": {"num_units": 8}}
RNN_ENCODER = {"src_emb_size": 6, "encoder_layers": 2, "encoder_use_skip_connections": False,
               "encoder_dp_input_keep_prob": 0.9, **CELL}
CONVOLUTIONS = {"conv_nchannels_kwidth": [[8, 3], [10, 3]], "embedding_dropout_keep_prob": 0.9,
                "hidden_dropout_keep_prob": 0.9}
TRANSFORMER = {"hidden_size": 8, "num_heads": 2, "filter_size": 16, "attention_dropout": 0.1, "relu_dropout": 0.1,
               "layer_postprocess_dropout": 0.1}
SEARCH = {"EOS_ID": 1, "GO_SYMBOL": 2, "beam_size": 2, "alpha": 0.6, "extra_decode_length": 4}
ENCODERS: dict[str, dict[str, Any]] = {
    "TransformerEncoder": {"encoder_layers": 1, "remove_padding": True, **TRANSFORMER},
    "ConvS2SEncoder": {"src_emb_size": 6, "pad_embeddings_2_eight": True, **CONVOLUTIONS},
    "UnidirectionalRNNEncoderWithEmbedding": RNN_ENCODER,
    "BidirectionalRNNEncoderWithEmbedding": RNN_ENCODER,
    "GNMTLikeEncoderWithEmbedding": RNN_ENCODER,
    "GNMTLikeEncoderWithEmbedding_cuDNN": {
        "src_emb_size": 6, "encoder_layers": 2, "encoder_cell_units": 8, "encoder_cell_type": "gru",
        "encoder_dp_output_keep_prob": 0.9},
}
DECODERS: dict[str, dict[str, Any]] = {
    "TransformerDecoder": {"num_hidden_layers": 1, "share_source_embedding": False, **TRANSFORMER, **SEARCH},
    "ConvS2SDecoder": {"tgt_emb_size": 7, "shared_embed": False, "out_dropout_keep_prob": 0.9, **CONVOLUTIONS,
                       **SEARCH},
    "RNNDecoderWithAttention": {
        "GO_SYMBOL": 2, "END_SYMBOL": 1, "tgt_emb_size": 5, "attention_layer_size": 8, "attention_type": "gnmt_v2",
        "decoder_layers": 2, "decoder_use_skip_connections": False, "beam_width": 2, "length_penalty": 1.0, **CELL},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Parameters of a data layer of four pairs."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "vocab").write_text("\n".join(["<PAD>", "</S>", "<S>", "<UNK>", *WORDS]) + "\n")
    (folder / "text").write_text("a b c\nd e f a g h\nb\nf f e d\n")
    vocab, text = str(folder / "vocab"), str(folder / "text")
    return {"src_vocab_file": vocab, "tgt_vocab_file": vocab, "source_file": text, "target_file": text,
            "max_length": 16, "shuffle": False, "repeat": True}


def params_of(encoder: str, decoder: str, corpus: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a model of these two with dropout, on four pairs."""
    loss = "PaddedCrossEntropyLossWithSmoothing" if decoder == "TransformerDecoder" else "BasicSequenceLoss"
    return {"logdir": "", "batch_size_per_gpu": 4, "max_steps": 1, "optimizer": "Adam", "lr_policy": "fixed_lr",
            "lr_policy_params": {"learning_rate": 0.01}, "data_layer": "ParallelTextDataLayer",
            "data_layer_params": {**corpus, "use_start_token": decoder != "TransformerDecoder"},
            "encoder": encoder, "encoder_params": ENCODERS[encoder],
            "decoder": decoder, "decoder_params": DECODERS[decoder], "loss": loss, "loss_params": {}}


# Other recurrent encoders return the same kind of output, so one decoder will do for them.
FAMILIES = ("TransformerEncoder", "ConvS2SEncoder", "BidirectionalRNNEncoderWithEmbedding")
QUICK = [("TransformerEncoder", "RNNDecoderWithAttention"), ("ConvS2SEncoder", "RNNDecoderWithAttention"),
         ("BidirectionalRNNEncoderWithEmbedding", "TransformerDecoder")]
PAIRS = [*QUICK, *(pytest.param(encoder, decoder, marks=pytest.mark.long) for encoder in ENCODERS
                   for decoder in DECODERS if (encoder, decoder) not in QUICK
                   and (encoder in FAMILIES or decoder == "ConvS2SDecoder"))]


@pytest.mark.parametrize(("encoder", "decoder"), PAIRS)
def test_pair_trains_and_decodes(encoder: str, decoder: str, corpus: dict[str, Any]):
    model = build_model(describe_model(Text2Text, params_of(encoder, decoder, corpus), "train"), seed=1)
    batch = {key: tf.nest.map_structure(tf.constant, value)
             for key, value in model.data_layer.make_batch(np.arange(4)).items()}
    weights = {name: v for name, v in named_variables(model).items() if v.trainable}

    def training_loss() -> tf.Tensor:
        with forward_pass(1, tf.constant(0, tf.int64)):
            (term,), _ = model.loss_terms(batch, True)
        return term.sum / term.units

    with tf.GradientTape() as tape:
        loss = training_loss()
    gradients = {name: tf.convert_to_tensor(g).numpy() for name, g in tape.gradient(loss, weights).items()}
    for name, gradient in gradients.items():
        assert np.isfinite(gradient).all() and np.any(gradient), name
        weights[name].assign_sub(0.05 * gradient / np.linalg.norm(gradient))
    assert training_loss() < loss
    assert_alone_as_in_the_batch(model, batch)


def test_a_transformer_refuses_a_loss_of_other_positions(corpus: dict[str, Any]):
    params = {**params_of("TransformerEncoder", "TransformerDecoder", corpus), "loss": "BasicSequenceLoss"}
    with pytest.raises(ConfigError, match="set loss_params/offset_target_by_one and"):
        model = build_model(describe_model(Text2Text, params, "train"), seed=1)
        model.loss_terms(model.data_layer.make_batch(np.arange(4)), False)


def test_alignments_need_one_output_for_each_source_token(corpus: dict[str, Any]):
    entry = {"encoder": "TransformerEncoder", "encoder_params": ENCODERS["TransformerEncoder"]}
    params = {**params_of("TransformerEncoder", "TransformerDecoder", corpus), "encoder": "MultiEncoder",
              "save_alignments": True, "replace_unknowns": True}
    for combination in ("time", "channels", "gated"):
        params["encoder_params"] = {"encoders": {"a": entry, "b": entry}, "combination": combination}
        if combination != "time":
            build_model(describe_model(Text2Text, params, "infer"), seed=1)
            continue
        with pytest.raises(ConfigError) as error:
            build_model(describe_model(Text2Text, params, "infer"), seed=1)
        assert error.value.problems == [
            f"'{name}' needs an encoder with one output for each source token, which MultiEncoder with these "
            f"encoder_params is not: remove '{name}'." for name in ("save_alignments", "replace_unknowns")]


def test_an_encoder_of_one_source_refuses_several(tmp_path: Path, corpus: dict[str, Any]):
    (tmp_path / "rows").write_text("a\tb\tc\n")
    params = params_of("ConvS2SEncoder", "ConvS2SDecoder", corpus)
    table = {name: params["data_layer_params"][name] for name in ("src_vocab_file", "tgt_vocab_file", "max_length")}
    params = {**params, "data_layer": "TableTextDataLayer", "data_layer_params": {
        **table, "source_file": str(tmp_path / "rows"), "source_column": [1, 2], "target_column": 3}}
    with pytest.raises(ConfigError, match="has several columns, but ConvS2SEncoder reads only the first source: give"):
        build_model(describe_model(Text2Text, params, "train"), seed=1)


def assert_alone_as_in_the_batch(model: Any, batch: dict[str, Any]) -> None:
    """Compares the two hypotheses of beam search for the third sentence, alone and in the batch."""
    ids, lengths = batch["source_tensors"][:2]
    found, scores = model.predict({"source_tensors": [ids, lengths], "ids": batch["ids"]})
    one = {"source_tensors": [ids[2:3, :lengths[2]], lengths[2:3]], "ids": batch["ids"][2:3]}
    alone, its_scores = model.predict(one)
    np.testing.assert_allclose(scores[2], its_scores[0], rtol=1e-4)
    np.testing.assert_array_equal(found[2, 0, :alone.shape[-1]], alone[0, 0])
    assert not found[2, 0, alone.shape[-1]:].numpy().any()
