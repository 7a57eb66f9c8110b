"""Groups of rows."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from open_seq2seq.decoders.multi_decoder import joined_rows, rows_of


def test_rows_of_an_encoders_output():
    table = object()
    output = {"outputs": tf.reshape(tf.range(24), [4, 3, 2]), "state": (tf.range(4), [tf.range(4) * 2]), "none": None,
              "embedding_softmax_layer": table, "embedding_table": tf.zeros([9, 2])}
    found = rows_of(output, tf.constant([3, 1]))
    np.testing.assert_array_equal(found["outputs"], output["outputs"].numpy()[[3, 1]])
    assert found["state"][0].numpy().tolist() == [3, 1] and found["state"][1][0].numpy().tolist() == [6, 2]
    assert found["none"] is None and found["embedding_softmax_layer"] is table
    assert found["embedding_table"].shape == (9, 2)


def test_groups_of_any_size_are_joined_in_order():
    groups = [(tf.constant([2, 0]), tf.constant([[[1, 2]], [[3, 4]]])), (tf.zeros([0], tf.int32), tf.zeros([0, 0, 5],
                                                                                                      tf.int32)),
              (tf.constant([1]), tf.constant([[[5], [6]]]))]
    joined = joined_rows(groups).numpy()
    assert joined.shape == (3, 2, 5)
    assert joined[0, 0].tolist() == [3, 4, 0, 0, 0] and joined[2, 0].tolist() == [1, 2, 0, 0, 0]
    assert joined[1, :, 0].tolist() == [5, 6] and not joined[[0, 2], 1].any()
