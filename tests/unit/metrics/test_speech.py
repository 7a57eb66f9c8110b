import sys

import numpy as np
import pytest

from open_seq2seq.metrics.speech import (
    PocketSphinx,
    SoundDistance,
    Voice,
    analysed,
    coverage,
    diagonality,
    log_spectral_distance,
    mel_cepstra,
    monotonicity,
    plain_words,
    sound_distance,
    spoken_attention,
)
from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.librosa_import import import_librosa

RATE = 8000


POLES = (0.95 * np.exp(0.5j), 0.9 * np.exp(1.2j))


def test_a_diagonal_attention():
    weights = np.repeat(np.eye(20), 3, axis=0)
    assert diagonality(weights) == monotonicity(weights) == coverage(weights) == 1.0


def test_uniform_attention_has_a_diagonality_of_about_0_28():
    assert diagonality(np.full([300, 100], 0.01)) == pytest.approx(0.28, abs=0.01)


def test_an_attention_that_jumps_and_one_that_stays():
    back = np.eye(10)[[0, 1, 2, 1, 2]]
    assert monotonicity(back) == 0.75 and coverage(back) == 0.3
    stays = np.eye(10)[[4] * 6]
    assert monotonicity(stays) == 1.0 and coverage(stays) == 0.1 and diagonality(stays) < 0.5


def test_symbols_that_are_not_spoken_do_not_count():
    # A start symbol, a mark without a duration between two symbols, and end symbols, to which the last frames attend.
    weights = np.eye(9)[[1, 1, 2, 4, 4, 5, 7, 7]]
    spoken = spoken_attention(weights, np.isin(np.arange(9), [1, 2, 4, 5]))
    assert coverage(spoken) == monotonicity(spoken) == diagonality(spoken) == 1.0
    assert coverage(weights) < 1.0 > monotonicity(weights)


@pytest.mark.parametrize("spoken", [np.zeros(3, bool), np.array([True, False, False])])
def test_nothing_to_measure(spoken):
    for weights in (np.zeros([0, 3]), np.eye(3)[[1, 1]]):
        attention = spoken_attention(weights, spoken)
        assert diagonality(attention) == coverage(attention) == 0.0 and monotonicity(attention) == 1.0


def vowel(pitch, seconds=0.5, poles=POLES):
    """Pulses through two resonances."""
    import scipy.signal

    pulses = np.zeros(int(seconds * RATE))
    pulses[::round(RATE / pitch)] = 1.0
    filters = np.real(np.poly([*poles, *np.conj(poles)]))
    return scipy.signal.lfilter([1.0], filters, pulses).astype(np.float32)


def all_pass_transform(cepstrum, order, alpha=0.466):
    """The recursion of SPTK's freqt."""
    result = np.zeros(order + 1)
    for value in cepstrum[::-1]:
        before = result.copy()
        result[0] = value + alpha * before[0]
        result[1] = (1 - alpha ** 2) * before[0] + alpha * before[1]
        for place in range(2, order + 1):
            result[place] = before[place - 1] + alpha * (before[place] - result[place - 1])
    return result


def test_mel_cepstra_are_those_of_the_recursion():
    librosa = import_librosa()

    sound = vowel(125)
    power = np.abs(librosa.stft(sound, n_fft=512, hop_length=40)) ** 2
    logarithms = np.log(np.maximum(power, power.max() * 1e-8))[:, 20]
    cepstrum = np.fft.irfft(logarithms)[:257]
    cepstrum[[0, -1]] /= 2
    np.testing.assert_allclose(mel_cepstra(sound, 512, 40)[20], all_pass_transform(cepstrum, 39)[1:], atol=1e-4)


def test_level_and_tempo_hardly_matter_but_timbre_does():
    first, other = vowel(125), vowel(125, poles=(0.95 * np.exp(0.9j), 0.9 * np.exp(2.0j)))
    word = np.concatenate([first, other])
    slow = np.concatenate([first, first, other])

    def distortion(sound):
        voices = [Voice(mel_cepstra(one, 512, 40), np.full([1 + len(one) // 40], np.nan)) for one in (sound, word)]
        return sound_distance(*voices).distortion

    assert distortion(word) == 0.0 and distortion(0.1 * word) < 1e-3
    assert distortion(slow) < 0.2 * distortion(other)


def test_pitch_and_voicing_are_compared_on_the_path():
    cepstra = np.eye(4)
    pitch = np.array([100.0, np.nan, 200.0, np.nan])
    distance = sound_distance(Voice(cepstra, pitch), Voice(cepstra, np.array([110.0, 100.0, 200.0, np.nan])))
    assert distance == SoundDistance(0.0, pytest.approx(np.sqrt(50)), pytest.approx(
        1200 * np.log2(1.1) / np.sqrt(2)), 0.25, 150 / 110)


@pytest.mark.long
def test_the_pitch_of_a_vowel_is_found():
    pitch = analysed(vowel(125), RATE).pitch
    assert np.nanmedian(pitch) == pytest.approx(125, rel=0.02) and np.isfinite(pitch).mean() > 0.8


def test_words_are_compared_without_case_and_punctuation():
    assert plain_words("“It's the Aurora-borealis,” — he said: 'OK', don’t.") == \
        "it's the aurora borealis he said ok don't"


def test_a_missing_recogniser_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    with pytest.raises(UserError, match=r"open-seq2seq\[align\]"):
        PocketSphinx()


@pytest.mark.long
def test_silence_has_no_words():
    pytest.importorskip("pocketsphinx")
    recognizer = PocketSphinx()
    assert recognizer.transcript(np.zeros([8000], np.float32), 8000) == ""
    assert recognizer.transcript(np.zeros([0], np.float32), 8000) == ""


def test_the_log_spectral_distance_of_a_louder_sound_is_its_gain():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=4000).astype(np.float32)
    assert log_spectral_distance(noise, noise, 8000) == 0.0
    assert log_spectral_distance(2 * noise, noise, 8000) == pytest.approx(20 * np.log10(2), rel=1e-3)
    assert log_spectral_distance(np.pad(2 * noise, (0, 100)), noise, 8000) == pytest.approx(20 * np.log10(2), rel=1e-3)
    # The level of noise at a frequency has an exponential distribution of power: 5.57 dB from its mean, and twice the
    # variance between two of them.
    other = log_spectral_distance(rng.normal(size=80000), rng.normal(size=80000), 8000)
    assert other == pytest.approx(np.sqrt(2) * 5.57, abs=0.2)
    assert np.isfinite(log_spectral_distance(np.zeros(100), noise[:100], 8000))
