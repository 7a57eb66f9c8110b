"""Attention decoders of speech: attention against NumPy, search against teacher forcing, joint CTC, mistakes."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import AutoregressiveDecoder, Decoder, JointCTCAttentionDecoder, ListenAttendSpellDecoder
from open_seq2seq.losses import BasicSequenceLoss, CTCLoss, MultiTaskCTCEntropyLoss
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.parts.rnn.attention import KINDS, AdditiveAttention
from open_seq2seq.utils.errors import ConfigError

SOURCE, VOCAB = 5, 6  # ids 0 … 3, <S> = 4, </S> = 5
MODEL = SimpleNamespace(encoder=SimpleNamespace(output_size=SOURCE))
ATTENTION = {"attention_dim": 4, "attention_type": "chorowski", "num_heads": 2, "plot_attention": True}
PARAMS = {"GO_SYMBOL": 4, "END_SYMBOL": 5, "tgt_vocab_size": VOCAB, "tgt_emb_size": 3, "attention_params": ATTENTION,
          "rnn_type": "lstm", "hidden_dim": 4, "num_layers": 2}
LENGTHS = [9, 4, 7]


def make(model: Any = MODEL, **params: Any) -> ListenAttendSpellDecoder:
    with creating_variables(3):
        decoder = ListenAttendSpellDecoder({**PARAMS, **params}, model)
    return stirred(decoder)


def stirred(decoder: Any) -> Any:
    for number, variable in enumerate(decoder.trainable_variables):
        variable.assign(variable + np.random.default_rng(number).normal(0.0, 0.5, variable.shape))
    return decoder


def kind(name: str) -> dict[str, Any]:
    return {"attention_params": {**ATTENTION, "attention_type": name}}


def encoded(lengths: Any = LENGTHS, padding: int = 0) -> dict[str, tf.Tensor]:
    outputs = np.random.default_rng(0).normal(size=[len(lengths), max(lengths) + padding, SOURCE]).astype(np.float32)
    return {"outputs": tf.constant(outputs), "src_length": tf.constant(lengths, tf.int32)}


def targets() -> list[tf.Tensor]:
    return [tf.constant([[0, 1, 2, 5], [3, 5, 0, 0], [2, 2, 5, 0]]), tf.constant([4, 2, 3])]


def one_row(source: dict[str, tf.Tensor], row: int) -> dict[str, tf.Tensor]:
    length = int(source["src_length"][row])
    return {"outputs": source["outputs"][row:row + 1, :length], "src_length": source["src_length"][row:row + 1]}


def naive_weights(layer: AdditiveAttention, name: str, query: np.ndarray, coverage: np.ndarray,
                  values: np.ndarray) -> np.ndarray:
    inside = values @ layer.memory_kernel.numpy() + query @ layer.query_kernel.numpy() + layer.bias.numpy()
    vector = layer.score_vector.numpy()[:, 0]
    if name == "bahdanau":
        vector = vector / np.sqrt((vector ** 2).sum()) * layer.score_scale.numpy()
    elif name == "zhaopeng":
        fertility = 1.0 / (1.0 + np.exp(-(query @ layer.fertility_vector.numpy()[:, 0])))
        inside += np.outer(fertility * coverage, layer.place_kernel.numpy()[0])
    else:
        taps = layer.place_filters.numpy()[:, 0]
        padded = np.pad(coverage, len(taps) // 2)
        place = np.stack([padded[t:t + len(taps)] @ taps for t in range(len(coverage))]) + layer.place_bias.numpy()
        inside += place @ layer.place_kernel.numpy()
    scores = np.tanh(inside) @ vector
    return np.exp(scores) / np.exp(scores).sum()


@pytest.mark.parametrize("coverage", [True, False])
@pytest.mark.parametrize("name", KINDS)
def test_attention_equals_numpy(name: str, coverage: bool):
    with creating_variables(3):
        layer = stirred(AdditiveAttention(name, SOURCE, 4, 3, coverage))
    source, random = encoded(padding=2), np.random.default_rng(1)
    query = random.normal(size=[3, 2, 4]).astype(np.float32)
    before = random.uniform(size=[3, 2, 11]).astype(np.float32) * tf.sequence_mask(LENGTHS, 11, tf.float32)[:, None]
    context, weights, after = layer(tf.constant(query), before, layer.memory(source["outputs"], source["src_length"]))
    for row, beam in itertools.product(range(3), range(2)):
        length = LENGTHS[row]
        values = source["outputs"].numpy()[row, :length]
        expected = naive_weights(layer, name, query[row, beam], before.numpy()[row, beam, :length], values)
        np.testing.assert_allclose(weights[row, beam, :length], expected, atol=1e-5)
        assert not weights[row, beam, length:].numpy().any()
        np.testing.assert_allclose(context[row, beam], expected @ values, atol=1e-5)
    adds_up = name == "zhaopeng" or coverage
    np.testing.assert_allclose(after, before + weights if adds_up else weights, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("params", [kind("bahadanau"), kind("chorowski"), kind("zhaopeng"),
                                    {"rnn_type": "gru", "pos_embedding": True}], ids=[*KINDS, "gru"])
def test_alone_as_in_a_batch(params: dict[str, Any]):
    decoder, source, (ids, lengths) = make(beam_width=3, **params), encoded(padding=3), targets()
    forced = decoder.decode({"encoder_output": source, "target_tensors": [ids, lengths]})
    searched = decoder.decode({"encoder_output": source})
    assert forced["logits"].dtype == tf.float32 and forced["alignments"].shape == [3, 4, 2, 12]
    for row in range(3):
        alone, length = one_row(source, row), int(lengths[row])
        one = decoder.decode({"encoder_output": alone,
                              "target_tensors": [ids[row:row + 1, :length], lengths[row:row + 1]]})
        np.testing.assert_allclose(forced["logits"][row, :length], one["logits"][0], atol=1e-5)
        one = decoder.decode({"encoder_output": alone})
        found = int(one["outputs"][1][0])
        assert found == int(searched["outputs"][1][row])
        np.testing.assert_array_equal(one["outputs"][0][0, :found], searched["outputs"][0][row, :found])
        np.testing.assert_allclose(one["beam_scores"][0], searched["beam_scores"][row], atol=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_hypothesis_scores_what_teacher_forcing_gives_it(beam: int):
    decoder, source = make(beam_width=beam), encoded()
    result = decoder.decode({"encoder_output": source})
    ids, lengths = result["beam_ids"][:, 0], result["beam_lengths"][:, 0]
    forced = decoder.decode({"encoder_output": source, "target_tensors": [ids, lengths]})
    allowed = forced["logits"] + tf.where(tf.range(VOCAB) == 4, -1e9, 0.0)
    steps = tf.gather(tf.nn.log_softmax(allowed), ids, batch_dims=2)
    total = tf.reduce_sum(steps * tf.sequence_mask(lengths, tf.shape(ids)[1], tf.float32), 1)
    np.testing.assert_allclose(result["beam_scores"][:, 0], total, atol=1e-4)
    if beam == 1:
        held = tf.sequence_mask(lengths, tf.shape(ids)[1])
        np.testing.assert_array_equal(tf.where(held, tf.argmax(allowed, -1, tf.int32), 0), tf.where(held, ids, 0))
    assert np.all(lengths <= np.array(LENGTHS) + 1) and not np.any(ids == 4)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_everything_learns(dtype: tf.DType):
    decoder = make(dtype=dtype, dropout_keep_prob=0.8, pos_embedding=True)
    learned = named_variables(decoder)

    @tf.function(autograph=False)
    def gradients(source: Any, ids: tf.Tensor, lengths: tf.Tensor) -> Any:
        with tf.GradientTape() as tape, forward_pass(1, tf.constant(0, tf.int64)):
            result = decoder.decode({"encoder_output": source, "target_tensors": [ids, lengths]}, True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(ids, result["logits"]))
        return tape.gradient(loss, learned)

    for name, gradient in gradients(encoded(), *targets()).items():
        assert gradient is not None and np.isfinite(tf.convert_to_tensor(gradient)).all(), name


def drawn(decoder: Any, source: dict[str, tf.Tensor], ids: Any) -> list[np.ndarray]:
    result = decoder.decode({"encoder_output": source, "ids": tf.constant(ids, tf.int64)})
    return [result[key].numpy() for key in ("beam_ids", "beam_scores", "beam_lengths")]


@pytest.mark.long
@pytest.mark.parametrize("head", ["attention", "joint"])
def test_samples_are_alone_as_in_a_batch_and_hold_no_start(head: str):
    options = {"sampling_temperature": 1.0, "n_best": 4, "beam_width": 7}
    decoder = make(**options) if head == "attention" else joint(0.3, **options)
    source = encoded(padding=3)
    ids, scores, lengths = drawn(decoder, source, [5, 2, 9])
    assert ids.shape[:2] == (3, 4) and not (ids == 4).any() and np.isfinite(scores).all()
    for row, example in enumerate([5, 2, 9]):
        alone, their_scores, their_lengths = drawn(decoder, one_row(source, row), [example])
        np.testing.assert_array_equal(lengths[row], their_lengths[0])
        np.testing.assert_array_equal(ids[row, :, :alone.shape[2]], alone[0])
        np.testing.assert_allclose(scores[row], their_scores[0], atol=1e-4)
    one = {"sampling_temperature": 2.0, "sampling_top_k": 1}
    likeliest = make(**one) if head == "attention" else joint(0.3, **one)
    greedy = make() if head == "attention" else joint(0.3)
    for found, expected in zip(drawn(likeliest, source, [5, 2, 9]), drawn(greedy, source, [0, 0, 0]), strict=True):
        np.testing.assert_array_equal(found, expected)


def joint(ctc_weight: float = 0.3, **search: Any) -> JointCTCAttentionDecoder:
    with creating_variables(3):
        return stirred(JointCTCAttentionDecoder({
            "ctc_decoder": "FullyConnectedCTCDecoder", "attn_decoder": ListenAttendSpellDecoder,
            "attn_decoder_params": {key: value for key, value in PARAMS.items() if "SYMBOL" not in key
                                    and key != "tgt_vocab_size"},
            "ctc_decoder_params": {}, "beam_search_params": {"ctc_weight": ctc_weight, **search},
            "language_model_params": {"use_language_model": False},
            **{key: PARAMS[key] for key in ("GO_SYMBOL", "END_SYMBOL", "tgt_vocab_size")}}, MODEL))


def best_by_ctc(logits: np.ndarray) -> tuple[int, ...]:
    """The labelling of most probability over all paths, by trying them all."""
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    totals: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(logits.shape[-1]), repeat=len(logits)):
        label = tuple(symbol for symbol, _ in itertools.groupby(path) if symbol != logits.shape[-1] - 1)
        totals[label] = totals.get(label, 0.0) + float(np.prod(probabilities[range(len(path)), path]))
    return max(totals, key=lambda label: totals[label])


def test_joint_search_with_ctc_alone_finds_its_best_labelling():
    decoder, source = joint(1.0, beam_width=20), encoded([4, 3, 4])
    result = decoder.decode({"encoder_output": source})
    for row, length in enumerate([4, 3, 4]):
        found = result["outputs"][0][row, :int(result["outputs"][1][row])].numpy()
        assert tuple(found) == best_by_ctc(result["ctc_output"]["logits"][row, :length].numpy())


class Indifferent(AutoregressiveDecoder):
    """An attention decoder from outside to which all symbols are alike."""

    start_id, end_id = 4, 5
    beam_size_param = "beam_width"

    @staticmethod
    def get_optional_params() -> dict[str, Any]:
        return {**AutoregressiveDecoder.get_optional_params(), "beam_width": int, "GO_SYMBOL": int, "END_SYMBOL": int}

    def step(self, ids: tf.Tensor, step: tf.Tensor, cache: Any, prepared: Any) -> tuple[tf.Tensor, Any]:
        return tf.zeros(tf.concat([tf.shape(ids), [VOCAB]], 0)), cache

    def limits(self, encoder_output: Any) -> tf.Tensor:
        return encoder_output["outputs_length"] + 1


def joint_of(attention: type, mode: str = "eval", **search: Any) -> JointCTCAttentionDecoder:
    with creating_variables(3):
        return stirred(JointCTCAttentionDecoder({
            "ctc_decoder": "FullyConnectedCTCDecoder", "attn_decoder": attention, "attn_decoder_params": {},
            "ctc_decoder_params": {}, "beam_search_params": search, "language_model_params": {},
            **{key: PARAMS[key] for key in ("GO_SYMBOL", "END_SYMBOL", "tgt_vocab_size")}}, MODEL, mode=mode))


def test_ctc_joins_the_search_of_any_autoregressive_decoder():
    decoder, source = joint_of(Indifferent, ctc_weight=1.0, beam_width=20), encoded([4, 3, 4])
    source = {"outputs": source["outputs"], "outputs_length": source["src_length"]}
    result = decoder.decode({"encoder_output": source})
    for row, length in enumerate([4, 3, 4]):
        found = result["outputs"][0][row, :int(result["outputs"][1][row])].numpy()
        assert tuple(found) == best_by_ctc(result["ctc_output"]["logits"][row, :length].numpy())


def test_joint_search_needs_an_autoregressive_decoder():
    class Foreign(Decoder):
        get_optional_params = staticmethod(Indifferent.get_optional_params)
        get_required_params = staticmethod(Indifferent.get_required_params)

    joint_of(Foreign, "train")
    joint_of(Foreign, ctc_weight=0.0)
    with pytest.raises(ConfigError, match="attn_decoder' is Foreign, .*ctc_weight to 0.0"):
        joint_of(Foreign)


def test_joint_search_without_ctc_is_the_attention_decoders():
    decoder, source = joint(0.0, beam_width=2), encoded()
    for one, other in zip(decoder.decode({"encoder_output": source})["outputs"],
                          decoder.attention.decode({"encoder_output": source})["outputs"], strict=True):
        np.testing.assert_array_equal(one, other)
    both = joint(0.3, beam_width=2).decode({"encoder_output": source})
    assert np.isfinite(both["beam_scores"]).all()


@pytest.mark.parametrize("head", ["attention", "joint"])
def test_logits_alone_as_in_a_batch_of_sixteen(head: str):
    """Attention by itself, and both heads of joint CTC and attention."""
    random = np.random.default_rng(2)
    lengths, counts = random.integers(4, 14, 16), random.integers(2, 7, 16)
    ids = tf.constant(random.integers(0, 4, [16, 6]), tf.int32)
    decoder, source = make() if head == "attention" else joint(), encoded(lengths.tolist(), padding=3)
    together = decoder.decode({"encoder_output": source, "target_tensors": [ids, tf.constant(counts)]})
    for row in range(0, 16, 5):
        length, count = int(lengths[row]), int(counts[row])
        alone = decoder.decode({"encoder_output": one_row(source, row),
                                "target_tensors": [ids[row:row + 1, :count], tf.constant([count])]})
        pairs = [(together["logits"][row, :count], alone["logits"][0])]
        if head == "joint":
            assert int(together["ctc_output"]["src_length"][row]) == length
            pairs.append((together["ctc_output"]["logits"][row, :length], alone["ctc_output"]["logits"][0]))
        for one, other in pairs:
            np.testing.assert_allclose(one, other, atol=1e-5 * np.abs(other).max())


@pytest.mark.long
def test_joint_search_in_one_graph():
    decoder = joint(0.3, beam_width=3)
    run = tf.function(lambda source: decoder.decode({"encoder_output": source}), autograph=False)
    for one, other in zip(run(encoded())["outputs"], decoder.decode({"encoder_output": encoded()})["outputs"],
                          strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_joint_loss_weighs_both():
    output = joint().decode({"encoder_output": encoded(), "target_tensors": targets()})
    sizes = {"tgt_vocab_size": VOCAB, "batch_size": 3}
    sequence = {"offset_target_by_one": False, "average_across_timestep": True, "do_mask": True}
    loss = MultiTaskCTCEntropyLoss({**sizes, "ctc_loss_params": {}, "seq_loss_params": sequence, "lambda_value": 0.25})
    ids, lengths = targets()
    found = {term.name: term for term in loss.compute_loss({"decoder_output": output, "target_tensors": targets()})}
    attention, = BasicSequenceLoss({**sizes, **sequence}).compute_loss(
        {"decoder_output": output, "target_tensors": targets()})
    ctc = CTCLoss({}).compute_loss({"decoder_output": output["ctc_output"], "target_tensors": [ids, lengths - 1]})[0]
    assert found["attention"].weight == 0.75 and found["ctc"].weight == 0.25
    np.testing.assert_allclose([found["attention"].sum, found["ctc"].sum], [attention.sum, ctc.sum], rtol=1e-6)
    np.testing.assert_allclose([found["attention"].units, found["ctc"].units], [9.0, 3.0])


def test_a_loss_of_other_positions_is_refused():
    sizes = {"tgt_vocab_size": VOCAB, "batch_size": 3}
    both = {**sizes, "ctc_loss_params": {}, "seq_loss_params": {}, "lambda_value": 0.25}
    for loss, name in ((BasicSequenceLoss(sizes), ""), (MultiTaskCTCEntropyLoss(both), "seq_loss_params/")):
        decoder = make(SimpleNamespace(**vars(MODEL), loss=loss))
        with pytest.raises(ConfigError, match=f"set loss_params/{name}offset_target_by_one to False"):
            decoder.decode({"encoder_output": encoded(), "target_tensors": targets()})


@pytest.mark.parametrize("wrong, message", [
    ({"attention_params": {**ATTENTION, "attention_type": "luong"}}, "attention_params/attention_type"),
    ({"attention_params": {**ATTENTION, "num_heads": 0}}, "num_heads' is 0"),
    ({"use_language_model": True}, "use_language_model"),
    ({"model": None}, "encoder_size' is missing"),
])
def test_mistakes_are_named(wrong: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        make(**wrong)
    with pytest.raises(ConfigError, match="ctc_weight"):
        joint(1.5)
