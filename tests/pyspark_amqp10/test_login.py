"""Where a broker is, and that a password never gets where Spark could show it."""

from pathlib import Path

import pytest

from amqp10.client_core.url import Url
from pyspark_amqp10.errors import BadOption
from pyspark_amqp10.login import PASSWORD_BYTES_MAX, Login


def test_a_url_without_anything_but_a_host():
    login = Login.parse("amqp://broker.example")
    url = login.url
    assert (url.host, url.port, url.virtual_host, url.user) == ("broker.example", 5672, None, None)
    assert login.url.hostname == "broker.example"


def test_a_url_with_everything_that_it_may_have():
    login = Login.parse("amqp://spark%40shop@[::1]:5673/my%2Fshop")
    url = login.url
    assert (url.host, url.port, url.virtual_host, url.user) == ("::1", 5673, "my/shop", "spark@shop")
    assert login.url.place == "[::1]:5673"
    assert login.url.hostname == "vhost:my/shop"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("amqps://broker?verify=no", "has files only"),
        ("http://broker", "option url must be of the form amqp://HOST:PORT"),
        ("broker:5672", "must be of the form amqp://HOST:PORT"),
        ("amqp://broker:many", "option url is no URL of the form amqp://HOST:PORT"),
        ("amqp://broker?x=1", "its form is"),
    ],
)
def test_a_url_that_is_none_of_ours(url: str, said: str):
    with pytest.raises(BadOption) as caught:
        Login.parse(url)
    assert said in str(caught.value)


@pytest.mark.parametrize("url", ["amqp://guest:s3cret", "amqp://guest:s3/cret@broker", "amqps://guest:s3cret@broker"])
def test_a_password_in_a_wrong_url_is_not_repeated(url: str):
    with pytest.raises(BadOption) as caught:
        Login.parse(url)
    assert "s3" not in str(caught.value)


def test_a_password_in_the_url_is_refused_and_not_repeated():
    with pytest.raises(BadOption) as caught:
        Login.parse("amqp://guest:s3cret@broker")
    assert "passwordFile" in str(caught.value)
    assert "AMQP10_PASSWORD" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_two_users_are_one_too_many():
    with pytest.raises(BadOption, match="keep one of them"):
        Login.parse("amqp://a@broker", user="b")
    assert Login.parse("amqp://a@broker", user="a").url.user == "a"


def test_the_password_comes_from_the_file_before_the_environment(tmp_path: Path):
    file = tmp_path / "password"
    file.write_text("from the file\nand a second line\n")
    environment = {"AMQP10_PASSWORD": "from the environment"}
    assert Login(url=Url(host="h", user="u"), password_file=str(file)).password(environment) == "from the file"
    assert Login(url=Url(host="h", user="u")).password(environment) == "from the environment"


def test_no_password_anywhere():
    with pytest.raises(BadOption, match=r"there is no password for user 'u'.*passwordFile.*AMQP10_PASSWORD"):
        Login(url=Url(host="h", user="u")).password({})


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\n", b"x" * (PASSWORD_BYTES_MAX + 1)])
def test_a_file_that_is_no_password(tmp_path: Path, content: bytes):
    file = tmp_path / "password"
    file.write_bytes(content)
    with pytest.raises(BadOption, match="option passwordFile: "):
        Login(url=Url(host="h", user="u"), password_file=str(file)).password({})


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(BadOption, match="cannot be read: No such file or directory"):
        Login(url=Url(host="h", user="u"), password_file=str(tmp_path / "none")).password({})


def test_nothing_shows_the_password():
    login = Login.parse("amqp://u@broker", password_file="/run/secrets/broker")
    assert "password_file='/run/secrets/broker'" in repr(login)
