"""Muon: nearly orthogonal updates in every dtype, and which variables it leaves to Adam."""

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers import make_optimizer
from open_seq2seq.utils.errors import ConfigError
from tests.unit.optimizers import numpy_reference as ref

SIZES = ((24, 16), (16, 24), (16, 16), (24, 16))


def one_update(gradients, dtype, **params):
    """The changes of weights by an update with the rate 1 and no earlier momentum."""
    optimizer = make_optimizer("Muon", {"momentum": 0.0, **params})
    optimizer.product_dtype = dtype
    variables = {name: tf.Variable(tf.zeros(gradient.shape)) for name, gradient in gradients.items()}
    optimizer.build(variables)
    optimizer.apply({name: tf.constant(gradient) for name, gradient in gradients.items()}, variables,
                    tf.constant(1.0), tf.constant(0, tf.int64))
    return {name: -variable.numpy() for name, variable in variables.items()}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16, tf.bfloat16])
def test_the_iteration_is_as_exact_as_the_published_one_in_the_dtype_of_products(dtype):
    rng = np.random.default_rng(0)
    gradients = {f"kernel_{n}": rng.normal(size=size).astype(np.float32) for n, size in enumerate(SIZES)}
    for name, change in one_update(gradients, dtype, rms_rate=None).items():
        rows, columns = change.shape
        exact, published = (ref.orthogonal(gradients[name], dtype=kind).astype(np.float64)
                            for kind in (np.float64, dtype.as_numpy_dtype))
        change = change / max(1.0, columns / rows) ** 0.5
        allowed = 1e-5 * np.linalg.norm(exact) + 1.1 * np.linalg.norm(published - exact)
        assert np.linalg.norm(change - exact) < allowed


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_the_singular_values_become_equal_and_their_vectors_stay(size):
    gradient = size * np.random.default_rng(1).normal(size=(3, 4, 20)).astype(np.float32)
    change = one_update({"convolution": gradient}, tf.float32)["convolution"].reshape(12, 20) / (0.2 * 20 ** 0.5)
    left, values, right = np.linalg.svd(gradient.reshape(12, 20), full_matrices=False)
    inner = left.T @ change @ right.T
    assert 0.6 < np.diag(inner).min() and np.diag(inner).max() < 1.3 and values.max() > 3 * values.min()
    np.testing.assert_allclose(inner - np.diag(np.diag(inner)), 0.0, atol=1e-4)


MATRICES = {"encoder/layer_0/self_attention/output": (8, 8), "encoder/layer_0/feed_forward/output_kernel": (16, 8),
            "encoder/block_1/convolution_2/kernel": (3, 3, 4, 4), "encoder/stack/layer_0/recurrent_kernel": (4, 16),
            "decoder/layer_1/cross_attention/query": (8, 8), "encoder/kernel": (8, 8)}
OTHERS = {"encoder/embedding": (20, 8), "encoder/embedding/table": (20, 8), "decoder/positions/table": (9, 8),
          "decoder/output_kernel": (8, 20), "encoder/output_layer/kernel": (20, 8), "decoder/kernel": (8, 5),
          "decoder/ctc_decoder/kernel": (8, 5), "decoder/projection/kernel": (8, 6), "encoder/layer_0/norm/scale": (8,),
          "decoder/stop_token/kernel": (8, 3), "encoder/block_0/convolution/depthwise": (11, 8, 1),
          "decoder/attention/score_vector": (8, 1)}


def test_embeddings_output_layers_and_vectors_are_left_to_adam():
    optimizer = make_optimizer("Muon")
    shapes = {**MATRICES, **OTHERS}
    optimizer.build({name: tf.Variable(tf.zeros(shape)) for name, shape in shapes.items()})
    state = optimizer.state()
    assert set(state) == {*(f"momentum/{name}" for name in MATRICES),
                          *(f"{kind}/{name}" for name in OTHERS for kind in "mv")}
    for name, shape in shapes.items():
        values = sum(np.prod(v.shape) for key, v in state.items() if key.partition("/")[2] == name)
        assert optimizer.num_state_values(name, shape) == values


def test_mistakes_are_explained():
    with pytest.raises(ConfigError, match="none of the variables that are trained is a matrix"):
        make_optimizer("Muon", {"exclude": "kernel"}).build({"kernel": tf.Variable(tf.zeros([3, 3]))})
    with pytest.raises(ConfigError, match="'optimizer_params/exclude' is .* not a valid regular expression"):
        make_optimizer("Muon", {"exclude": "("})
