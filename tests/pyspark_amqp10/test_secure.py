"""Logins over TLS: a certificate, SCRAM, tokens that are renewed; and that no secret gets where Spark could show it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from amqp10.client_core.errors import NotEncrypted, NotLetIn
from amqp10.client_core.url import TlsFiles
from core.access.passwords import hash_password
from pyspark_amqp10.errors import BadOption
from pyspark_amqp10.login import TOKEN_BYTES_MAX, TOKEN_USER, Login
from pyspark_amqp10.options import SourceOptions
from tests.kit.broker_process import broker_process
from tests.kit.certificates import Trial
from tests.kit.tokens import BROKER, ISSUER, key_set, make_token

PASSWORD = "correct horse"
HOUR_S = 3600


@dataclass(frozen=True)
class Broker:
    """A broker whose port with TLS asks for certificates and takes passwords or tokens."""

    trial: Trial
    url: str


def broker_of(trial: Trial, *more: str) -> Iterator[Broker]:
    config = trial.write_broker_config(hash_password(PASSWORD, salt=b"salt of the test", iterations=4096))
    with Path(config).open("a") as file:
        file.write("\n".join(more))
    with broker_process("--config", config) as address:
        yield Broker(trial, f"amqps://localhost:{address.tls_port}")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    trial = Trial.make(tmp_path_factory.mktemp("tls"))
    trial.write_client("alice")
    yield from broker_of(trial)


@pytest.fixture(scope="module")
def token_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    trial = Trial.make(tmp_path_factory.mktemp("tokens"))
    Path(trial.path("keys.json")).write_bytes(key_set())
    yield from broker_of(
        trial,
        "[oauth2]",
        f'resource_server_id = "{BROKER}"',
        f'issuer = "{ISSUER}"',
        f'jwks_file = "{trial.path("keys.json")}"',
    )


def options(broker: Broker, **given: str) -> SourceOptions:
    return SourceOptions.read({"url": broker.url, "ca": broker.trial.path("ca.pem"), "address": "/queues/q"} | given)


def connects(login: Login) -> None:
    with login.connect() as connection:
        assert connection.failure is None


def test_a_certificate_is_a_login(broker: Broker):
    files = {"certificate": broker.trial.path("alice.pem"), "key": broker.trial.path("alice.key")}
    connects(options(broker, **files).login)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN", "scram-sha-256, plain"])
def test_a_password_is_a_login_with_each_mechanism(broker: Broker, tmp_path: Path, mechanism: str):
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    given = {"user": "alice", "passwordFile": str(file), "mechanisms": mechanism}
    connects(options(broker, **given).login)
    file.write_text("wrong")
    with pytest.raises(NotLetIn) as caught:
        connects(options(broker, **given).login)
    assert file.read_text() not in str(caught.value).replace("wrong credentials", "")


def test_a_broker_that_is_not_trusted_gets_no_password(broker: Broker, tmp_path: Path):
    (tmp_path / "password").write_text(PASSWORD)
    login = Login.parse(broker.url, user="alice", password_file=str(tmp_path / "password"))
    with pytest.raises(NotEncrypted, match="the broker's certificate is not accepted"):
        connects(login)


def test_a_token_is_read_again_for_each_connection(token_broker: Broker, tmp_path: Path):
    file = tmp_path / "token"
    login = options(token_broker, tokenFile=str(file)).login
    file.write_text(make_token(exp=time.time() + HOUR_S))
    connects(login)
    expired = make_token(exp=time.time() - HOUR_S)
    file.write_text(expired)
    with pytest.raises(NotLetIn) as caught:
        connects(login)
    assert expired not in str(caught.value)
    file.write_text(make_token(exp=time.time() + HOUR_S))
    connects(login)


def test_no_secret_is_in_what_spark_shows(tmp_path: Path):
    file = tmp_path / "token"
    file.write_text("s3cret")
    read = SourceOptions.read({"url": "amqps://broker", "ca": "ca.pem", "tokenFile": str(file), "address": "/queues/q"})
    assert read.login.password() == "s3cret"
    assert "s3cret" not in repr(read)
    assert read.login.url.tls == TlsFiles(ca="ca.pem")
    assert (read.login.url.user, read.login.mechanisms) == (TOKEN_USER, ("PLAIN",))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"url": "amqp://b", "ca": "f"}, "options ca, certificate, key are for TLS: write amqps:// in option url"),
        ({"url": "amqps://b/?ca=g", "ca": "f"}, "option url names ca, and so does option ca: keep one of them"),
        ({"url": "amqps://b", "key": "f"}, "option key needs option certificate beside it"),
        ({"url": "amqps://b", "tokenFile": "t", "passwordFile": "p"}, "tokenFile and passwordFile exclude each other"),
        ({"url": "amqp://b", "tokenFile": "t"}, "option tokenFile needs TLS"),
        ({"url": "amqps://b", "tokenFile": "t", "mechanisms": "SCRAM-SHA-256"}, "needs the SASL mechanism PLAIN"),
        ({"url": "amqps://b", "mechanisms": "GSSAPI"}, "it must be some of SCRAM-SHA-512, SCRAM-SHA-256, PLAIN"),
        ({"url": "amqps://b", "mechanisms": "PLAIN,PLAIN"}, "it must be some of SCRAM-SHA-512, SCRAM-SHA-256, PLAIN"),
    ],
)
def test_options_that_do_not_go_together(given: dict[str, str], complaint: str):
    with pytest.raises(BadOption, match=complaint):
        SourceOptions.read({"address": "/queues/q"} | given)


def test_a_token_may_go_to_this_machine_without_tls():
    assert Login.parse("amqp://127.0.0.1", token_file="t").url.user == TOKEN_USER


def test_a_file_that_is_too_long_is_no_token(tmp_path: Path):
    (tmp_path / "token").write_bytes(b"x" * (TOKEN_BYTES_MAX + 1))
    with pytest.raises(BadOption, match=f"option tokenFile: .* has more than {TOKEN_BYTES_MAX} bytes"):
        Login.parse("amqps://b", token_file=str(tmp_path / "token")).password()
