"""Streams that nobody reads: what is printed is lost, the process is not."""

from __future__ import annotations

import io
import signal
import subprocess
import sys

import pytest

from open_seq2seq.utils.console import EnduringStream, deco_print, enduring_output, in_python, need_output, worded
from open_seq2seq.utils.errors import UserError

WORK = """
import sys
from open_seq2seq.utils.console import deco_print, enduring_output
with enduring_output(needed={needed}):
    print("first")
    for _ in range(30):  # more than a pipe holds
        deco_print("x" * 10_000)
    with open(sys.argv[1], "w") as file:  # with a closed stream it must not become that stream
        deco_print("not into the file")
        file.write(f"done {{file.fileno()}}")
"""


class Failing(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("needed", [False, True])
@pytest.mark.parametrize("how", ["> /dev/full", "| head -c 3 > /dev/null", ">&-", "<&- >&- 2>&-", "2>&-"])
def test_a_process_ends_in_good_order_wherever_its_output_goes(tmp_path, how, needed):
    done = tmp_path / "done"
    command = f'"$@" {how}; exit "${{PIPESTATUS[0]}}"'
    found = subprocess.run(["bash", "-c", command, "bash", sys.executable, "-c", WORK.format(needed=needed), str(done)],
                           capture_output=True, text=True, check=False)
    assert "Exception ignored" not in found.stderr
    fails = needed and how != "2>&-"
    assert done.exists() != fails
    if fails:
        assert found.returncode == (128 + signal.SIGPIPE if "head" in how else 1)
        assert "head" not in how or not found.stderr
    else:
        assert found.returncode == 0 and int(done.read_text().split()[1]) > 2
        assert found.stderr.count("WARNING: Standard output cannot be written") == ("2>" not in how)


def test_a_warning_comes_once_and_later_text_is_tried_again():
    errors, target = io.StringIO(), io.StringIO()
    stream = EnduringStream(Failing(), "The log")
    sys.stderr, before = errors, sys.stderr
    try:
        assert stream.write("lost") == 4
        stream.write("lost too")
        stream._stream = target
        stream.write("found")
    finally:
        sys.stderr = before
    assert errors.getvalue().count("The log cannot be written (No space left on device)") == 1
    assert target.getvalue() == "found"


def test_output_that_is_needed_fails_once_in_a_sentence(capsys):
    with enduring_output():
        need_output(True)
        sys.stdout._stream = Failing()
        with pytest.raises(UserError, match="Standard output cannot be written: No space left on device"):
            deco_print("figures")
        deco_print("the report of the error itself")


@pytest.mark.parametrize(("encoding", "text", "written"), [
    ("ascii", "grün", b"gr\\xfcn"), ("utf-8", "grün", "grün".encode()), ("utf-8", "a\udcff", b"a\\udcff")])
def test_what_an_encoding_lacks_is_written_as_an_escape(encoding, text, written):
    raw = io.BytesIO()
    stream = EnduringStream(io.TextIOWrapper(raw, encoding=encoding), "it")
    stream.write(text)
    stream.flush()
    assert raw.getvalue() == written


def test_a_handler_of_a_signal_may_print_while_the_stream_is_written():
    class Reentered(io.StringIO):
        def write(self, text: str) -> int:
            raise RuntimeError("reentrant call inside <_io.BufferedWriter>")

    EnduringStream(Reentered(), "it").write("x")


def test_the_streams_are_what_they_were_afterwards():
    before = sys.stdin, sys.stdout, sys.stderr
    with pytest.raises(ZeroDivisionError), enduring_output():
        assert isinstance(sys.stdout, EnduringStream)
        _ = 1 / 0
    assert (sys.stdin, sys.stdout, sys.stderr) == before


def test_in_python_nobody_is_sent_to_the_help_of_the_command():
    with in_python():
        assert worded("Give --config_file or --dtype=mixed. See --help.") == "Give config or dtype=mixed."
