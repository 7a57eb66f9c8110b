"""The benchmark of recurrent translation on a toy size."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.recurrent_translation import main, product_shapes
from open_seq2seq.utils.errors import UserError

SMALL = ["--hidden=4", "--layers=2", "--ids=20", "--batch=2", "--length=3"]


@pytest.mark.long
def test_the_table_has_a_row_for_each_dtype(capsys):
    main([*SMALL, "--rounds=1", "--steps=1", "--dtypes=float32,mixed_bfloat16", "--threads=1"])
    output = capsys.readouterr().out
    assert [line.split(" | ")[0] for line in output.splitlines() if line.startswith("| ours")] == [
        "| ours, float32", "| ours, mixed_bfloat16 (bfloat16)"]
    assert "raw products in float32" in output


@pytest.mark.parametrize("feeds", [False, True])
def test_the_products_are_those_of_all_weights(feeds):
    """Each weight matrix is multiplied with every position once."""
    hidden, ids, layers, rows = 4, 20, 3, 6
    options = argparse.Namespace(hidden=hidden, ids=ids, layers=layers, batch=2, length=3, input_feeding=feeds)
    products = product_shapes(options)
    done = sum(product.multiplications for product in products)
    assert sum(count * rows * inner * columns for product in products
               for count, rows, inner, columns in product.with_gradients()) == 3 * done
    lstm = [(hidden, 2), (2 * hidden, 1), (hidden, layers - 2), (hidden * (2 if feeds else 1), 1),
            (2 * hidden, layers - 1)]
    weights = sum(count * (size + hidden) * 4 * hidden for size, count in lstm) + 2 * hidden ** 2 + hidden * ids
    assert done == rows * weights


def test_too_few_layers():
    with pytest.raises(UserError, match="--layers"):
        main(["--layers=1"])
