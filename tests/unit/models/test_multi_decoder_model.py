"""One encoder with a decoder for each language: rows, losses, evaluation and the choice of a language."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.models.builder import build_model, describe_model
from open_seq2seq.parts.component import named_variables
from open_seq2seq.runners.runner import Runner
from open_seq2seq.training.loop.trainer import Trainer
from open_seq2seq.utils.errors import ConfigError

SIZES = {"hidden_size": 16, "num_heads": 2, "filter_size": 32, "attention_dropout": 0.1, "relu_dropout": 0.1,
         "layer_postprocess_dropout": 0.1}
RNN = {"core_cell": "LSTMCell", "core_cell_params": {"num_units": 16}, "decoder_layers": 2, "tgt_emb_size": 8,
       "attention_layer_size": 8, "attention_type": "gnmt_v2", "decoder_use_skip_connections": False, "GO_SYMBOL": 2,
       "END_SYMBOL": 1}


def params_in(folder):
    """Parameters of a model of two languages with dropout, on sentences in files of this folder."""
    def write(name, lines):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(folder / name)

    sources = [" ".join("abcdefg"[:i % 6 + 2]) for i in range(12)]
    corpora = {"de": {"source_file": write("a.src", sources), "target_file": write("a.tgt", sources),
                      "tgt_vocab_file": write("small", "abcdefg")},
               "fr": {"source_file": write("b.src", sources[:4]),
                      "target_file": write("b.tgt", [line.upper() for line in sources[:4]]),
                      "tgt_vocab_file": write("capitals", "ABCDEFGHI")}}
    return {
        "batch_size_per_gpu": 8, "max_steps": 10, "random_seed": 1, "optimizer": "Adam", "lr_policy": "fixed_lr",
        "lr_policy_params": {"learning_rate": 0.01},
        "data_layer": "MultiCorpusDataLayer",
        "data_layer_params": {"corpora": corpora, "src_vocab_file": str(folder / "small"), "max_length": 12,
                              "special_tokens_already_in_vocab": False, "use_start_token": False,
                              "source_file": corpora["fr"]["source_file"]},
        "encoder": "TransformerEncoder", "encoder_params": {**SIZES, "encoder_layers": 1, "remove_padding": True},
        "decoder": "MultiDecoder",
        "decoder_params": {"decoder": "TransformerDecoder",
                           "decoder_params": {**SIZES, "num_hidden_layers": 1, "share_source_embedding": False,
                                              "beam_size": 2, "alpha": 0.6, "extra_decode_length": 2, "EOS_ID": 1}},
        "loss": "PaddedCrossEntropyLossWithSmoothing", "loss_params": {"label_smoothing": 0.1}}


@pytest.fixture
def params(tmp_path):
    return params_in(tmp_path)


def made(params, mode="train", **changed):
    return build_model(describe_model("MultiDecoderModel", {**params, **changed}, mode), seed=3)


def tensors(model, examples):
    return tf.nest.map_structure(tf.constant, model.data_layer.make_batch(np.array(examples)))


def loss(model, examples):
    terms, _ = model.loss_terms(tensors(model, examples), training=False)
    assert len(terms) == 1
    return float(terms[0].sum), float(terms[0].units)


@pytest.mark.parametrize("decoder", ["TransformerDecoder", "RNNDecoderWithAttention"])
def test_the_loss_is_that_of_the_sentences_alone(params, decoder):
    if decoder != "TransformerDecoder":
        params["decoder_params"] = {"decoder": decoder, "decoder_params": RNN}
    model = made(params)
    assert set(named_variables(model.decoder)) >= {f"to_{name}/{table}" for name in ("de", "fr") for table in (
        ["embedding/table"] if decoder == "TransformerDecoder" else ["embedding", "output_kernel"])}
    total, units = loss(model, [3, 12, 5, 13])
    alone = [loss(model, [example]) for example in (3, 12, 5, 13)]
    halves = [loss(model, [3, 12]), loss(model, [5, 13])]
    tokens = model.data_layer.lengths[[3, 12, 5, 13], 1].sum()
    for pieces in (alone, halves):
        assert total == pytest.approx(sum(piece[0] for piece in pieces), rel=1e-5)
        assert units == sum(piece[1] for piece in pieces) == tokens
    assert loss(model, [1, 2])[1] == model.data_layer.lengths[[1, 2], 1].sum()  # one language only


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_it_trains(params, dtype):
    model, examples = made(params, dtype=dtype), np.array([0, 1, 2, 3, 12, 13, 14, 15])
    trainer, first = Trainer(model, None, Runner(), seed=1), loss(model, examples)[0]
    before = {name: variable.numpy() for name, variable in trainer.trainable.items()}
    for _ in range(8):
        trainer.try_batch(examples)
    assert loss(model, examples)[0] < first
    for name, variable in trainer.trainable.items():
        assert np.isfinite(variable.numpy()).all() and not np.array_equal(variable, before[name]), name


@pytest.mark.long
def test_evaluation_decodes_each_row_by_its_language(params):
    model = made(params, "eval")
    mixed = [3, 12, 5, 13]
    ids, scores = (output.numpy() for output in model.predict(tensors(model, mixed)))
    results = model.evaluate(model.data_layer.make_batch(np.array(mixed)), [ids, scores])
    assert [row[0] for row in results] == mixed
    assert results[1][2] == model.data_layer.reference_text(12) == "A B"
    for (_, found, _), row, language in zip(results, ids, ("de", "fr", "de", "fr"), strict=True):
        assert found == model.data_layer.ids_to_text(row[0], language)
    chosen = made(params, "infer", language="fr")
    for theirs, ours in zip(named_variables(chosen).values(), named_variables(model).values(), strict=True):
        theirs.assign(ours)
    batch = tensors(model, [12, 13])
    alone, alone_scores = (output.numpy() for output in chosen.predict({key: batch[key] for key in (
        "source_tensors", "ids")}))
    width = alone.shape[2]
    np.testing.assert_array_equal(ids[[1, 3], :, :width], alone)
    np.testing.assert_allclose(scores[[1, 3]], alone_scores, atol=1e-5)
    one_language = model.predict(tensors(model, [0, 1]))[0]
    assert one_language.shape[0] == 2


def test_each_language_has_its_tokenizer(params, capsys):
    rows = [[(0, "a b c d", "a b c d"), (12, "一只狗在草地上", "一只狗在草地上奔跑")]]
    scores = made(params, "eval", bleu_tokenizer={"fr": "zh"}).finalize_evaluation(rows)
    assert scores["Eval_BLEU_Score_fr"] == pytest.approx(100 * np.exp(1 - 9 / 7))  # all n-grams are right, 7 of 9 long
    out = capsys.readouterr().out
    assert out.count("tok:13a") == out.count("tok:zh") == 1 and "WARNING" not in out
    made(params, "eval").finalize_evaluation(rows)
    assert "WARNING: this BLEU says little, because the references have almost no spaces" in capsys.readouterr().out
    for wrong, problem in (({"es": "zh"}, "'bleu_tokenizer/es' is not one of"), ("14a", "has to be one of 13a")):
        with pytest.raises(ConfigError, match=problem):
            made(params, "eval", bleu_tokenizer=wrong)


def test_scores_are_by_language(params, capsys):
    model = made(params, "eval")
    rows = [[(0, "a b c d", "a b c d"), (12, "x", "A B C D")], [(1, "e f g h", "e f g h")]]
    scores = model.finalize_evaluation(rows)
    assert scores["Eval_BLEU_Score_de"] == pytest.approx(100.0) and scores["Eval_BLEU_Score_fr"] == 0.0
    assert scores["Eval_BLEU_Score"] == pytest.approx(50.0)
    assert "de: BLEU 100.00" in capsys.readouterr().out
    assert model.finalize_evaluation(rows[1:])["Eval_BLEU_Score"] == pytest.approx(100.0)


@pytest.mark.parametrize(("mode", "changed", "message"), [
    ("infer", {}, "'language' is missing: inference needs the target language, one of de, fr, for example"),
    ("infer", {"language": "es"}, "'language' is 'es', but the languages of the data layer are de, fr"),
    ("train", {"use_xla_jit": True}, "'use_xla_jit' is True, but XLA cannot compile MultiDecoderModel"),
    ("train", {"decoder": "TransformerDecoder"}, "'decoder' is TransformerDecoder, but MultiDecoderModel needs"),
    ("train", {"data_layer": "ParallelTextDataLayer"}, "'data_layer' is ParallelTextDataLayer, but MultiDecoderModel"),
    ("train", {"by_language": {"it": {}}}, "params_by_language' has the language 'it', but the languages of"),
    ("train", {"by_language": {"fr": 3}}, "params_by_language/fr' must be a dict"),
    ("train", {"own": {"share_source_embedding": True}}, "or share_source_embedding to False"),
])
def test_mistakes(params, mode, changed, message):
    nested = params["decoder_params"]
    if changed.get("decoder"):
        params["decoder_params"] = {**nested["decoder_params"], "tgt_vocab_size": 11}
    if changed.get("data_layer"):
        files = params["data_layer_params"]["corpora"]["de"]
        params["data_layer_params"] = {**files, "src_vocab_file": files["tgt_vocab_file"], "max_length": 12,
                                       "special_tokens_already_in_vocab": False}
    nested["params_by_language"] = changed.pop("by_language", {})
    nested["decoder_params"].update(changed.pop("own", {}))
    with pytest.raises(ConfigError, match=message):
        model = made(params, mode, **changed)
        if mode == "train":
            loss(model, [12])


def test_text2text_reads_several_corpora_with_one_vocabulary(params):
    corpora = params["data_layer_params"]["corpora"]
    corpora["fr"]["tgt_vocab_file"] = corpora["de"]["tgt_vocab_file"]
    one = {**params, "decoder": "TransformerDecoder", "decoder_params": params["decoder_params"]["decoder_params"]}
    model = build_model(describe_model("Text2Text", one, "eval"), seed=3)
    examples = np.array([3, 12])
    assert loss(model, examples)[1] == model.data_layer.lengths[examples, 1].sum()
    results = model.evaluate(model.data_layer.make_batch(examples),
                             [output.numpy() for output in model.predict(tensors(model, examples))])
    assert [row[2] for row in results] == [model.data_layer.reference_text(example) for example in (3, 12)]


def test_multi_decoder_needs_its_model(params):
    corpora = params["data_layer_params"]["corpora"]
    corpora["fr"]["tgt_vocab_file"] = corpora["de"]["tgt_vocab_file"]
    with pytest.raises(ConfigError, match="needs target languages: use the base_model MultiDecoderModel"):
        build_model(describe_model("Text2Text", params, "train"))
