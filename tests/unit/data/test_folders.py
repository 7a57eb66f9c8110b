"""Files below a folder: in a fixed order, also behind links, each once."""

import pytest

from open_seq2seq.data.folders import files_below, folders_in, name_from
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


def test_folders_in_a_folder(folder):
    for name in ("all/.hidden", "all/__MACOSX/dark"):
        (folder / name).mkdir(parents=True)
    assert folders_in(str(folder / "all")) == ["dark", "light"]
    with pytest.raises(DataError, match="The folder .*/nowhere cannot be read: No such file"):
        folders_in(str(folder / "nowhere"))


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


def test_names_work_from_a_folder_behind_a_link(tmp_path):
    (tmp_path / "far" / "deep" / "out").mkdir(parents=True)
    (tmp_path / "near").symlink_to("far/deep/out")
    (tmp_path / "wav").mkdir()
    (tmp_path / "wav" / "a.wav").symlink_to("../elsewhere.wav")
    (tmp_path / "elsewhere.wav").write_bytes(b"content")
    name = name_from(str(tmp_path / "near"), str(tmp_path / "wav" / "a.wav"))
    assert name == "../../../wav/a.wav" and (tmp_path / "near" / name).read_bytes() == b"content"


def test_names_are_absolute_if_only_the_root_folder_is_common():
    assert name_from("/proc/self", "/sys/a.wav") == "/sys/a.wav"


def test_a_name_that_no_list_can_contain(tmp_path):
    with pytest.raises(DataError, match=r"\\xe9.*is not UTF-8"):
        name_from(str(tmp_path), str(tmp_path / "\udce9" / "a.wav"))
