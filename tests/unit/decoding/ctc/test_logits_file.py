import contextlib
import io
import pickle
import tracemalloc

import numpy as np
import pytest

from open_seq2seq.decoding.ctc.logits_file import LogitsFile, read_logits, write_logits
from open_seq2seq.utils.errors import DataError


@pytest.mark.parametrize("name", ["dump.npz", "dump.pickle", "dump.pkl"])
def test_a_dump_comes_back(tmp_path, name):
    logits = {"a/1.wav": np.arange(6, dtype=np.float32).reshape(2, 3), "\u00e4.flac": np.ones([1, 3], np.float32)}
    text = {"remove_characters": "\u00e4!", "unicode_form": None}
    write_logits(str(tmp_path / name), logits, ["x", " "], 0.02, text)
    found = read_logits(str(tmp_path / name))
    assert found.normalization == text
    assert list(found.logits) == list(logits) and (found.labels, found.step_seconds) == (["x", " "], 0.02)
    for key, value in logits.items():
        np.testing.assert_array_equal(found.logits[key], value)
    assert read_logits(str(tmp_path / name), ["y", "z"]).labels == ["y", "z"]


@pytest.mark.parametrize("name", ["dump.npz", "dump.pickle"])
def test_a_dump_that_does_not_tell_what_was_done_to_transcripts(tmp_path, name):
    logits = np.zeros([2, 3], np.float32)
    if name.endswith("npz"):
        np.savez(tmp_path / name, names=["a"], labels=["x", " "], step_seconds=0.02, logits_0=logits)
    else:
        (tmp_path / name).write_bytes(pickle.dumps({"logits": {"a": logits}, "vocab": {0: "x", 1: " "}}))
    assert read_logits(str(tmp_path / name)).normalization == {}


@pytest.mark.parametrize("name", ["dump.npz", "dump.pickle"])
@pytest.mark.parametrize("labels", [["x"], ["x", "y", " "]])
def test_an_alphabet_that_does_not_fit_is_named(tmp_path, name, labels):
    write_logits(str(tmp_path / name), {"b.wav": np.zeros([2, 3], np.float32)}, ["x", " "], 0.02)
    with pytest.raises(DataError, match=rf"{name}: the logits of b.wav .* needs {len(labels) + 1} columns"):
        read_logits(str(tmp_path / name), labels)


def test_what_was_done_to_transcripts_has_to_have_names(tmp_path):
    np.savez(tmp_path / "a.npz", names=["a"], labels=["x", " "], step_seconds=0.02, normalization="[1]",
             logits_0=np.zeros([2, 3], np.float32))
    with pytest.raises(DataError, match=r"not a valid dump of logits: .* \[1\]"):
        read_logits(str(tmp_path / "a.npz"))


class Evil:
    def __reduce__(self):
        return print, ("this code must not run",)


def test_a_pickle_cannot_run_code(tmp_path, capsys):
    for number, content in enumerate(({"logits": {"a": Evil()}}, {"logits": {"a": np.array([Evil()])}})):
        path = tmp_path / f"{number}.pickle"
        path.write_bytes(pickle.dumps(content))
        with pytest.raises(DataError, match="print"):
            read_logits(str(path), ["a"])
    assert "must not run" not in capsys.readouterr().out


def test_files_that_are_no_dumps(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "text.pkl").write_text("hello")
    for name in ("cut.npz", "cut.pkl"):
        write_logits(str(tmp_path / name), {"a": np.ones([50, 3], np.float32)}, ["x", " "], 0.02)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:400])
    for name in ("text.npz", "text.pkl", "missing.npz", "cut.npz", "cut.pkl"):
        with pytest.raises(DataError, match=name):
            read_logits(str(tmp_path / name))


@pytest.mark.parametrize("pickled", [False, True])
def test_memory_does_not_grow_with_what_was_written(tmp_path, pickled):
    """A hundred arrays go through less memory than three of them take, to a place that cannot seek."""
    class Sink(io.RawIOBase):
        def __init__(self) -> None:
            self.size = 0

        def writable(self) -> bool:
            return True

        def write(self, data):
            self.size += len(data)
            return len(data)

    sink, logits = Sink(), np.ones([1000, 100], np.float32)
    tracemalloc.start()
    try:
        dump = LogitsFile(sink, pickled)  # type: ignore[arg-type]
        for number in range(100):
            dump.write(f"{number}.wav", logits)
        dump.finish(["x"], 0.02)
        assert tracemalloc.get_traced_memory()[1] < 3 * logits.nbytes
    finally:
        tracemalloc.stop()
    assert sink.size > 100 * logits.nbytes


def test_a_pickled_dump_is_what_pickle_reads(tmp_path):
    """Names and arrays that occur again are no references to others of their kind."""
    arrays = [np.full([2, 3], number, np.float32) for number in range(300)]
    with open(tmp_path / "a.pickle", "wb") as file:
        dump = LogitsFile(file, True)
        for number in range(300):
            dump.write(f"{number}", arrays[number // 2])
        dump.finish(["x", " "], 0.02, {"logits": "logits"})
    found = pickle.loads((tmp_path / "a.pickle").read_bytes())
    assert list(found) == ["logits", "vocab", "step_size", "normalization"]
    assert found["vocab"] == {0: "x", 1: " "} and found["step_size"] == 0.02
    for number in range(300):
        np.testing.assert_array_equal(found["logits"][f"{number}"], arrays[number // 2])


@pytest.mark.parametrize("name", ["a.npz", "a.pickle"])
def test_damage_anywhere_is_said_in_words(tmp_path, name):
    path = tmp_path / name
    write_logits(str(path), {f"{n}.wav": np.full((3, 3), float(n), np.float32) for n in range(3)}, "ab", 0.02, {"a": 1})
    whole, numbers = path.read_bytes(), np.random.default_rng(0)
    for trial in range(300):
        content = bytearray(whole)
        for place in numbers.integers(len(content), size=numbers.integers(1, 4)):
            content[place] ^= 1 << numbers.integers(8)
        path.write_bytes(content[:numbers.integers(len(content))] if trial % 3 == 0 else content)
        with contextlib.suppress(DataError):
            assert len(read_logits(str(path)).labels) == 2


@pytest.mark.parametrize(("change", "words"), [
    ({"step_seconds": np.float64("nan")}, "nan seconds"), ({"step_seconds": np.float64(-1)}, "-1 seconds"),
    ({"logits_0": np.array([["a", "b", "c"]])}, "got dtype <U1"), ({"names": np.array(["a", "a"])}, "the same name"),
    ({"normalization": '{"unicode_form": "NFQ"}'}, "unicode_form must be one of None, NFC, NFD, NFKC, NFKD, got 'NFQ'"),
    ({"normalization": '{"unicode_form": ["NFC"]}'}, "unicode_form must be one of"),
    ({"normalization": '{"remove_characters": 5}'}, "must be text, got 5"),
])
def test_dumps_of_something_else(tmp_path, change, words):
    write_logits(str(tmp_path / "a.npz"), {"a": np.zeros((1, 3), np.float32)}, "ab", 0.02)
    with np.load(tmp_path / "a.npz") as dump:
        np.savez(tmp_path / "b.npz", **{**dump, **change})
    with pytest.raises(DataError, match=words):
        read_logits(str(tmp_path / "b.npz"))
