"""The first losses of a recipe of each family are those of the committed file; see ``tests/reference_losses.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reference_losses import DTYPES, EARLY, RECIPES, UPDATES, difference, read

TESTS = Path(__file__).resolve().parents[1]
FILE = TESTS / "reference_losses.json"


# What layers of each kind compute in bfloat16; the slow test has all recipes.
KINDS_OF_LAYERS = ("transformer", "gnmt", "convs2s", "deep speech", "jasper", "lstm language model", "resnet")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("dtype", "recipes"), [
    ("float32", RECIPES), ("mixed_bfloat16", KINDS_OF_LAYERS),
    pytest.param("mixed_bfloat16", RECIPES, marks=pytest.mark.slow)], ids=["float32", "mixed_bfloat16", "all"])
def test_losses_are_those_of_the_file(dtype, recipes):
    # A process of its own, because the number of threads must be set before TensorFlow starts any.
    done = subprocess.run([sys.executable, TESTS / "reference_losses.py", "--compare", FILE, "--dtypes", dtype,
                           "--may_round", "--recipes", *recipes], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout


def test_the_file_has_all_recipes():
    losses = read(FILE)[1]
    assert {dtype: list(of_dtype) for dtype, of_dtype in losses.items()} == dict.fromkeys(DTYPES, list(RECIPES))
    assert {len(values) for of_dtype in losses.values() for values in of_dtype.values()} == {UPDATES}


def test_differences_are_relative_and_may_grow():
    reference = [4.0] * (EARLY + 1)
    assert difference(reference, reference, (0.0, 0.0)) == ""
    assert difference([*reference[:-1], 4.002], reference, (1e-4, 1e-3)) == ""
    assert difference([4.002, *reference[1:]], reference, (1e-4, 1e-3)).startswith("the loss of update 1 is 4.002")
    assert "update 11 is nan" in difference([*reference[:-1], float("nan")], reference, (1e-4, 1e-3))
    assert difference(reference[1:], reference, (1.0, 1.0)) == "10 updates instead of 11"
