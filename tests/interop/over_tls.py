"""Clients in other languages, Celery, and the program openssl, over TLS and mutual TLS.

They need Node.js, Go, Java, Maven, a package registry and openssl, which not every machine has. So ``make test`` leaves
them out. ``make test-ci``, which continuous integration runs, and ``make interop`` name this file. It can be named by
hand, too:

    python -m pytest tests/interop/over_tls.py
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from amqp10.blocking.connection import BlockingConnection
from amqp10.blocking.requests import BlockingManagement
from amqp10.client import Url
from core.access.passwords import hash_password
from tests.kit.broker_process import BrokerAddress, broker_process
from tests.kit.certificates import Trial

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

HERE = Path(__file__).parent
NPM_CI = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
QUEUES = ("tls-rhea", "tls-go", "tls-jms")
MAVEN = ["mvn", "--batch-mode", "--quiet", "compile", "dependency:copy-dependencies", "-DoutputDirectory=target/lib"]


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    made = Trial.make(tmp_path_factory.mktemp("tls"))
    made.write_client("alice")
    made.write_server(["broker.example.org"], name="named")
    return made


@pytest.fixture(scope="module")
def tls_broker(trial: Trial) -> Iterator[BrokerAddress]:
    """A broker that asks for certificates, with the user alice, and a second certificate for broker.example.org."""
    keys = hash_password("wonderland", salt=b"salt of the test", iterations=4096)
    named = f'certificate = "{trial.path("named.pem")}"\nkey = "{trial.path("named.key")}"'
    config = trial.write_broker_config(keys, more=f'[[tls.sni]]\nname = "broker.example.org"\n{named}')
    with broker_process("--config", config) as address:
        with BlockingConnection.open(Url.parse(f"{url_of(address)}?ca={trial.path('ca.pem')}")) as connection:
            for name in QUEUES:
                assert BlockingManagement(connection).request("PUT", f"/queues/{name}", {}).status == 201
        yield address


def url_of(address: BrokerAddress) -> str:
    return f"amqps://alice:wonderland@localhost:{address.tls_port}/"


def run(
    folder: Path, copy: Path, broker: BrokerAddress, trial: Trial, commands: Sequence[Sequence[str]], **more: str
) -> None:
    """Run commands in a copy of the folder, with the broker and the files in the environment."""
    shutil.copytree(folder, copy)
    environment = os.environ | {
        "HEADGATE_URL": url_of(broker),
        "HEADGATE_CA": trial.path("ca.pem"),
        "HEADGATE_CERTIFICATE": trial.path("alice.pem"),
        "HEADGATE_KEY": trial.path("alice.key"),
        **more,
    }
    for command in commands:
        done = subprocess.run(
            command, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        print(done.stdout)
        assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}"


def test_rhea(tls_broker: BrokerAddress, trial: Trial, tmp_path: Path):
    run(HERE / "rhea", tmp_path / "rhea", tls_broker, trial, [NPM_CI, ["node", "--test", "tls.js"]])


def test_go_amqp(tls_broker: BrokerAddress, trial: Trial, tmp_path: Path):
    command = ["go", "test", "-count=1", "-v", "-tags", "tls", "-run", "TLS", "./..."]
    run(HERE / "go_amqp", tmp_path / "go_amqp", tls_broker, trial, [command])


def test_qpid_jms(tls_broker: BrokerAddress, trial: Trial, tmp_path: Path):
    command = ["java", "-Djdk.net.hosts.file=hosts", "-cp", "target/classes:target/lib/*", "OverTls"]
    run(HERE / "qpid_jms", tmp_path / "jms", tls_broker, trial, [MAVEN, command])


def test_amqplib(tls_broker: BrokerAddress, trial: Trial, tmp_path: Path):
    run(HERE / "amqp091" / "amqplib", tmp_path / "js", tls_broker, trial, [NPM_CI, ["node", "--test", "tls.js"]])


@pytest.mark.parametrize("certified", [False, True], ids=["password", "certificate"])
def test_a_celery_application(tls_broker: BrokerAddress, trial: Trial, tmp_path: Path, certified: bool):
    """A worker and its caller, both over TLS, with results by reply queues."""
    environment = os.environ | {
        "AMQP091_BROKER": f"amqps://localhost:{tls_broker.tls_port}//" if certified else url_of(tls_broker) + "/",
        "AMQP091_CA": trial.path("ca.pem"),
        "AMQP091_TASK_QUEUE": "celery-over-tls",
        "AMQP091_TASKS": "50",
        "PYTHONPATH": str(HERE / "amqp091"),
    }
    if certified:
        environment |= {"AMQP091_CERTIFICATE": trial.path("alice.pem"), "AMQP091_KEY": trial.path("alice.key")}
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "-c", "2", "-E", "--loglevel", "WARNING"]
    with (tmp_path / "worker.log").open("w") as log:
        worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        try:
            caller = subprocess.run(
                [sys.executable, HERE / "amqp091" / "call_tasks.py"],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
        finally:
            worker.terminate()
            worker.wait(20)
    assert caller.returncode == 0, (tmp_path / "worker.log").read_text()
    assert json.loads(caller.stdout)["sums"] == "right"


# --- openssl s_client -----------------------------------------------------------------------------------------------


def s_client(broker: BrokerAddress, trial: Trial, *options: str, given: str = "") -> str:
    """What the program says about a handshake, and about what was typed into it."""
    connect = ["openssl", "s_client", "-connect", f"localhost:{broker.tls_port}", "-CAfile", trial.path("ca.pem")]
    done = subprocess.run(
        [*connect, *options],
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        errors="replace",
    )
    return done.stdout


OLD = ("-cipher", "ALL:@SECLEVEL=0")


@pytest.mark.parametrize(
    ("options", "accepted"),
    [
        (("-tls1_3",), True),
        (("-tls1_2",), True),
        (("-tls1_1", *OLD), False),
        (("-tls1", *OLD), False),
        (("-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"), True),
        (("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"), False),
        (("-tls1_2", "-cipher", "AES256-GCM-SHA384"), False),
        (("-tls1_2", "-cipher", "aNULL:eNULL:RC4:3DES:@SECLEVEL=0"), False),
    ],
)
def test_versions_and_ciphers(tls_broker: BrokerAddress, trial: Trial, options: Sequence[str], accepted: bool):
    said = s_client(tls_broker, trial, *options)
    assert ("Verify return code: 0 (ok)" in said and "Cipher is (NONE)" not in said) is accepted, said


def test_renegotiation_is_refused(tls_broker: BrokerAddress, trial: Trial):
    """The refusal leaves at once, though the protocol has nothing to say yet."""
    said = s_client(tls_broker, trial, "-tls1_2", "-state", given="R\n")
    before, asked, after = said.partition("RENEGOTIATING")
    assert "Compression: NONE" in before
    assert asked
    assert "write client hello" in after
    assert "read server hello" not in after
    assert "no renegotiation" in after, "not the end of the time for the handshake"


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_a_ticket_is_resumed(tls_broker: BrokerAddress, trial: Trial, tmp_path: Path, version: str):
    kept = str(tmp_path / "session.pem")
    given = "GET / HTTP/1.1\n\n"  # the broker answers and closes, so the ticket of TLS 1.3 has been read
    first = s_client(tls_broker, trial, version, "-sess_out", kept, "-ign_eof", given=given)
    assert "New, TLSv1" in first
    assert Path(kept).exists(), "there is a ticket"
    assert "Reused, TLSv1" in s_client(tls_broker, trial, version, "-sess_in", kept)


@pytest.mark.parametrize(
    ("asked", "name"),
    [("broker.example.org", "broker.example.org"), ("localhost", "localhost"), ("other.example", "localhost")],
)
def test_the_certificate_is_chosen_by_name(tls_broker: BrokerAddress, trial: Trial, asked: str, name: str):
    assert re.search(rf"subject=.*CN = {re.escape(name)}\b", s_client(tls_broker, trial, "-servername", asked))


@pytest.mark.parametrize(
    ("asked", "said"),
    [("amqp", "ALPN protocol: amqp"), ("h2,amqp", "ALPN protocol: amqp"), ("h2", "No ALPN negotiated")],
)
def test_alpn(tls_broker: BrokerAddress, trial: Trial, asked: str, said: str):
    assert said in s_client(tls_broker, trial, "-alpn", asked)
