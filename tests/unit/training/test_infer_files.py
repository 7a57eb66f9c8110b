from __future__ import annotations

import pytest

from open_seq2seq.config.overrides import parse_value
from open_seq2seq.training.infer_files import overrides_for
from open_seq2seq.utils.errors import UserError


def test_recordings_of_the_command_line_are_read_and_left_alone(tmp_path):
    recording = tmp_path / "a b.wav"
    recording.write_bytes(b"")
    given = {override.name: parse_value(override.text) for override in overrides_for([str(recording)])}
    data = "--infer_params/data_layer_params/"
    assert given == {f"{data}dataset_files": [str(recording)], f"{data}audio_root": None,
                     f"{data}cache_features": False}  # a cache would lie beside the recordings
    with pytest.raises(UserError, match=r"none\.wav, which does not exist"):
        overrides_for([str(tmp_path / "none.wav")])
