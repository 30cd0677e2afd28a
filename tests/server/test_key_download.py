"""The download of a key set, from servers that answer well, badly, too much, or never."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from core.server.key_download import DownloadFailed, KeyDownload
from tests.kit.tokens import key_set, oauth2

Answer = Callable[[socket.socket, bytes], None]


@contextmanager
def web_server(answer: Answer) -> Iterator[str]:
    """A server for one request, which ``answer`` gets with its head. Yields the address of the keys."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            accepted, _ = listening.accept()
            with accepted:
                head = b""
                while b"\r\n\r\n" not in head and (data := accepted.recv(4096)):
                    head += data
                answer(accepted, head)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/realm/keys?v=1"
        thread.join(10)
        assert not thread.is_alive()


def http(status: str, body: bytes = b"", *fields: str) -> Answer:
    def answer(accepted: socket.socket, head: bytes) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields, "", ""]
        accepted.sendall("\r\n".join(lines).encode() + body)

    return answer


def download(url: str, **changes: object) -> KeyDownload:
    return KeyDownload(oauth2(jwks_file=None, jwks_url=url, allow_http=True, **changes))


def test_a_key_set_is_read_with_one_plain_request():
    asked = []

    def answer(accepted: socket.socket, head: bytes) -> None:
        asked.append(head)
        http("200 OK", key_set())(accepted, head)

    with web_server(answer) as url:
        assert download(url).read() == key_set()
    assert asked[0].startswith(b"GET /realm/keys?v=1 HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (http("302 Found", b"", "Location: http://127.0.0.1:1/secret"), "redirects to 'http://127.0.0.1:1/secret'"),
        (http("404 Not Found"), "answers 404 Not Found"),
        (http("500 " + "x" * 5000), "answers 500 x{200}$"),
        (http("200 OK", b"x" * 1025), "more than 1024 bytes; oauth2.jwks_bytes_max"),
        (lambda accepted, head: accepted.sendall(b"SSH-2.0\r\n"), "BadStatusLine"),
        (lambda accepted, head: accepted.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000), "LineTooLong|Reset"),
        (lambda accepted, head: None, "RemoteDisconnected"),
        (
            lambda accepted, head: accepted.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
            "ValueError|IncompleteRead",
        ),
    ],
)
def test_bad_answers(answer: Answer, words: str):
    with web_server(answer) as url, pytest.raises(DownloadFailed, match=words):
        download(url, jwks_bytes_max=1024).read()


def test_an_endless_answer_is_not_read_to_its_end():
    def answer(accepted: socket.socket, head: bytes) -> None:
        accepted.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        sent = 0
        try:
            while sent < 2**26:
                sent += accepted.send(b"x" * 65_536)
        except OSError:
            pass
        assert sent < 2**26

    with web_server(answer) as url, pytest.raises(DownloadFailed, match="more than 4096 bytes"):
        download(url, jwks_bytes_max=4096).read()


def test_a_download_that_hangs_is_stopped_from_another_thread():
    asked, ended = threading.Event(), threading.Event()

    def answer(accepted: socket.socket, head: bytes) -> None:
        accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{")
        asked.set()
        assert ended.wait(10)

    with web_server(answer) as url:
        hanging = download(url, jwks_time_out=60.0)

        def read() -> None:
            with suppress(DownloadFailed):
                hanging.read()
            ended.set()

        thread = threading.Thread(target=read)
        thread.start()
        assert asked.wait(10)
        hanging.stop()
        thread.join(10)
    assert ended.is_set()


def test_nothing_listens_there():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(DownloadFailed, match="ConnectionRefusedError"):
        download(f"http://127.0.0.1:{port}/").read()


def test_a_file_of_authorities_that_is_none(tmp_path):
    file = tmp_path / "ca.pem"
    file.write_text("nonsense")
    with pytest.raises(DownloadFailed, match=r"oauth2\.ca_file .* cannot be used"):
        download("https://127.0.0.1:1/", ca_file=str(file)).read()
