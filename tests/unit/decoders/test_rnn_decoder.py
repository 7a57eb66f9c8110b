"""Recurrent decoders with attention: against a plain loop with its gradients, search, padding, mistakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.decoders import RNNDecoderWithAttention
from open_seq2seq.losses import BasicSequenceLoss, PaddedCrossEntropyLossWithSmoothing
from open_seq2seq.parts.component import creating_variables, named_variables
from open_seq2seq.parts.forward_pass import forward_pass
from open_seq2seq.utils.errors import ConfigError
from tests.unit.parts.rnn import naive_cells

SOURCE, VOCAB, UNITS, EMBEDDING = 5, 7, 4, 3  # ids 1 = EOS, 2 = S
STATES = [[3], [4, 4]]  # sizes of the encoder's states
MODEL = SimpleNamespace(encoder=SimpleNamespace(output_size=SOURCE, state_sizes=STATES, returns_state=False))
PARAMS = {"GO_SYMBOL": 2, "END_SYMBOL": 1, "tgt_vocab_size": VOCAB, "tgt_emb_size": EMBEDDING, "batch_size": 3,
          "attention_layer_size": UNITS, "attention_type": "luong", "core_cell": "LSTMCell",
          "core_cell_params": {"num_units": UNITS}, "decoder_layers": 3, "decoder_use_skip_connections": True}
LENGTHS = [6, 2, 4]
KINDS = {
    "bahdanau": {"attention_type": "bahdanau"},
    "bahdanau-normalized": {"attention_type": "bahdanau", "bahdanau_normalize": True, "decoder_layers": 1},
    "luong": {},
    "luong-scaled-gru": {"luong_scale": True, "core_cell": "GRUCell"},
    "luong-cudnn-gru": {"core_cell": "CudnnCompatibleGRUCell"},
    "luong-layer-norm": {"core_cell": "LayerNormBasicLSTMCell", "decoder_layers": 2},
    "luong-groups": {"core_cell": "GLSTMCell", "core_cell_params": {"num_units": 6, "num_proj": UNITS,
                                                                     "number_of_groups": 2, "zoneout_prob": 0.2}},
    "bahdanau-factors": {"attention_type": "bahdanau", "core_cell": "FLSTMCell",
                         "core_cell_params": {"num_units": UNITS, "fact_size": 2}, "decoder_layers": 2},
    "luong-input-gates": {"core_cell": "BasicSLSTMCell", "decoder_layers": 2},
    "luong-states": {"encoder_state": "dense", "core_cell_params": {"num_units": 6, "num_proj": UNITS}},
    "gnmt_v2-states": {"attention_type": "gnmt_v2", "encoder_state": "dense"},
    "bahdanau-monotonic": {"attention_type": "bahdanau_monotonic", "bahdanau_normalize": True, "decoder_layers": 2,
                           "score_bias_init": -0.5},
    "luong-monotonic": {"attention_type": "luong_monotonic", "decoder_layers": 1},
    "gnmt": {"attention_type": "gnmt"},
    "gnmt_v2": {"attention_type": "gnmt_v2"},
    "gnmt_v2-tied": {"attention_type": "gnmt_v2", "weight_tied": True},
}
# Of the layers over whole sentences, one with each kind of scores and of states is enough for every change.
WHOLE = ("bahdanau", "luong", "luong-cudnn-gru", "luong-states", "luong-monotonic", "gnmt", "gnmt_v2")
FORMS = [pytest.param({**params, "input_feeding": fed}, id=f"{name}-{'fed' if fed else 'whole'}",
                      marks=() if fed or name in WHOLE else pytest.mark.slow)
         for name, params in KINDS.items() for fed in (True, False)
         if fed or name not in ("luong-groups", "bahdanau-factors", "luong-input-gates")]


def make(cls: type[RNNDecoderWithAttention] = RNNDecoderWithAttention, **params: Any) -> RNNDecoderWithAttention:
    with creating_variables(3):
        decoder = cls({**PARAMS, **params}, MODEL)
    for number, variable in enumerate(decoder.trainable_variables):
        variable.assign(variable + np.random.default_rng(number).normal(0.0, 0.5, variable.shape))
    return decoder


def encoded(lengths: Any = LENGTHS, padding: int = 0) -> dict[str, tf.Tensor]:
    outputs = np.random.default_rng(0).normal(size=[len(lengths), max(lengths) + padding, SOURCE]).astype(np.float32)
    state = [[tf.constant(np.random.default_rng(size).normal(size=[len(lengths), size]), tf.float32) for size in sizes]
             for sizes in STATES]
    return {"outputs": tf.constant(outputs), "src_length": tf.constant(lengths, tf.int32), "state": state}


def targets() -> list[tf.Tensor]:
    return [tf.constant([[2, 3, 4, 5, 1], [2, 6, 1, 0, 0], [2, 3, 3, 1, 0]]), tf.constant([5, 3, 4])]


def wide(x: Any) -> tf.Tensor:
    return tf.cast(x, tf.float64)


def plain_scores(decoder: Any, query: tf.Tensor, source: tf.Tensor) -> tf.Tensor:
    layer = decoder.stack.attention
    keys = source @ wide(layer.memory_kernel)
    if not layer.is_additive:
        return tf.linalg.matvec(keys, query) * (wide(layer.score_scale) if layer.normalized else 1.0)
    inside = keys + tf.linalg.matvec(wide(layer.query_kernel), query, transpose_a=True)
    vector = wide(layer.score_vector)[:, 0]
    if layer.normalized:
        inside += wide(layer.bias)
        vector = vector / tf.sqrt(tf.reduce_sum(vector ** 2)) * wide(layer.score_scale)
    return tf.linalg.matvec(tf.tanh(inside), vector)


def plain_weights(decoder: Any, scores: tf.Tensor, before: list[tf.Tensor]) -> list[tf.Tensor]:
    """The attention to each place: a softmax, or what remains of a process that moves forward and stops by chance."""
    if not decoder.stack.attention.is_monotonic:
        return tf.unstack(tf.nn.softmax(scores))
    stops = tf.unstack(tf.sigmoid(scores + wide(decoder.stack.attention.score_bias)))
    weights, arriving = [], tf.zeros([], tf.float64)
    for stop, start in zip(stops, before, strict=True):
        arriving += start
        weights.append(stop * arriving)
        arriving *= 1.0 - stop
    return weights


def plain_states(decoder: Any, states: Any) -> list[Any]:
    """The initial states: zeros, or linear functions of the encoder's states [size] of the layer to the left."""
    directions = [layer.direction for layer in decoder.stack.layers]
    if not decoder.params["encoder_state"]:
        return [tuple(tf.zeros([size], tf.float64) for size in one.state_sizes) for one in directions]
    found, aligned = [], [len(STATES) - len(directions) + number for number in range(len(directions))]
    for one, number, kernel, bias in zip(directions, aligned, decoder.bridge.kernels, decoder.bridge.biases,
                                         strict=True):
        joined = tf.concat([wide(state) for state in states[max(0, number)]], 0)
        found.append(tuple(tf.split(tf.linalg.matvec(wide(kernel), joined, transpose_a=True) + wide(bias),
                                    one.state_sizes)))
    return found


def plain_logits(decoder: Any, ids: Any, source: tf.Tensor, encoder_states: Any) -> tf.Tensor:
    """The logits of one sentence without padding, as the original computes them: one step after another."""
    params, kind = decoder.params, decoder.params["attention_type"]
    is_gnmt = kind.startswith("gnmt")
    attended = 0 if is_gnmt else params["decoder_layers"] - 1  # the layer whose output is the query
    states = plain_states(decoder, encoder_states)
    steps = [naive_cells.stepper(layer.direction)[0] for layer in decoder.stack.layers]
    context, rows, table = tf.zeros([SOURCE], tf.float64), [], wide(decoder.embedding)
    coverage = tf.unstack(tf.one_hot(0, source.shape[0], dtype=tf.float64))
    for one in ids:
        x, before = table[one], context
        for number, step in enumerate(steps):
            joined = x
            if number > attended:
                joined = tf.concat([x, before if kind == "gnmt" else context], 0)
            elif number == 0 and params["input_feeding"]:
                joined = tf.concat([x, before], 0)
            states[number] = step(joined, states[number])
            y = states[number][0]
            x = x + y if number >= (2 if is_gnmt else 1) and x.shape == y.shape else y
            if number == attended:
                coverage = plain_weights(decoder, plain_scores(decoder, x, source), coverage)
                context = tf.linalg.matvec(source, tf.stack(coverage), transpose_a=True)
        hidden = x if is_gnmt else context
        kernel = tf.transpose(table) if params["weight_tied"] else wide(decoder.output_kernel)
        rows.append(tf.linalg.matvec(kernel, hidden, transpose_a=True))
    return tf.stack(rows)


@pytest.mark.long
@pytest.mark.parametrize("params", FORMS)
def test_logits_and_gradients_equal_those_of_a_plain_loop(params: dict[str, Any]):
    decoder, source, (ids, lengths) = make(**params), encoded(padding=2), targets()
    names = named_variables(decoder)
    held = tf.sequence_mask(lengths, 5, tf.float32)[..., tf.newaxis]
    factors = tf.constant(np.random.default_rng(1).normal(size=[3, 5, VOCAB]), tf.float32) * held

    @tf.function(autograph=False)
    def forced() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(source["outputs"])
            logits = decoder.decode({"encoder_output": source, "target_tensors": [ids, lengths]})["logits"]
            total = tf.reduce_sum(logits * factors)
        return logits, tape.gradient(total, [names, source["outputs"]])

    with tf.GradientTape() as tape:
        tape.watch(source["outputs"])
        rows = [plain_logits(decoder, ids.numpy()[row, :int(lengths[row])], wide(source["outputs"][row, :LENGTHS[row]]),
                             [[state[row] for state in own] for own in source["state"]]) for row in range(3)]
        total = sum(tf.reduce_sum(logits * tf.cast(factors[row, :logits.shape[0]], tf.float64))
                    for row, logits in enumerate(rows))
    expected = tape.gradient(total, [names, source["outputs"]])
    logits, found = forced()
    for row, wanted in enumerate(rows):
        np.testing.assert_allclose(logits[row, :wanted.shape[0]], wanted, atol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-4)
    for name, wanted in expected[0].items():
        # Relative, too: oneDNN's sums of gradients as large as 6 differ from FP64 by 2e-5 of their value.
        np.testing.assert_allclose(tf.convert_to_tensor(found[0][name]), tf.convert_to_tensor(wanted), rtol=3e-5,
                                   atol=1e-4, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("params", [KINDS["bahdanau"], KINDS["luong-monotonic"],
                                    {**KINDS["gnmt_v2"], "input_feeding": False}])
def test_alone_as_in_a_batch(params: dict[str, Any]):
    decoder, source, (ids, lengths) = make(beam_width=2, **params), encoded(padding=3), targets()
    forced = decoder.decode({"encoder_output": source, "target_tensors": [ids, lengths]})
    searched = decoder.decode({"encoder_output": source})
    assert forced["alignments"].shape == [3, 5, 1, 9]
    for row in range(3):
        alone = {"outputs": source["outputs"][row:row + 1, :LENGTHS[row]],
                 "src_length": source["src_length"][row:row + 1]}
        length = int(lengths[row])
        one = decoder.decode({"encoder_output": alone,
                              "target_tensors": [ids[row:row + 1, :length], lengths[row:row + 1]]})
        np.testing.assert_allclose(forced["logits"][row, :length], one["logits"][0], atol=1e-5)
        one = decoder.decode({"encoder_output": alone})
        np.testing.assert_allclose(searched["beam_scores"][row], one["beam_scores"][0], atol=1e-4)


@pytest.mark.parametrize("params", [KINDS["luong"], {**KINDS["gnmt_v2"], "input_feeding": False}])
def test_no_sentences_and_empty_sources(params: dict[str, Any]):
    decoder = make(beam_width=2, **params)
    none = {"outputs": tf.zeros([0, 4, SOURCE]), "src_length": tf.zeros([0], tf.int32)}
    ids = [tf.zeros([0, 3], tf.int32), tf.zeros([0], tf.int32)]
    assert decoder.decode({"encoder_output": none, "target_tensors": ids})["logits"].shape == [0, 3, VOCAB]
    assert decoder.decode({"encoder_output": none})["outputs"][0].shape[0] == 0
    empty = {"outputs": encoded()["outputs"], "src_length": tf.constant([6, 0, 4])}
    logits = decoder.decode({"encoder_output": empty, "target_tensors": targets()})["logits"]
    more = {**empty, "outputs": tf.pad(empty["outputs"], [[0, 0], [0, 3], [0, 0]], constant_values=9.0)}
    again = decoder.decode({"encoder_output": more, "target_tensors": targets()})["logits"]
    assert np.isfinite(logits).all()
    np.testing.assert_allclose(logits, again, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("params", [
    KINDS["bahdanau-normalized"], {**KINDS["luong-monotonic"], "sigmoid_noise": 1.0}, KINDS["gnmt_v2"],
    {**KINDS["luong-groups"], "decoder_layers": 2}])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_everything_learns_with_dropout(params: dict[str, Any], dtype: tf.DType):
    decoder = make(dtype=dtype, decoder_dp_input_keep_prob=0.8, decoder_dp_output_keep_prob=0.9, **params)
    weights = named_variables(decoder)

    @tf.function(autograph=False)
    def run(number: tf.Tensor) -> Any:
        with tf.GradientTape() as tape, forward_pass(1, number):
            result = decoder.decode({"encoder_output": encoded(), "target_tensors": targets()}, True)["logits"]
            loss = tf.reduce_sum(tf.square(tf.cast(result, tf.float32)))
        return result, tape.gradient(loss, weights)

    (first, gradients), (again, _), (other, _) = (run(tf.constant(n, tf.int64)) for n in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert first.dtype == dtype and np.any(first.numpy() != other.numpy())
    for name, gradient in gradients.items():
        assert gradient is not None and np.isfinite(tf.convert_to_tensor(gradient)).all(), name


DROPPING = {
    "weight drop": {"core_cell": "WeightDropLayerNormBasicLSTMCell", "decoder_layers": 2, "core_cell_params": {
        "num_units": UNITS, "recurrent_keep_prob": 0.7, "input_weight_keep_prob": 0.8,
        "recurrent_weight_keep_prob": 0.8}},
    "weight drop and zoneout": {"core_cell": "WeightDropLayerNormBasicLSTMCell", "decoder_layers": 1,
                                "core_cell_params": {"num_units": UNITS, "recurrent_keep_prob": 0.7,
                                                     "zoneout_prob": 0.3}},
    "zoneout in groups": KINDS["luong-groups"],
    "noise": {**KINDS["bahdanau-monotonic"], "sigmoid_noise": 1.0},
}


@pytest.mark.parametrize("name", DROPPING)
def test_gradients_of_training_agree_with_differences(name: str):
    decoder = make(decoder_dp_input_keep_prob=0.8, **DROPPING[name])
    weights, rng = named_variables(decoder), np.random.default_rng(0)

    def loss() -> tf.Tensor:
        with forward_pass(1, tf.constant(1, tf.int64)):
            logits = decoder.decode({"encoder_output": encoded(), "target_tensors": targets()}, True)["logits"]
        return tf.reduce_sum(tf.sin(logits[:, :3]))

    with tf.GradientTape() as tape:
        total = loss()
    gradients = tape.gradient(total, weights)
    moves = {key: 1e-3 * rng.normal(size=variable.shape).astype(np.float32) for key, variable in weights.items()}
    slope = sum(np.sum(tf.convert_to_tensor(gradients[key]) * move) for key, move in moves.items())
    ends = []
    for sign in (1, -2):
        for key, move in moves.items():
            weights[key].assign_add(sign * move)
        ends.append(float(loss()))
    np.testing.assert_allclose(ends[0] - ends[1], 2 * slope, rtol=0.02, atol=1e-4)


def test_the_encoders_table_can_be_shared():
    own, shared = make(), make(share_source_embedding=True)
    assert set(named_variables(own)) - set(named_variables(shared)) == {"embedding"}
    source = {**encoded(), "embedding_table": tf.zeros([VOCAB, EMBEDDING])}
    assert shared.decode({"encoder_output": source, "target_tensors": targets()})["logits"].shape == [3, 5, VOCAB]
    for table in (None, tf.zeros([VOCAB + 1, EMBEDDING])):
        with pytest.raises(ConfigError, match="needs a table of shape"):
            shared.decode({"encoder_output": {**source, "embedding_table": table}, "target_tensors": targets()})


@pytest.mark.parametrize(("params", "default"), [
    ({"attention_type": "gnmt_v2"}, UNITS ** -0.5), ({"luong_scale": True}, 1.0),
    ({"attention_type": "bahdanau", "bahdanau_normalize": True}, UNITS ** -0.5)])
def test_the_first_scale_of_the_scores_can_be_set(params: dict[str, Any], default: float):
    for given, wanted in (({}, default), ({"score_scale_init": 1.5}, 1.5)):
        with creating_variables(3):
            decoder = RNNDecoderWithAttention({**PARAMS, **params, **given}, MODEL)
        np.testing.assert_allclose(decoder.stack.attention.score_scale, wanted, rtol=1e-6)


def test_scaled_embeddings_are_as_larger_ones():
    larger, scaled = make(), make(embedding_scale=3.0)
    larger.embedding.assign(3.0 * larger.embedding)
    inputs = {"encoder_output": encoded(), "target_tensors": targets()}
    np.testing.assert_allclose(scaled.decode(inputs)["logits"], larger.decode(inputs)["logits"], atol=1e-5)


@pytest.mark.parametrize(("params", "words"), [
    ({"attention_layer_size": 5}, r"must be the cell's size \(4\) with attention_type luong, got 5"),
    ({"sigmoid_noise": 1.0}, "sigmoid_noise' has no meaning with attention_type luong"),
    ({"attention_type": "gnmt", "decoder_layers": 1}, "must be at least 2 with attention_type gnmt"),
    ({"bahdanau_normalize": True}, "bahdanau_normalize' has no meaning with attention_type luong"),
    ({"attention_type": "gnmt_v2", "luong_scale": True}, "luong_scale' has no meaning"),
    ({"score_scale_init": 1.0}, "score_scale_init' has no effect with attention_type luong"),
    ({"weight_tied": True}, "tgt_emb_size' must be 5 with weight_tied, got 3"),
    ({"core_cell_params": {}}, "num_units' is missing"),
    ({"END_SYMBOL": 7}, r"END_SYMBOL' is 7, but must be below tgt_vocab_size, which is 7"),
    ({"attention_type": "monotonic"}, "attention_type"),
    ({"encoder_state": "copy"}, r"is copy, but the encoder's states have the sizes \[\[3\], \[3\], \[4, 4\]\]"),
    ({"core_cell": "GLSTMCell", "core_cell_params": {"num_units": 4, "number_of_groups": 3}},
     r"num_units' must be a multiple of number_of_groups \(3\), got 4"),
    ({"core_cell": "GLSTMCell", "core_cell_params": {"num_units": 9, "num_proj": 6, "number_of_groups": 3},
      "attention_layer_size": 6}, "does not divide the 8 channels of a layer's input"),
])
def test_mistakes_are_named(params: dict[str, Any], words: str):
    with pytest.raises(ConfigError, match=words):
        make(**params)


def test_an_encoder_without_output_size():
    with pytest.raises(ConfigError, match="encoder_size' is missing"):
        RNNDecoderWithAttention(PARAMS, SimpleNamespace(encoder=SimpleNamespace()))
    with pytest.raises(ConfigError, match="encoder_state' needs the final states of a recurrent encoder"):
        RNNDecoderWithAttention({**PARAMS, "encoder_state": "copy"}, SimpleNamespace(
            encoder=SimpleNamespace(output_size=SOURCE)))
    RNNDecoderWithAttention({**PARAMS, "encoder_size": 5}, SimpleNamespace(encoder=SimpleNamespace()))


@pytest.mark.parametrize("layer_params", [{"use_start_token": False}, {"autoregressive": True}])  # of text, of speech
def test_targets_without_a_start_token_get_one(layer_params):
    decoder, source, (ids, lengths) = make(), encoded(), targets()
    expected = decoder.decode({"encoder_output": source, "target_tensors": [ids, lengths]})["logits"]
    layer = SimpleNamespace(params=layer_params)
    with creating_variables(3):
        other = RNNDecoderWithAttention(PARAMS, SimpleNamespace(encoder=MODEL.encoder, data_layer=layer))
    for variable, value in zip(other.trainable_variables, decoder.trainable_variables, strict=True):
        variable.assign(value)
    logits = other.decode({"encoder_output": source, "target_tensors": [ids[:, 1:], lengths - 1]})["logits"]
    for row, length in enumerate(lengths.numpy()):
        np.testing.assert_allclose(logits[row, :length - 1], expected[row, :length - 1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("loss", "layer_params", "message"), [
    (PaddedCrossEntropyLossWithSmoothing({}), {}, "use_start_token' is True.*set use_start_token to False"),
    (BasicSequenceLoss({"tgt_vocab_size": VOCAB, "batch_size": 3}), {"autoregressive": True},
     "with target t . 1: set loss_params/offset_target_by_one to False")])
def test_a_loss_of_other_positions_is_refused(loss, layer_params, message):
    model = SimpleNamespace(encoder=MODEL.encoder, loss=loss, data_layer=SimpleNamespace(params=layer_params))
    with creating_variables(3):
        decoder = RNNDecoderWithAttention(PARAMS, model)
    with pytest.raises(ConfigError, match=message):
        decoder.decode({"encoder_output": encoded(), "target_tensors": targets()})
