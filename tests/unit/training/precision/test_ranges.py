"""Counts of magnitudes against NumPy, and the scales that follow from them."""

import numpy as np
import pytest
import tensorflow as tf

from open_seq2seq.optimizers.dtype import BFLOAT16, FLOAT16
from open_seq2seq.training.precision import Conversion, NumberRange, measure, sum_ranges

CONVERSIONS = [Conversion(FLOAT16), Conversion(FLOAT16, 2.0**14), Conversion(FLOAT16, 1000.0), Conversion(BFLOAT16)]
RNG = np.random.default_rng(0)


def numbers(low, high, shape=(40, 50)):
    x = (RNG.choice([-1, 1], shape) * np.exp2(RNG.uniform(low, high, shape))).astype(np.float32)
    x[RNG.uniform(size=shape) < 0.1] = 0.0
    return x


def range_of(x):
    return measure(tf.constant(x), CONVERSIONS).to_range(CONVERSIONS)


def to_float16(x, scale):
    with np.errstate(over="ignore"):
        return (x * np.float32(scale)).astype(np.float16)


@pytest.mark.parametrize(("low", "high"), [(-60, 20), (-30, -20), (14, 17)])
def test_counts_equal_conversion_by_numpy(low, high):
    x = numbers(low, high)
    x[0, :3] = np.inf, -np.inf, np.nan
    found, finite = range_of(x), x[np.isfinite(x)]
    present = np.abs(finite[finite != 0])
    assert (found.total, found.zeros, found.not_finite) == (x.size, (x == 0).sum(), 3)
    assert found.nonzero == present.size and found.largest == present.max() and found.smallest == present.min()
    for conversion in CONVERSIONS[:3]:
        converted = to_float16(present, conversion.scale)
        assert found.lost[conversion] == (converted == 0).sum()
        assert found.overflowing[conversion] == np.isinf(converted).sum()
        assert found.share_lost(conversion) == pytest.approx((converted == 0).mean())
    assert found.lost[CONVERSIONS[3]] == found.overflowing[CONVERSIONS[3]] == 0


def test_powers_of_two_end_their_octave():
    octaves = range_of(np.exp2(np.arange(-126, 128)).astype(np.float32)).octaves
    np.testing.assert_array_equal(octaves, [1] * 254 + [0] * 2)
    assert range_of(np.nextafter(np.float32([1.0]), np.float32(2.0))).octaves[127] == 1


@pytest.mark.parametrize("exponent", [0, 3, 10, 24])
def test_share_lost_at_any_power_of_two(exponent):
    x = numbers(-60, 0)
    expected = (to_float16(x[x != 0], 2.0**exponent) == 0).mean()
    assert range_of(x).share_lost_at(exponent) == pytest.approx(expected)


@pytest.mark.parametrize(("low", "high"), [(-60, -20), (-35, 3), (-10, 14), (-5, 30)])
@pytest.mark.parametrize("tolerated", [0.0, 1e-3, 0.2])
def test_scales_are_the_ends_of_what_fits(low, high, tolerated):
    x = numbers(low, high)
    present, found = x[x != 0], range_of(x)
    least, greatest = found.least_exponent(tolerated), found.greatest_exponent()
    assert (to_float16(present, 2.0**least) == 0).mean() <= tolerated
    assert least == 0 or (to_float16(present, 2.0 ** (least - 1)) == 0).mean() > tolerated
    assert not np.isinf(to_float16(present, 2.0**greatest)).any()
    assert np.isinf(to_float16(present, 2.0 ** (greatest + 1))).any()


@pytest.mark.parametrize("largest", [65519.0, 65520.0, 32760.0, 32759.0, 1.0])
def test_the_greatest_scale_at_the_end_of_float16(largest):
    found = range_of(np.float32([largest]))
    with np.errstate(over="ignore"):
        fits = np.isfinite(np.float16(largest * 2.0**found.greatest_exponent()))
        more = np.isfinite(np.float16(largest * 2.0 ** (found.greatest_exponent() + 1)))
    assert fits and not more


def test_ranges_add_up():
    parts = [numbers(-40, -30), numbers(-3, 18), np.zeros([3, 2], np.float32)]
    assert vars_of(sum_ranges(map(range_of, parts))) == vars_of(range_of(np.concatenate([p.ravel() for p in parts])))
    nothing = sum_ranges([])
    assert nothing.total == 0 and nothing.least_exponent(0.0) == 0 and nothing.greatest_exponent() == 127
    assert isinstance(nothing, NumberRange)


def vars_of(numbers):
    return {**vars(numbers), "octaves": numbers.octaves.tolist()}


def test_rows_of_an_embedding_are_measured_as_a_whole():
    slices = tf.IndexedSlices(tf.ones([2, 3]), tf.constant([1, 1]), tf.constant([4, 3]))
    found = measure(slices, CONVERSIONS).to_range(CONVERSIONS)
    assert (found.total, found.zeros, found.largest) == (12, 9, 2.0)
