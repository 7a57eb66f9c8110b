"""The recurrent language model: against NumPy, one token at a time, and its dropout."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.encoders import LMEncoder
from open_seq2seq.encoders.language_encoder import LanguageEncoder
from open_seq2seq.parts.carried_state import carried_values
from open_seq2seq.parts.component import carried_states, creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError
from tests.unit.encoders.generation import compiled_generation

VOCAB, EMB, UNITS = 11, 4, 6
LENGTHS = [7, 3, 1]


def make(mode="infer", **params):
    given = {"core_cell": "LSTMCell", "core_cell_params": {"num_units": UNITS}, "encoder_layers": 2, "emb_size": EMB,
             "vocab_size": VOCAB, **params}
    with creating_variables(1):
        encoder = LMEncoder(given, mode=mode)
    rng = np.random.default_rng(0)
    for variable in named_variables(encoder).values():
        variable.assign(variable + rng.normal(0.0, 0.3, variable.shape))
    return encoder


def batch(lengths=LENGTHS):
    ids = np.random.default_rng(1).integers(0, VOCAB, (len(lengths), max(lengths))).astype(np.int32)
    return [tf.constant(ids), tf.constant(lengths, tf.int32)]


def logits_of(encoder, source=None, training=False):
    return encoder.encode({"source_tensors": source or batch()}, training)["logits"].numpy()


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def by_numpy(encoder, ids):
    """Logits ``[time, vocabulary]`` of one text in float64."""
    weights = {name: value.numpy().astype(np.float64) for name, value in named_variables(encoder).items()}
    x = weights["embedding"][ids]
    for number in range(2):
        w, u, b = (weights[f"stack/layer_{number}/{name}"] for name in ("kernel", "recurrent_kernel", "bias"))
        h, c, outputs = np.zeros(len(u)), np.zeros(len(u)), []
        for row in x:
            i, f, o, g = np.split(row @ w + h @ u + b, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            outputs.append(h)
        x = np.array(outputs)
    return x @ weights.get("output_layer/kernel", weights["embedding"]).T + weights["output_layer/bias"]


@pytest.mark.parametrize("tied", [False, True])
def test_equals_numpy(tied):
    encoder = make(weight_tied=tied)
    assert encoder.output_size == (EMB if tied else UNITS)
    assert ("output_layer/kernel" in named_variables(encoder)) != tied
    ids, lengths = batch()
    found = logits_of(encoder)
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(found[row, :length], by_numpy(encoder, ids[row].numpy())[:length], atol=1e-5)


KINDS = [{}, {"core_cell": "GRUCell"}, {"core_cell": "WeightDropLayerNormBasicLSTMCell"},
         {"use_cudnn_rnn": True, "cudnn_rnn_type": "tf.contrib.cudnn_rnn.CudnnLSTM"},
         {"core_cell_params": {"num_units": UNITS, "num_proj": 5, "zoneout_prob": 0.2}},
         {"encoder_use_skip_connections": True, "weight_tied": True, "core_cell_params": {"num_units": EMB}}]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)) or "plain")
@pytest.mark.parametrize("prompts", [LENGTHS, pytest.param([7, 5, 4], marks=pytest.mark.long)], ids=["short", "long"])
def test_generation_equals_reading_the_whole_text_again(kind, prompts):
    encoder, (ids, lengths) = make(**kind, num_tokens_gen=4), batch(prompts)
    generated = compiled_generation(encoder)(ids, lengths, tf.range(3)).numpy()
    texts = np.zeros([3, max(prompts) + 4], np.int32)
    for text, prompt, tokens, length in zip(texts, ids.numpy(), generated, prompts, strict=True):
        text[:length + 4] = *prompt[:length], *tokens
    likeliest = logits_of(encoder, [tf.constant(texts), lengths + 4]).argmax(-1)
    for tokens, row, length in zip(generated, likeliest, prompts, strict=True):
        assert tokens.tolist() == row[length - 1:length + 3].tolist()


def test_a_batch_without_prompts_has_no_continuations():
    """Towers without examples get such batches."""
    none = tf.zeros([0], tf.int32)
    found = compiled_generation(make(num_tokens_gen=3))(tf.zeros([0, 7], tf.int32), none, none)
    assert found.shape == (0, 3)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(map(str, kind)) or "plain")
def test_reading_a_prompt_in_pieces_equals_reading_it_token_by_token(kind):
    encoder, (ids, _) = make(**kind), batch()
    prepared, first = encoder.prepare(), encoder.initial_cache(3)
    expected = LanguageEncoder.read(encoder, ids, tf.constant(0), first, prepared)
    found = encoder.read(ids[:, :4], tf.constant(0), first, prepared)
    found = encoder.read(ids[:, 4:], tf.constant(4), found, prepared)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("names", [
    pytest.param((), marks=pytest.mark.long), pytest.param(("sampling_temperature",), marks=pytest.mark.long),
    ("sampling_temperature", "sampling_top_p")], ids=len)
def test_one_compiled_function_generates_with_all_settings(names):
    encoder, (ids, lengths) = make(**dict.fromkeys(names, 1.0)), batch()
    generate = compiled_generation(encoder)
    for count, *settings in ((6, 0.7, 0.9), (9, 1.3, 0.37)):
        values = {"num_tokens_gen": count, **dict(zip(names, settings, strict=False))}
        with encoder.generating(values):
            found = generate(ids, lengths, tf.range(3)).numpy()
        fixed = make("eval", **values)  # which has constants instead
        np.testing.assert_array_equal(found, compiled_generation(fixed)(ids, lengths, tf.range(3)))
    assert found.shape == (3, 9) and generate.experimental_get_tracing_count() == 1
    assert generate(ids, lengths, tf.range(3)).shape == (3, 200)


@pytest.mark.parametrize(("values", "message"), [
    ({"sampling_temperature": 0.5}, "sampling_temperature' is not set"), ({"num_tokens_gen": 0}, "from 1 to"),
    ({"dropout": 0.5}, "Unknown parameter"), ({"num_tokens_gen": 3, "sampling_top_p": 2.0}, "sampling_top_p.")])
def test_values_that_generation_cannot_have(values, message):
    encoder = make(num_tokens_gen=5)
    with pytest.raises(ConfigError, match=message), encoder.generating(values):
        pass
    assert encoder.generate(*batch(), tf.range(3)).shape == (3, 5)


@pytest.mark.long
def test_samples_depend_on_seed_and_example_alone():
    ids, lengths = batch()
    settings = {"num_tokens_gen": 6, "sampling_temperature": 1.0, "sampling_seed": 3}
    found = make(**settings).generate(ids, lengths, tf.constant([5, 6, 7])).numpy()
    # A prompt of the batch has one token, so ``step`` reads all of them; of this one alone, ``read`` reads two.
    alone = make(**settings).generate(ids[1:2, :3], lengths[1:2], tf.constant([6])).numpy()
    np.testing.assert_array_equal(found[1], alone[0])
    other = make(**{**settings, "sampling_seed": 4}).generate(ids, lengths, tf.constant([5, 6, 7]))
    assert (other != found).numpy().any()
    likeliest = make(**settings, sampling_top_k=1).generate(ids, lengths, tf.constant([5, 6, 7]))
    np.testing.assert_array_equal(likeliest, make(num_tokens_gen=6).generate(ids, lengths, tf.range(3)))
    np.testing.assert_array_equal(make(**settings, sampling_top_p=1e-6).generate(ids, lengths, tf.range(3)), likeliest)


def test_carried_state_continues_the_text():
    encoder, (ids, _) = make(carry_state=True), batch([6, 6])
    states = carried_states(encoder)
    assert len(states) == 4
    for state in states.values():
        state.allocate(1, 2)
    whole = logits_of(make(), [ids, tf.constant([6, 6])])
    pieces = []
    for number, (begin, end) in enumerate([(0, 2), (2, 5), (5, 6)]):
        with forward_pass(carried=carried_values(states.values(), 2, 0, number == 0)):
            pieces.append(logits_of(encoder, [ids[:, begin:end], tf.fill([2], end - begin)]))
    np.testing.assert_allclose(np.concatenate(pieces, 1), whole, atol=1e-5)


def outputs_of(seed=1, **params):
    with forward_pass(seed, tf.constant(0)):
        return make(**params).encode({"source_tensors": batch([7, 7])}, True)["outputs"].numpy()


@pytest.mark.parametrize("name", [
    "encoder_dp_input_keep_prob", "encoder_dp_output_keep_prob", "encoder_last_input_keep_prob",
    "encoder_last_output_keep_prob", "encoder_emb_keep_prob", "recurrent_keep_prob", "input_weight_keep_prob",
    "recurrent_weight_keep_prob"])
def test_each_keep_probability_has_an_effect_in_training_only(name):
    assert not np.allclose(outputs_of(**{name: 0.5}), outputs_of())
    np.testing.assert_array_equal(outputs_of(**{name: 0.5}), outputs_of(**{name: 0.5}))
    np.testing.assert_array_equal(logits_of(make(**{name: 0.5})), logits_of(make()))


def test_variational_dropout_drops_the_same_channels_at_all_steps():
    locked = outputs_of(encoder_last_output_keep_prob=0.5, variational_recurrent=True)
    np.testing.assert_array_equal((locked == 0).all(1), (locked == 0).any(1))
    assert (locked == 0).any() and not (locked == 0).all()
    free = outputs_of(encoder_last_output_keep_prob=0.5)
    assert ((free == 0).any(1) & ~(free == 0).all(1)).any()


def test_whole_words_can_be_dropped():
    encoder = make(encoder_emb_keep_prob=0.5, embedding_dropout="words")
    with forward_pass(1, tf.constant(0)), encoder.in_training(True):
        rows = encoder._embedded(tf.range(VOCAB)).numpy()
    dropped = (rows == 0).all(1)
    assert dropped.any() and not dropped.all()
    np.testing.assert_allclose(rows[~dropped], 2.0 * encoder.embedding.numpy()[~dropped], rtol=1e-6)


BAD = {
    "no cell": ({"core_cell": None}, "core_cell' is missing"),
    "cudnn": ({"use_cudnn_rnn": True}, "cudnn_rnn_type' must be CudnnLSTM or CudnnGRU"),
    "units": ({"core_cell_params": {}}, "num_units' is missing"),
    "gru": ({"core_cell": "GRUCell", "recurrent_keep_prob": 0.5}, "weight drop and recurrent dropout need an LSTM"),
    "projection": ({"core_cell_params": {"num_units": 6, "num_proj": 3}, "recurrent_keep_prob": 0.5},
                   "an LSTM without projection"),
    "state": ({"core_cell": "GRUCell", "use_cell_state": True}, "only LSTMs have a cell state"),
    "keep": ({"encoder_emb_keep_prob": 0.0}, "encoder_emb_keep_prob"),
    "sampling": ({"sampling_top_k": 3}, "sampling is off"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters_are_named(name):
    params, expected = BAD[name]
    with pytest.raises(ConfigError, match=expected):
        make(**params)
