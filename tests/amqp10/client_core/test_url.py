"""The URL of a broker: what its parts mean, and which texts are refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.client import BadUrl, Url
from amqp10.client_core.url import TlsFiles

CA = TlsFiles(ca="/etc/ca.pem")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("amqp://localhost", Url(host="localhost")),
        ("amqp://localhost:1234", Url(host="localhost", port=1234)),
        ("amqp://guest:guest@127.0.0.1:5672", Url(host="127.0.0.1", user="guest", password="guest")),
        ("amqp://alice@host", Url(host="host", user="alice")),
        ("amqp://a%40b:p%2Fq%3A@host/", Url(host="host", user="a@b", password="p/q:")),
        ("amqp://[::1]:5673", Url(host="::1", port=5673)),
        ("amqp://host/%2F", Url(host="host", virtual_host="/")),
        ("amqp://host/tests", Url(host="host", virtual_host="tests")),
        ("amqps://host", Url(host="host", port=5671, tls=TlsFiles())),
        ("amqps://a@host:1/tests?ca=/etc/ca.pem", Url(host="host", port=1, user="a", virtual_host="tests", tls=CA)),
        (
            "amqps://host/?certificate=c%20d.pem&key=k.pem",
            Url(host="host", port=5671, tls=TlsFiles(certificate="c d.pem", key="k.pem")),
        ),
    ],
)
def test_what_a_url_means(text, url):
    assert Url.parse(text) == url
    assert Url.parse(str(url)) == replace(url, password="")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("localhost", "must be of the form amqp://USER:PASSWORD@HOST:PORT"),
        ("", "must be of the form"),
        ("http://localhost", "must be of the form"),
        ("amqp://", "must be of the form"),
        ("amqp://:5672", "must be of the form"),
        ("amqp://host:port", "with a port from 0 to 65535"),
        ("amqp://host:99999", "with a port from 0 to 65535"),
        ("amqp://host?heartbeat=5", "no query"),
        ("amqp://[::1", "no URL"),
        ("amqps://host?verify=off", "files only"),
        ("amqps://host?ca=a&ca=b", "each once"),
        ("amqps://host?ca=", "files only"),
        ("amqps://host?key=k.pem", "needs its certificate"),
    ],
)
def test_what_is_no_url_of_a_broker(text, complaint):
    with pytest.raises(BadUrl, match=complaint):
        Url.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "amqp://guest:s3cret",
        "amqp://guest:s3cret/x@host",
        "amqps://guest:s3cret@host?s3cret=s3c",
        "amqp://guest:s3cret@host?s3cret",
    ],
)
def test_a_complaint_repeats_no_piece_of_a_password(text):
    with pytest.raises(BadUrl) as caught:
        Url.parse(text)
    assert "s3c" not in str(caught.value)


def test_what_the_open_says_as_its_hostname():
    assert Url.parse("amqp://example.org").hostname == "example.org"
    assert Url.parse("amqp://example.org/tests").hostname == "vhost:tests"


@given(st.text(min_size=1), st.text(), st.text(min_size=1))
def test_a_url_is_shown_without_its_password_and_reads_the_same_otherwise(user, password, virtual_host):
    url = Url(host="::1", port=1, user=user, password=password, virtual_host=virtual_host)
    assert password not in repr(url) or password in repr(Url(host="::1", port=1, user=user, virtual_host=virtual_host))
    read = Url.parse(str(url))
    assert (read.host, read.port, read.user, read.virtual_host) == ("::1", 1, user, virtual_host)
    assert read.password == ""
