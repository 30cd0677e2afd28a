"""The requests of ``headgate top``, against an HTTP server that gives the answers of a test."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, TCPServer
from threading import Thread

import pytest

from amqp10.top.admin import Admin, AdminError


class Asked(StreamRequestHandler):
    """A server that answers from ``answers`` and notes what was asked."""

    def handle(self) -> None:
        """Serve one request on a connection."""
        path = self.rfile.readline().split()[1].decode()
        fields = dict(line.decode().rstrip().lower().split(": ", 1) for line in iter(self.rfile.readline, b"\r\n"))
        self.server.asked.append((path, fields.get("authorization")))
        status, body = self.server.answers.get(path, (404, {"reason": f"there is no {path}"}))
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.wfile.write(b"HTTP/1.1 %d -\r\nconnection: close\r\n\r\n%b" % (status, content))


@contextmanager
def answering(answers: dict[str, tuple[int, object]]) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """Serve until the block ends; yields the server's URL and what it has been asked."""
    with TCPServer(("127.0.0.1", 0), Asked) as server:
        server.answers, server.asked = answers, []
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", server.asked
        finally:
            server.shutdown()
            thread.join()


def test_all_pages_are_asked_for_with_the_token():
    answers = {
        "/api/headgate/links": (200, {"items": [{"identity": "a b"}], "next": "a b"}),
        "/api/headgate/links?after=a+b": (200, {"items": [{"identity": "c"}, "no row"], "next": None}),
    }
    with answering(answers) as (url, asked):
        assert Admin(url, "secret").rows("links") == [{"identity": "a b"}, {"identity": "c"}]
    assert [authorization for _, authorization in asked] == ["bearer secret"] * 2


def test_rows_and_rates_of_one_virtual_host_are_asked_for():
    answers = {
        "/api/headgate/links?vhost=a%26b": (200, {"items": [{"identity": "a"}], "next": "a"}),
        "/api/headgate/links?after=a&vhost=a%26b": (200, {"items": [{"identity": "b"}], "next": None}),
        "/api/headgate/flow-map?vhost=a%26b": (200, {"edges": []}),
    }
    with answering(answers) as (url, _):
        assert Admin(url, vhost="a&b").rows("links") == [{"identity": "a"}, {"identity": "b"}]
        assert Admin(url, vhost="a&b").flow_map() == {"edges": []}


def test_an_identity_is_one_segment():
    with answering({"/api/headgate/why/links/c1%2F0%2F0": (200, {"waits": False})}) as (url, asked):
        assert Admin(url).why("links", "c1/0/0") == {"waits": False}
    assert asked[0][1] is None


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        ((404, {"reason": "there is no link"}), 404, "there is no link"),
        ((401, {"reason": "unauthorized"}), 401, "--token-file"),
        ((500, b"<html>"), 500, "answered 500"),
        ((200, b"<html>"), 0, "does not answer as an admin server does"),
        ((200, [1, 2]), 0, "does not answer as an admin server does"),
    ],
)
def test_other_answers_are_told(answer: tuple[int, object], status: int, text: str):
    with answering({"/api/headgate/status": answer}) as (url, _), pytest.raises(AdminError, match=text) as caught:
        Admin(url).get("status")
    assert caught.value.status == status


def test_no_answer_is_told():
    with answering({}) as (url, _):
        pass
    with pytest.raises(AdminError, match="does not answer") as caught:
        Admin(url).get("status")
    assert caught.value.status == 0


@pytest.mark.parametrize("url", ["127.0.0.1:15692", "ftp://127.0.0.1", "http://", "http://127.0.0.1:none"])
def test_an_invalid_url_is_reported(url: str):
    with pytest.raises(AdminError, match="does not answer as an admin server does"):
        Admin(url).get("status")
