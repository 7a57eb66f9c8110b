"""The benchmark of language models on a toy size."""

from __future__ import annotations

import pytest

from benchmarks.language_model import main, parse_arguments, step_products
from open_seq2seq.utils.errors import UserError

SMALL = ["--hidden=8", "--layers=2", "--ids=20", "--batch=2", "--length=3", "--rounds=1", "--steps=1", "--threads=1",
         "--transformer_layers=1", "--transformer_hidden=8", "--context=6", "--new_tokens=3"]


def rows(output):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in output.splitlines()
            if line.startswith(("| ours", "| cached", "| uncached"))]


@pytest.mark.long
def test_the_lstm_has_a_row_for_each_dtype(capsys):
    main([*SMALL, "--parts=stack,step", "--dtypes=float32,mixed_bfloat16"])
    output = capsys.readouterr().out
    assert [row[0] for row in rows(output)] == 2 * ["ours, float32", "ours, mixed_bfloat16 (bfloat16)"]
    assert output.count("raw products in float32") == 2
    assert "PyTorch is not measured" in output


@pytest.mark.long
def test_generation_compares_the_texts(capsys):
    main([*SMALL, "--parts=generation"])
    output = capsys.readouterr().out
    assert [row[0] for row in rows(output)] == ["uncached", "cached"]
    assert "both texts are equal" in output and "PyTorch" not in output


def test_the_products_are_those_of_all_weights():
    """Each weight matrix is multiplied with every position once."""
    products = step_products(parse_arguments(SMALL))
    done = sum(product.multiplications for product in products)
    assert done == 6 * (2 * (8 + 8) * 4 * 8 + 8 * 20)


@pytest.mark.parametrize("option, message", [("--parts=stack,decoding", "'decoding'"), ("--ids=2", "--ids")])
def test_bad_options_are_named(option, message):
    with pytest.raises(UserError, match=message):
        main([option])
