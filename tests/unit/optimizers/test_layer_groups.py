"""A variable's layer, from its name alone."""

import pytest

from open_seq2seq.optimizers.layer_groups import group_names, layer_group


@pytest.mark.parametrize(("name", "group"), [
    ("encoder/layer_0/self_attention/query", "encoder/layer_0"),
    ("decoder/layer_12/feed_forward/output_bias", "decoder/layer_12"),
    ("encoder/embedding/table", "encoder/embedding"),
    ("encoder/output_norm/gamma", "encoder/output_norm"),
    ("encoder/dense/kernel", "encoder/dense"),
    ("encoder/stack/block_3/conv_1/kernel", "encoder/stack/block_3"),
    ("encoder/block_3/conv_1/norm/gamma", "encoder/block_3"),
    ("encoder/cell/gates/input/kernel", "encoder/cell"),
    ("encoder/cell/kernel_0", "encoder/cell"),
    ("decoder/kernel", "decoder"),
    ("kernel", "kernel"),
])
def test_group_of_a_name(name, group):
    assert layer_group(name) == group


def test_groups_keep_the_order_of_names():
    names = ["encoder/b/x", "encoder/a/x", "encoder/b/y"]
    assert list(group_names(names).items()) == [("encoder/b", ["encoder/b/x", "encoder/b/y"]),
                                                ("encoder/a", ["encoder/a/x"])]
