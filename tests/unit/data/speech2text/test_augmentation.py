from __future__ import annotations

import numpy as np
import pytest

from open_seq2seq.data.speech2text.augmentation import Draw, apply_masks, make_augmentation
from open_seq2seq.utils.errors import ConfigError

AUDIO = np.sin(np.arange(8000) * 0.3).astype(np.float32)


def made(dither=0.0, **params):
    return make_augmentation(params, 20, dither, "data_layer_params/augmentation")


def draws(count: int = 60):
    return (Draw(1, 0, epoch) for epoch in range(count))


def test_nothing_without_parameters():
    augmentation = make_augmentation(None, 20, 0.0, "augmentation")
    assert not augmentation.changes_audio
    assert augmentation.num_masks == 0
    assert augmentation.perturb_speed(AUDIO, Draw(0, 0, 0)) is AUDIO


def test_speed_in_a_range():
    augmentation = made(speed_perturbation_ratio=0.2)
    lengths = [len(augmentation.perturb_speed(AUDIO, draw)) for draw in draws()]
    assert 0.8 * 8000 <= min(lengths) < 0.85 * 8000
    assert 1.15 * 8000 < max(lengths) <= 1.2 * 8000 + 1
    assert augmentation.longest == 1.2


def test_speed_from_a_list_changes_the_pitch():
    augmentation = made(speed_perturbation_ratio=[0.9, 1, 1.1])
    found = [augmentation.perturb_speed(AUDIO, draw) for draw in draws(20)]
    assert {len(audio) for audio in found} == {7200, 8000, 8800}
    slow = next(audio for audio in found if len(audio) == 8800)
    assert np.abs(slow - np.sin(np.arange(8800) * 0.3 / 1.1))[500:-500].max() < 1e-2


def test_noise_levels():
    augmentation = made(noise_level_min=-40, noise_level_max=-20)
    levels = [20 * np.log10(np.std(augmentation.add_noise(AUDIO, draw) - AUDIO)) for draw in draws()]
    assert -40.5 < min(levels) < -36
    assert -24 < max(levels) < -20.5
    assert np.std(made(dither=1e-3).add_noise(AUDIO, Draw(0, 0, 0)) - AUDIO) == pytest.approx(1e-3, rel=0.1)


def test_masks_stay_within_their_widths():
    augmentation = made(n_freq_mask=2, width_freq_mask=6, n_time_mask=3, width_time_mask=50)
    widths = {"time": set(), "columns": set()}
    for draw in draws():
        masks = augmentation.masks(30, 20, draw)
        assert masks.shape == (5, 4)
        assert np.all(masks[:, 1] <= 30) and np.all(masks[:, 3] <= 20) and np.all(masks >= 0)
        assert np.all(masks[:2, :2] == [0, 30]) and np.all(masks[2:, 2:] == [0, 20])
        widths["columns"] |= set((masks[:2, 3] - masks[:2, 2]).tolist())
        widths["time"] |= set((masks[2:, 1] - masks[2:, 0]).tolist())
    assert widths["columns"] == set(range(7))
    assert widths["time"] == set(range(31))
    features = np.ones((30, 20))
    apply_masks(features, np.asarray([[0, 30, 2, 4], [5, 6, 0, 20]]))
    assert features.sum() == 30 * 20 - 60 - 18


def test_draws_follow_from_seed_example_and_epoch_alone():
    augmentation = made(speed_perturbation_ratio=0.1, noise_level_min=-40, noise_level_max=-20, n_time_mask=2)

    def everything(*key):
        draw = Draw(*key)
        audio = augmentation.add_noise(augmentation.perturb_speed(AUDIO, draw), draw)
        return audio.tobytes(), augmentation.masks(100, 20, draw).tobytes()

    assert everything(1, 2, 3) == everything(1, 2, 3)
    assert len({everything(*key) for key in [(1, 2, 3), (2, 2, 3), (1, 3, 3), (1, 2, 4), (1, 3, 2)]}) == 5


def test_masks_do_not_depend_on_what_else_is_drawn():
    alone, beside = made(n_time_mask=2), made(n_time_mask=2, noise_level_min=-40, noise_level_max=-20)
    draw = Draw(0, 0, 0)
    beside.add_noise(AUDIO, draw)
    assert np.array_equal(alone.masks(90, 20, Draw(0, 0, 0)), beside.masks(90, 20, draw))


def test_the_old_name_of_speed(capsys):
    assert made(time_stretch_ratio=0.05).speed_range == (0.95, 1.05)
    assert "old name" in capsys.readouterr().out


@pytest.mark.parametrize(("params", "words"), [
    ({"speed_perturbation": 0.1}, "speed_perturbation_ratio"), ({"speed_perturbation_ratio": 1.0}, "below 0.9"),
    ({"speed_perturbation_ratio": [0.0]}, "from 0.1 to 10"), ({"speed_perturbation_ratio": []}, "from 0.1 to 10"),
    ({"noise_level_min": -90}, "set both or neither"),
    ({"noise_level_min": -60, "noise_level_max": -90}, "must be below"),
    ({"n_freq_mask": 1, "width_freq_mask": 21}, "only 20"), ({"n_time_mask": -1}, "from 0 to 1000"),
])
def test_parameters_that_do_not_fit(params, words):
    with pytest.raises(ConfigError, match=words):
        made(**params)
