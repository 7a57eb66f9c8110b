"""Ranges of the parameters that all models share."""

import pytest

from open_seq2seq.config.params import check_value
from open_seq2seq.models.model_params import optimization_params


@pytest.mark.parametrize(("factor", "fits"), [(0.0, False), (0.5, True), (1.0, True), (1.5, False)])
def test_a_roll_back_may_keep_the_learning_rate_but_not_raise_it(factor, fits):
    _, problem = check_value(factor, optimization_params()["divergence_lr_factor"], "divergence_lr_factor")
    assert (not problem) == fits
