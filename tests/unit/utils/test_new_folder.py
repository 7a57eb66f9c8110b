"""Output folders that are complete or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from open_seq2seq.utils.errors import UserError
from open_seq2seq.utils.output_file import check_new_folder, new_folder


def test_a_folder_appears_when_it_is_complete(tmp_path):
    place = tmp_path / "new" / "out"
    for _ in range(2):
        with new_folder(str(place)) as folder:
            (Path(folder) / "sub").mkdir()
            (Path(folder) / "sub" / "a").write_text("content")
            assert not place.exists() or not list(place.iterdir())
        assert (place / "sub" / "a").read_text() == "content" and [p.name for p in place.parent.iterdir()] == ["out"]
        (place / "sub" / "a").unlink()
        (place / "sub").rmdir()  # an empty folder is used


@pytest.mark.parametrize(("error", "kind", "words"), [
    (OSError(28, "No space left"), UserError, "out cannot be written: No space left"), (ValueError(), ValueError, None),
    (KeyboardInterrupt(), KeyboardInterrupt, None),
])
def test_nothing_remains_after_an_error(tmp_path, error, kind, words):
    with pytest.raises(kind, match=words), new_folder(str(tmp_path / "out")) as folder:
        (Path(folder) / "a").write_text("half")
        raise error
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_has_left_is_removed(tmp_path):
    with new_folder(str(tmp_path / "out")) as unfinished:
        with pytest.raises(UserError, match="being written by another process"), new_folder(str(tmp_path / "out")):
            pass
    (tmp_path / "out").rename(unfinished)  # as if the process had ended before it could rename the folder
    (Path(unfinished) / "a").write_text("half")
    with new_folder(str(tmp_path / "out")) as folder:
        (Path(folder) / "b").write_text("whole")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "b"]


def test_what_exists_is_kept(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(UserError, match="exists already and is not overwritten: choose another --output_dir"):
        check_new_folder(str(tmp_path / "out"))
    for name, words in (("mine", "mine, which is a file, not a folder"), ("mine/x", "mine is a file, not a folder")):
        with pytest.raises(UserError, match=words):
            check_new_folder(str(tmp_path / "out" / name))
    with pytest.raises(UserError, match="--output_dir is empty"), new_folder(""):
        pass
    with pytest.raises(UserError), new_folder(str(tmp_path / "out")):
        pass
    assert (tmp_path / "out" / "mine").read_text() == "mine" and len(list(tmp_path.iterdir())) == 1
