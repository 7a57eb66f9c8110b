"""Files below a folder: in a fixed order, also behind links, each once."""

import pytest

from open_seq2seq.data.folders import files_below
from open_seq2seq.utils.errors import DataError


@pytest.fixture
def folder(tmp_path):
    for name in ("all/dark/b.png", "all/dark/a.png", "all/dark/.a.png", "all/dark/.trash/c.png", "all/dark/deep/d.png",
                 "all/light/e.png", "far/more/f.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def names(folder):
    return [str(path).removeprefix(f"{folder}/") for path in files_below(str(folder))]


def test_hidden_files_and_folders_are_left_out(folder):
    assert names(folder / "all/dark") == ["a.png", "b.png", "deep/d.png"]


def test_linked_folders_are_read_once(folder):
    dark = folder / "all/dark"
    (dark / "far").symlink_to(folder / "far")
    (dark / "further").symlink_to(folder / "far/more")
    (folder / "far/more/back").symlink_to(folder / "far")
    (folder / "far/linked.png").symlink_to(dark / "a.png")
    assert names(dark) == ["a.png", "b.png", "deep/d.png", "far/linked.png", "far/more/f.png"]


def test_links_to_folders_above_lead_nowhere(folder):
    dark = folder / "all/dark"
    for number, target in enumerate((folder, folder / "all", dark)):
        (dark / f"deep/{number}").symlink_to(target)
    assert names(dark) == ["a.png", "b.png", "deep/d.png"]


def test_a_folder_that_cannot_be_read_is_named(folder):
    with pytest.raises(DataError, match="The folder .*/nowhere cannot be read: No such file"):
        list(files_below(str(folder / "nowhere")))
