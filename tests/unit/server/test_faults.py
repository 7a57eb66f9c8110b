"""Faulty clients at a server that listens: each gets a sentence or nothing, and others are answered as before."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import soundfile

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from open_seq2seq.models.speech2text.speech2text import Recognition  # noqa: E402
from open_seq2seq.models.text2text.translations import Translation, Translations  # noqa: E402
from open_seq2seq.server.command import serve  # noqa: E402
from tests.unit.server.repeating import Repeating  # noqa: E402

MARKUP = "<script>alert('1')</script>"
KEY = "ключ-secret"
HOST_TRACES = ("Traceback", "site-packages", "open_seq2seq/", "/root", "/tmp", "/work", "root:x:")


MODELS = {"en-de": Repeating("translate", lambda text: Translations([Translation(-1.0, text)], [1], None)),
          "asr": Repeating("transcribe", lambda recording: Recognition(MARKUP, []), False)}


@contextlib.contextmanager
def serving(**options: Any) -> Iterator[int]:
    """Runs a server; yields its port."""
    limits = {"seconds": 60.0, "audio_seconds": 60.0, "characters": 20_000, "megabytes": 2.0, **options}
    server = serve(MODELS, **limits)
    try:
        yield int(server.url.rsplit(":", 1)[1])
    finally:
        server.stop()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as port:
        yield port


@pytest.fixture(scope="module")
def hasty() -> Iterator[int]:
    """The port of a server that waits for a second; a busy machine may need as long for what is no fault."""
    with serving(seconds=1.0) as port:
        yield port


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def read(connection: socket.socket) -> tuple[int, bytes, bytes]:
    """Returns status, head and body of an answer; status 0 if the connection ends without one."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            found += piece
    head, _, body = found.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, head, body


def raw(port: int, content: bytes) -> tuple[int, bytes, bytes]:
    with connected(port) as connection:
        connection.sendall(content)
        return read(connection)


def asked(port: int, path: str = "/translate", body: bytes = b"", *headers: str,
          method: str = "POST") -> tuple[int, bytes, bytes]:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(body)}",
             *headers]
    return raw(port, "\r\n".join([*lines, "", ""]).encode() + body)


def translation(**fields: Any) -> bytes:
    return json.dumps({"q": "a b", "source": "en", "target": "de", **fields}).encode()


def check_lives(port: int, key: str = "") -> None:
    status, _, body = asked(port, "/translate", translation(api_key=key))
    assert (status, json.loads(body)) == (200, {"translatedText": "a b"})


def check_sentence(answer: tuple[int, bytes, bytes], *statuses: int) -> str:
    """Checks that an answer is one sentence without anything of the host; returns it."""
    status, _, body = answer
    assert status in statuses, answer
    error = json.loads(body)["error"]
    text = error["message"] if isinstance(error, dict) else error
    assert text and "\n" not in text and text[-1] == "." and len(text) < 400
    assert not [trace for trace in HOST_TRACES if trace in text]
    return text


def form(content: bytes, name: str = "x.wav", model: str = "asr") -> tuple[bytes, str]:
    """Returns the body of a form with a recording, and its header."""
    head = (f'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n{model}\r\n--b\r\n'
            f'Content-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n')
    return head.encode() + content + b"\r\n--b--\r\n", "Content-Type: multipart/form-data; boundary=b"


def sound(samples: np.ndarray, rate: int = 8000, kind: str = "WAV", subtype: str = "FLOAT") -> bytes:
    content = io.BytesIO()
    soundfile.write(content, samples, rate, subtype, format=kind)
    return content.getvalue()


def test_a_body_of_100_mb_is_refused_before_it_is_read(port):
    begin = b"POST /v1/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n"
    assert "larger than 2 MB" in check_sentence(raw(port, begin), 413)
    piece, count = b"%x\r\n" % (1 << 16) + b"x" * (1 << 16) + b"\r\n", 0
    with connected(port) as connection, contextlib.suppress(OSError):
        connection.sendall(b"POST /v1/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        while count < 1600:
            connection.sendall(piece)
            count += 1
    assert count * len(piece) < 30e6  # the rest had no reader: what lies in the buffers of the sockets is lost
    check_lives(port)


def test_a_body_that_trickles_and_one_that_stops(hasty):
    begin = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
    assert "did not arrive within 1 s" in check_sentence(raw(hasty, begin), 408)
    with connected(hasty) as connection:
        connection.sendall(begin)
        with contextlib.suppress(OSError):
            for _ in range(14):
                time.sleep(0.1)
                connection.sendall(b" ")
        assert read(connection)[0] in (408, 0)
    check_lives(hasty)


def test_half_closed_and_closed_connections_leave_no_request_behind():
    begin = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"
    with serving(requests=4) as port:
        for half in (True, False) * 10:  # more than the requests at a time
            with connected(port) as connection:
                connection.sendall(begin)
                if half:
                    connection.shutdown(socket.SHUT_WR)
                    assert read(connection)[0] in (0, 400)
        deadline = time.monotonic() + 60
        while asked(port, "/languages", method="GET")[0] == 429 and time.monotonic() < deadline:
            time.sleep(0.02)
        check_lives(port)


def test_clients_that_hesitate_lose_their_connections(hasty):
    """Those that send nothing, half a head, a head letter by letter, or nothing more after an answer."""
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    starts = [b""] * 200 + [whole[:30]] * 5 + [whole] * 5 + [whole + whole[:30]] * 5
    with contextlib.ExitStack() as stack:
        connections = []
        for start in starts:
            connections.append(stack.enter_context(connected(hasty)))
            connections[-1].sendall(start)
        slow = stack.enter_context(connected(hasty))
        with contextlib.suppress(OSError):
            for number in range(200):  # until the server ends the connection
                slow.sendall(b"GET /" if number == 0 else b"x")
                time.sleep(0.05)
        assert number < 199
        statuses = [read(connection)[0] for connection in connections]
    assert statuses == [200 if start.startswith(whole) else 0 for start in starts]
    check_lives(hasty)


def test_a_client_that_does_not_read_a_long_answer_loses_its_connection():
    text, head = "x" * 15_000_000, b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
    with serving(requests=1, characters=len(text), megabytes=20.0, seconds=1.0) as port, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)  # so that the answer does not fit into buffers
        deaf.connect(("127.0.0.1", port))
        body = translation(q=text)
        deaf.sendall(head % len(body) + body)
        while asked(port, "/languages", method="GET")[0] == 429:
            time.sleep(0.1)
        time.sleep(2.0)  # the server waits for one second
        assert len(read(deaf)[2]) < len(text)
        check_lives(port)


def test_a_client_that_closes_its_half_gets_the_answer_to_a_whole_request(port):
    body = translation()
    with connected(port) as connection:
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body))
        connection.sendall(body)
        connection.shutdown(socket.SHUT_WR)
        status, _, answer = read(connection)
    assert (status, json.loads(answer)) == (200, {"translatedText": "a b"})


@pytest.mark.long
def test_a_client_that_reads_slowly_gets_its_whole_answer():
    text, head = "x" * 15_000_000, b"POST /translate HTTP/1.1\r\nHost: localhost\r\nConnection: %s\r\n"
    with serving(characters=len(text), megabytes=20.0, seconds=2.0) as port:
        for connection in (b"close", b"keep-alive"):
            with socket.socket() as slow:
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
                slow.connect(("127.0.0.1", port))
                body = translation(q=text)
                slow.sendall(head % connection + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                count = 0
                while piece := slow.recv(1 << 13):
                    count += len(piece)
                    time.sleep(0.04 if count < 800_000 else 0.0)  # for twice the time that the server waits
                assert count > len(text)


def test_200_connections_that_send_nothing_and_clients_that_do_not_read(port):
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(connected(port))
        for _ in range(20):
            deaf = stack.enter_context(connected(port))
            body = translation(q="x" * 19_000)
            head = b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
            deaf.sendall(head + body)
        check_lives(port)
    check_lives(port)


@pytest.mark.parametrize("content", [
    b"\x00\xff\xfe\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_what_is_no_http_ends_the_connection(port, content):
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        status, _, body = raw(port, content)
        assert status in (0, 400, 414, 431) and not [trace for trace in HOST_TRACES if trace.encode() in body]
    check_lives(port)


@pytest.mark.parametrize(("body", "statuses"), [
    (b'{"q": "\xff\xfe", "source": "en", "target": "de"}', (400,)), (b"\xff" * 100, (400,)),
    (b"[" * 200_000, (400,)), (b'{"q":' * 100_000, (400,)), (b"9" * 10_000, (400,)),
    (translation(alternatives=10**400), (400,)), (translation(q={"a": MARKUP}), (400,)),
    (translation(q="a " * 10_001), (413,)), (translation(q=["a"] * 129), (413,)), (translation(q="\ud800"), (400,)),
    (translation(source=MARKUP), (400,)), (translation(target="../../etc/passwd"), (400,))])
@pytest.mark.parametrize("path", ["/translate", "/v1/infer", "/v1/audio/speech", "/v1/completions", "/synthesize"])
def test_bad_texts_are_one_sentence_in_every_api(port, path, body, statuses):
    answer = asked(port, path, body, "Content-Type: application/json")
    check_sentence(answer, *(statuses if path == "/translate" else (400, 404)))
    assert b"application/json" in answer[1]


def test_10_000_tokens_within_the_limit_of_characters_are_answered(port):
    text = "a " * 9_999 + "a"
    status, _, body = asked(port, "/translate", translation(q=text))
    assert (status, json.loads(body)) == (200, {"translatedText": text})


BAD_SOUNDS = {
    "NaN": (sound(np.full(800, np.nan)), 400, "not finite"),
    "infinite": (sound(np.full(800, -np.inf)), 400, "not finite"),
    "one NaN at the end": (sound(np.append(np.zeros(200_000), np.nan)), 400, "not finite"),
    "FLAC of an hour of silence": (sound(np.zeros(8000 * 3600, np.int16), 8000, "FLAC", "PCM_16"), 413,
                                   "longer than 60"),
    "nothing": (b"", 400, "no recording"), "half a head": (sound(np.zeros(9))[:30], 400, "no recording"),
    "garbage": (bytes(range(256)) * 9, 400, "no recording"), "a path": (b"/etc/passwd", 400, "no recording")}


@pytest.mark.parametrize("name", BAD_SOUNDS)
def test_bad_recordings(port, name):
    content, status, message = BAD_SOUNDS[name]
    assert message in check_sentence(asked(port, "/v1/audio/transcriptions", *form(content)), status)
    check_lives(port)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "C:\\boot.ini", "a\0b", "x" * 5000, MARKUP,
                                  "%2e%2e%2f"])
def test_names_of_files_are_never_used(port, name):
    content = sound(np.zeros(800))
    answer = asked(port, "/v1/audio/transcriptions", *form(content, name))
    if len(name) > 4096:  # more than the head of a part of a form may have
        check_sentence(answer, 400)
    else:
        assert (answer[0], json.loads(answer[2])) == (200, {"text": MARKUP})
    check_sentence(asked(port, "/v1/audio/transcriptions", *form(content, name, model=name[:40])), 400, 404)


@pytest.mark.parametrize("path", [
    "/../command.py", "/..%2f..%2fsetup.py", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/..\\..\\etc\\passwd",
    "/%00",
    "/index.html%00", "/%ff%fe", "/v1/models/..%2f..%2fetc%2fpasswd", "/v1/models/%3Cscript%3E", "/" + "x/" * 2000,
    "/" + "x" * 5000, "/static/../../app.py", "/.", "/...", "http://localhost/../../etc/passwd"])
def test_paths_read_nothing_outside_the_pages(port, path):
    status, head, body = asked(port, path, method="GET")
    assert status in (400, 404) or (status in (200, 307) and path == "/."), (status, body[:200])
    assert b"root:" not in body and b"import " not in body and b"Traceback" not in body
    if status in (400, 404) and b"json" in head:
        check_sentence((status, head, body), status)
    check_lives(port)


def test_markup_is_never_sent_as_a_page(port):
    recording = sound(np.zeros(800))
    answers = [asked(port, "/translate", translation(q=MARKUP)), asked(port, "/translate", translation(target=MARKUP)),
               asked(port, "/v1/infer", json.dumps({"model": MARKUP, "inputs": [MARKUP]}).encode()),
               asked(port, "/v1/infer", json.dumps({"model": "en-de", "inputs": [MARKUP]}).encode()),
               asked(port, "/" + MARKUP.replace(" ", ""), method="GET")]
    for kind in ("json", "text", "srt", "vtt", "verbose_json"):
        body, header = form(recording)
        field = f'--b\r\nContent-Disposition: form-data; name="response_format"\r\n\r\n{kind}\r\n'.encode()
        answers.append(asked(port, "/v1/audio/transcriptions", field + body, header))
    for _, head, _ in answers:
        assert b"nosniff" in head and b"text/html" not in head and b"content-security-policy" in head
    assert sum(MARKUP.encode() in body for _, _, body in answers) >= 4  # texts themselves are not changed


def test_wrong_keys():
    infer = json.dumps({"model": "en-de", "inputs": ["a"]}).encode()
    wrong = [(), ("Authorization: Bearer",), ("Authorization: Bearer ",), ("Authorization: Basic c2VjcmV0",),
             ("Authorization: Bearer wrong",), ("X-Api-Key: wrong",), ("Authorization: Bearer " + "x" * 10_000,)]
    with serving(api_key="secret") as port:
        for headers in wrong:
            for path, method in (("/v1/infer", "POST"), ("/v1/models", "GET"), ("/v1/audio/speech", "POST"),
                                 ("/languages", "GET"), ("/voices", "GET"), ("/%761/models", "GET"),
                                 ("http://localhost/v1/models", "GET"), ("/v1/models?api_key=secret", "GET")):
                text = check_sentence(asked(port, path, infer, *headers, method=method), 401, 404)
                assert "secret" not in text
        for key in ("", "wrong", None, ["secret"], {"secret": 1}, True, "secret\0", "\ud800"):
            check_sentence(asked(port, "/translate", translation(api_key=key)), 403)
        for path in ("//v1/models", "/V1/models", "/v1/../v1/models", "/v1/models/"):
            assert asked(port, path, method="GET")[0] in (307, 401, 404)
        check_lives(port, "secret")
        assert asked(port, "/v1/infer", infer, "Authorization: bearer secret")[0] == 200


def test_a_key_of_other_letters_is_compared_as_it_is():
    with serving(api_key=KEY) as port:
        check_sentence(asked(port, "/translate", translation(api_key="????-secret")), 403)
        check_lives(port, KEY)
        assert asked(port, "/v1/models", b"", f"Authorization: Bearer {KEY}", method="GET")[0] == 200
