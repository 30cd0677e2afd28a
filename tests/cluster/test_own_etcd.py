"""Three nodes made by ``headgate cluster init``, with certificates: each starts its etcd, and they become a cluster."""

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from amqp10.cli.exits import Exit
from amqp10.cli.free_ports import free_ports
from amqp10.cli.main import run
from core.cluster.etcd import Etcd, EtcdAway, EtcdTlsFiles
from core.config import load
from tests.kit.broker_process import READY, STOP_SECONDS
from tests.kit.command_line import run_here
from tests.kit.prepared_broker import PreparedBroker

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="needs 127.0.0.2")]

HOSTS = {"a": "127.0.0.1", "b": "127.0.0.2", "c": "127.0.0.3"}
SECONDS_MAX = 60.0
ASK_S = 3.0


@contextmanager
def broker(configuration: Path, data: Path) -> Iterator[str]:
    """A broker with this configuration; gives its URL, and ends it in order."""
    words = ["serve", "--config", str(configuration), "--admin", "off", "--data", str(data)]
    with (configuration.parent / "log").open("w") as log:
        process = PreparedBroker(*words, stderr=log.fileno())
    try:
        match = READY.search(process.stdout.readline())
        assert match is not None, (configuration.parent / "log").read_text()
        yield f"amqp://guest:guest@{match['host']}:{match['port']}"
    finally:
        process.terminate()
        try:
            assert process.wait(2 * STOP_SECONDS) == 0
        finally:
            process.kill()
            process.stdout.close()


def test_nodes_with_certificates_become_a_cluster_and_no_one_else_is_let_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    port, etcd_port = free_ports(2)
    folder = tmp_path / "nodes"
    words = [word for name, host in HOSTS.items() for word in ("--node", f"{name}={host}")]
    ports = ["--port", str(port), "--etcd-port", str(etcd_port)]
    assert run(["cluster", "init", str(folder), *words, *ports]) == 0
    assert "password" not in capsys.readouterr().out
    with ExitStack() as stack:
        urls = [
            stack.enter_context(broker(folder / name / "headgate.toml", tmp_path / f"data-{name}")) for name in HOSTS
        ]
        until = time.monotonic() + SECONDS_MAX
        while True:
            status = json.loads(run_here("cluster", "status", "--json", url=urls[0]).out)
            if all(row["leader"] for row in status["groups"]) and all(row["here"] for row in status["nodes"]):
                break
            assert time.monotonic() < until, status
        declared = run_here("queues", "declare", "orders", "--argument", "x-queue-type=quorum", url=urls[1])
        assert declared.code == 0, declared.err
        for url in urls:
            while (published := run_here("publish", "/queues/orders", f"by {url}", url=url)).code == Exit.NOT_FOUND:
                assert time.monotonic() < until, published.err  # the node has not made the queue yet
            assert published.code == 0, published.err
        consumed = run_here("consume", "/queues/orders", "--count", "3", url=urls[2])
        assert sorted(consumed.out.split("\n")) == sorted(["", *(f"by {url}" for url in urls)]), consumed.err
        settings = load(folder / "a" / "headgate.toml").cluster
        assert settings.etcd_ca is not None
        for tls in (None, EtcdTlsFiles(settings.etcd_ca, None, None)):
            with pytest.raises(EtcdAway):
                version_of(settings.etcd, tls)
        known = EtcdTlsFiles(settings.etcd_ca, settings.etcd_certificate, settings.etcd_key)
        assert re.fullmatch(r"\d+\.\d+\.\d+", version_of(settings.etcd, known))
    assert (tmp_path / "data-a" / "etcd" / "member").is_dir()


def version_of(endpoints: tuple[str, ...], tls: EtcdTlsFiles | None) -> str:
    """What the first member of etcd says with these certificates."""
    etcd = Etcd(endpoints[:1], lambda act: None, tls)
    try:
        return etcd.check(timeout_s=ASK_S)[0]
    finally:
        etcd.close()
