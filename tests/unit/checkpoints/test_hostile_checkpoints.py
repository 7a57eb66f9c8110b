"""A checkpoint is data that anybody may have written: what it promises and does not hold is said in one sentence."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from open_seq2seq.checkpoints import (
    average_checkpoints,
    check_resumable,
    first_whole,
    load_checkpoint,
    verified_assets,
    write_snapshot,
)
from open_seq2seq.utils.errors import CheckpointError
from tests.unit.checkpoints.attacks import ATTACKS, STATE, WEIGHTS, move_out, rewrite_header
from tests.unit.checkpoints.resealing import reseal


@pytest.fixture
def checkpoint(tmp_path, make_snapshot) -> Path:
    write_snapshot(make_snapshot(5), tmp_path / "run" / "model.ckpt-5")
    return tmp_path / "run" / "model.ckpt-5"


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused(checkpoint, make_snapshot, capsys, name):
    attack, says = ATTACKS[name]
    attack(checkpoint)
    with pytest.raises(CheckpointError) as error:
        load_checkpoint(checkpoint)
    text = str(error.value)
    assert says in text and str(checkpoint) in text and text.endswith(".") and "\n" not in text and len(text) < 1000
    write_snapshot(make_snapshot(4), checkpoint.parent / "model.ckpt-4")
    assert first_whole([checkpoint, checkpoint.parent / "model.ckpt-4"], load_checkpoint).state["step"] == 4
    assert text.partition("('")[0] in capsys.readouterr().out  # of two tensors that overlap, either may be named
    with pytest.raises(CheckpointError):
        average_checkpoints([checkpoint])


@pytest.mark.parametrize("name", ["an_asset_is_a_link", "an_asset_is_a_pipe", "config_is_a_pipe", "state_is_a_link",
                                  "a_config_without_end", "the_folder_of_assets_is_a_link"])
def test_small_files_are_checked_by_themselves(checkpoint, name):
    """A vocabulary is used before the weights are read."""
    ATTACKS[name][0](checkpoint)
    with pytest.raises(CheckpointError, match=ATTACKS[name][1]):
        verified_assets(checkpoint)


def test_files_that_are_not_listed_are_no_assets(checkpoint, tmp_path):
    (checkpoint / "assets" / "shadow").symlink_to("/etc/passwd")
    (checkpoint / "assets" / "more").write_text("x", encoding="utf-8")
    assert list(load_checkpoint(checkpoint).assets) == list(verified_assets(checkpoint)) == ["vocab.txt"]
    write_snapshot(average_checkpoints([checkpoint]), tmp_path / "average")
    assert [path.name for path in (tmp_path / "average" / "assets").iterdir()] == ["vocab.txt"]


def test_links_above_a_checkpoint_are_the_users(checkpoint, tmp_path):
    (tmp_path / "link").symlink_to(checkpoint.parent)
    assert load_checkpoint(tmp_path / "link" / "model.ckpt-5").state["step"] == 5


def test_a_state_without_step_is_not_resumed(checkpoint):
    reseal(checkpoint, lambda state: state.pop("step"))
    loaded = load_checkpoint(checkpoint)
    with pytest.raises(CheckpointError, match=r"cannot be resumed: its state.json has no step, micro_batch"):
        check_resumable(loaded.path, loaded.state)


def test_metrics_that_are_no_numbers_are_of_no_harm(checkpoint):
    reseal(checkpoint, lambda state: state["metrics"].update(BLEU=float("nan"), chrF=float("inf")))
    assert np.isnan(load_checkpoint(checkpoint).state["metrics"]["BLEU"])


def test_a_header_with_metadata_is_read(checkpoint):
    rewrite_header(checkpoint, lambda header, _: header.update(__metadata__={"by": "another program"}))
    assert load_checkpoint(checkpoint).weights


def test_nothing_beyond_the_file_is_allocated(checkpoint):
    """Headers that promise much are refused before arrays are made of them."""
    import tracemalloc

    for name in ("a_header_longer_than_the_file", "tensors_beyond_the_file", "a_state_without_end"):
        ATTACKS[name][0](checkpoint)
        tracemalloc.start()
        with pytest.raises(CheckpointError):
            load_checkpoint(checkpoint)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1 << 24, name
        if name == "a_header_longer_than_the_file":
            content = (checkpoint / WEIGHTS).read_bytes()
            length = content[8:].index(b"}}") + 2  # back to what it was
            (checkpoint / WEIGHTS).write_bytes(length.to_bytes(8, "little") + content[8:])
            reseal(checkpoint)


def test_a_link_that_leads_nowhere_is_a_link(checkpoint):
    outside = move_out(checkpoint, STATE)
    (checkpoint / STATE).symlink_to(outside)
    os.unlink(outside)
    with pytest.raises(CheckpointError, match="is a link"):
        load_checkpoint(checkpoint)
