"""The certificates of the broker: what is checked before one is taken, the choice by host name, and changes."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import structlog
import trio
import trio.testing
from structlog.testing import LogCapture

from amqp10.cli.trial_certificates import new_client
from core.config.tls import TlsSettings
from core.errors import Invalid
from core.server.certificates import Certificates
from core.server.tls import TlsFailed
from tests.kit.certificates import Trial

DAY = 86_400.0


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial.make(tmp_path)


@pytest.fixture
def log() -> LogCapture:
    return LogCapture()


Opened = Callable[..., Certificates]


@pytest.fixture
def opened(log: LogCapture) -> Opened:
    def make(settings: TlsSettings, wall: float | None = None) -> Certificates:
        now = datetime.now(UTC).timestamp() if wall is None else wall
        return Certificates(settings, wall=lambda: now, log=structlog.wrap_logger(None, processors=[log]))

    return make


def served(
    certificates: Certificates,
    client: ssl.SSLContext,
    name: str = "localhost",
    session: ssl.SSLSession | None = None,
) -> ssl.SSLObject:
    """A client's side after a handshake in memory."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client.wrap_bio(incoming, outgoing, server_hostname=name, session=session)
    tunnel = certificates.new_tunnel()
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            tunnel.receive_handshake(outgoing.read())
            tunnel.shake()
            incoming.write(tunnel.take_output())
            continue
        tunnel.receive_handshake(outgoing.read())
        assert tunnel.shake()
        return tls


def serial(tls: ssl.SSLObject) -> object:
    return (tls.getpeercert() or {})["serialNumber"]


def test_what_is_known_of_a_certificate(trial: Trial, opened: Opened):
    (row,) = opened(trial.settings()).rows()
    assert row["identity"] == "default"
    assert row["subject"] == "CN=localhost,O=Headgate trial"
    assert row["issuer"] == "CN=Headgate trial authority,O=Headgate trial"
    assert row["host_names"] == ["localhost", "127.0.0.1"]
    assert row["problem"] is None
    assert row["days_left"] == pytest.approx(90, abs=0.1)


def test_without_a_certificate_there_is_nothing_to_load(opened: Opened):
    certificates = opened(TlsSettings())
    assert not certificates.configured
    assert certificates.rows() == []
    certificates.reload()
    certificates.look()


@pytest.mark.parametrize("kind", ["missing", "other key", "no PEM", "pass phrase", "of a client", "client_ca"])
def test_files_that_cannot_be_used_are_named(trial: Trial, opened: Opened, kind: str):
    settings = trial.settings()
    match kind:
        case "missing":
            Path(trial.path("server.key")).unlink()
            said = "cannot read tls.key .*server.key: No such file or directory"
        case "other key":
            trial.write_server(name="other")
            settings = trial.settings(key=trial.path("other.key"))
            said = "the key .*other.key is not the key of the certificate .*server.pem"
        case "no PEM":
            Path(trial.path("server.pem")).write_text("certificate")
            said = "are no PEM files of a certificate and its key"
        case "pass phrase":
            from cryptography.hazmat.primitives import serialization as form

            encrypted = trial.write_server().key.private_bytes(
                form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"secret")
            )
            Path(trial.path("server.key")).write_bytes(encrypted)
            said = "has a pass phrase"
        case "of a client":
            client = new_client(trial.authority, "alice", days=1)
            Path(trial.path("server.pem")).write_bytes(client.certificate_pem)
            Path(trial.path("server.key")).write_bytes(client.key_pem)
            said = "is no certificate of a server"
        case _:
            settings = trial.asking()
            Path(trial.path("ca.pem")).write_text("authority")
            said = "tls.client_ca .*ca.pem: is no PEM file of certificates"
    with pytest.raises(Invalid, match=said):
        opened(settings)


@pytest.mark.parametrize(
    ("later", "problem"),
    [(92.5, "it has expired 2.5 days ago"), (80.0, "it expires in 10.0 days"), (59.0, None)],
)
def test_dates_are_a_problem_and_no_obstacle(
    trial: Trial, opened: Opened, log: LogCapture, later: float, problem: str | None
):
    certificates = opened(trial.settings(), datetime.now(UTC).timestamp() + later * DAY)
    certificates.warn()
    found = certificates.rows()[0]["problem"]
    if problem is None:
        assert (found, log.entries) == (None, [])
    else:
        assert str(found).startswith(problem)
        assert log.entries[0]["event"] == "certificate-expires"


def test_a_certificate_that_is_not_valid_yet_is_a_problem(trial: Trial, opened: Opened):
    trial.write_server(now=datetime.now(UTC) + timedelta(days=2))
    (problem,) = opened(trial.settings()).problems
    assert "is the clock right?" in problem


def test_a_host_name_chooses_its_certificate(trial: Trial, opened: Opened):
    own = trial.write_server()
    other = trial.write_server(["broker.example.org"], name="other")
    wild = trial.write_server(["*.example.net"], name="wild")
    sni = [
        {"name": name, "certificate": trial.path(f"{file}.pem"), "key": trial.path(f"{file}.key")}
        for name, file in (("broker.example.org", "other"), ("*.example.net", "wild"))
    ]
    certificates = opened(trial.settings(sni=sni))
    expected = {"localhost": own, "broker.example.org": other, "BROKER.example.org": other, "a.example.net": wild}
    for name, signed in expected.items():
        assert int(str(serial(served(certificates, trial.context(), name))), 16) == signed.certificate.serial_number
    assert [row["identity"] for row in certificates.rows()] == ["default", "broker.example.org", "*.example.net"]


def test_alpn_is_offered_and_not_required(trial: Trial, opened: Opened):
    certificates = opened(trial.settings())
    for asked, agreed in ((["amqp"], "amqp"), (["h2", "amqp"], "amqp"), (["h2"], None), (None, None)):
        context = trial.context()
        if asked is not None:
            context.set_alpn_protocols(asked)
        assert served(certificates, context).selected_alpn_protocol() == agreed


def test_a_changed_certificate_is_taken_for_new_connections(trial: Trial, opened: Opened, log: LogCapture):
    certificates = opened(trial.settings())
    before = serial(served(certificates, trial.context()))
    certificates.look()
    assert log.entries == []
    trial.write_server()
    certificates.look()
    assert log.entries[0]["event"] == "certificate-reloaded"
    assert serial(served(certificates, trial.context())) != before


def test_a_failure_keeps_the_old_certificate_and_says_so_once(trial: Trial, opened: Opened, log: LogCapture):
    certificates = opened(trial.settings())
    before = serial(served(certificates, trial.context()))
    Path(trial.path("server.key")).write_text("half of a key")
    for _ in range(4):
        certificates.look()
    (entry,) = log.entries
    assert entry["event"] == "certificate-not-reloaded"
    assert "no PEM files" in str(certificates.problems[0])
    assert serial(served(certificates, trial.context())) == before
    with pytest.raises(Invalid, match="no PEM files"):
        certificates.reload()
    trial.write_server()
    certificates.look()
    assert certificates.problems == []
    assert serial(served(certificates, trial.context())) != before


def test_a_certificate_and_its_key_may_be_replaced_one_after_the_other(trial: Trial, opened: Opened, log: LogCapture):
    certificates = opened(trial.settings())
    other = trial.write_server(name="other")
    Path(trial.path("server.pem")).write_bytes(other.certificate_pem)
    certificates.look()
    Path(trial.path("server.key")).write_bytes(other.key_pem)
    certificates.look()
    assert [entry["event"] for entry in log.entries] == ["certificate-reloaded"]


def test_other_settings_are_taken_with_a_reload(trial: Trial, opened: Opened):
    certificates = opened(trial.settings())
    old = trial.context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    served(certificates, old)
    certificates.reload(trial.settings(minimum="1.3"))
    with pytest.raises(Exception, match=r"see tls\.minimum"):
        served(certificates, old)
    with pytest.raises(Invalid, match="cannot be removed"):
        certificates.reload(TlsSettings())


async def test_what_an_operator_should_mend_is_told_at_each_look(
    trial: Trial, opened: Opened, autojump_clock: trio.testing.MockClock
):
    told: list[list[str]] = []
    certificates = opened(trial.settings())
    certificates.tell = lambda problems: told.append(list(problems))
    certificates.reload(trial.settings())
    (trial.folder / "server.key").rename(trial.folder / "moved.key")
    with trio.move_on_after(25):
        await certificates.run(lambda: None)
    assert [len(problems) for problems in told] == [0, 1, 1]
    assert "not reloaded: cannot read tls.key" in told[1][0]


def test_a_revoked_certificate_is_refused_from_the_next_look_on(trial: Trial, opened: Opened, log: LogCapture):
    alice, bob = trial.write_client("alice"), trial.write_client("bob")
    certificates = opened(trial.asking(crl=trial.write_crl(bob)))
    served(certificates, trial.context("alice"))
    with pytest.raises(TlsFailed, match="certificate revoked"):
        served(certificates, trial.context("bob"))
    trial.write_crl(alice, bob)
    certificates.look()
    assert log.entries[-1]["event"] == "certificate-reloaded"
    with pytest.raises(TlsFailed, match="certificate revoked"):
        served(certificates, trial.context("alice"))


def test_a_ticket_of_a_revoked_certificate_is_not_resumed(trial: Trial, opened: Opened):
    alice, context = trial.write_client("alice"), trial.context("alice")
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # in TLS 1.3 Python's client has the ticket only after a read
    certificates = opened(trial.asking(crl=trial.write_crl()))
    session = served(certificates, context).session
    assert served(certificates, context, session=session).session_reused
    trial.write_crl(alice)
    certificates.look()
    with pytest.raises(TlsFailed, match="certificate revoked"):
        served(certificates, context, session=session)


def test_no_certificate_of_a_client_is_accepted_with_an_expired_list(trial: Trial, opened: Opened):
    trial.write_client("alice")
    crl = trial.write_crl(days=1, now=datetime.now(UTC) - timedelta(days=3))
    with pytest.raises(TlsFailed, match="CRL has expired"):
        served(opened(trial.asking(crl=crl)), trial.context("alice"))


def test_a_list_of_revoked_certificates_must_be_one_and_needs_certificates_of_clients(trial: Trial, opened: Opened):
    with pytest.raises(Invalid, match=r"tls.crl .*ca.pem: is no PEM file of lists of revoked certificates"):
        opened(trial.asking(crl=trial.path("ca.pem")))
    with pytest.raises(ValueError, match='with crl must have client_certificate = "required" or "optional"'):
        trial.settings(crl=trial.path("ca.pem"))
