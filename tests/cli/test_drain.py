"""``headgate drain`` and ``headgate undrain``, with a broker of their own."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import trio

from amqp10.cli.exits import Exit
from amqp10.cli.free_ports import free_ports
from amqp10.cli.main import run
from amqp10.client import Message, connect
from tests.kit.broker_process import broker_process
from tests.kit.command_line import HEADGATE, Ran, run_process, start


@pytest.fixture(scope="module")
def drained_url() -> Iterator[str]:
    with broker_process() as address:
        yield address.url()


@pytest.fixture
def headgate(drained_url: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    def call(*words: str) -> Ran:
        code = run([*words, "--url", drained_url])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


def test_a_broker_without_work_may_be_stopped_at_once(headgate):
    drained = headgate("drain", "--wait", "5")
    assert drained.code is Exit.DONE
    assert drained.out == "the broker is being drained; 1 connections, 0 messages unsettled\nit may be stopped\n"
    assert "being drained" in headgate("consume", "/queues/q").err
    shown = json.loads(headgate("drain", "--json").out)
    assert (shown["draining"], shown["unsettled"]) == (True, 0)
    assert headgate("undrain").out == "the broker serves as usual\n"
    assert json.loads(headgate("undrain", "--json").out)["since"] is None


@pytest.mark.slow
def test_health_says_it_and_metrics_stay(tmp_path: Path):
    [port] = free_ports(1)
    admin = f"127.0.0.1:{port}"
    (tmp_path / "broker.toml").write_text(f'[admin]\nenabled = true\nlisten = ["{admin}"]\n')
    with broker_process("--config", str(tmp_path / "broker.toml")) as broker, httpx.Client() as client:

        def statuses() -> list[int]:
            return [
                client.get(f"http://{admin}{path}").status_code for path in ("/livez", "/readyz", "/healthz/publish")
            ]

        assert statuses() == [200, 200, 200]
        assert run(["drain", "--url", broker.url()]) is Exit.DONE
        assert statuses() == [200, 503, 503]
        assert run(["undrain", "--url", broker.url()]) is Exit.DONE
        assert statuses() == [200, 200, 200]


def test_a_time_that_cannot_be(headgate):
    assert headgate("drain", "--wait", "-1").code is Exit.USAGE


@pytest.mark.slow
async def test_what_is_not_settled_in_time_is_told(drained_url):
    def drain(wait: str) -> Ran:
        return run_process(*HEADGATE, "drain", "--wait", wait, url=drained_url)

    async with connect(drained_url) as client:
        await client.request("PUT", "/queues/unsettled", {})
        sender = await client.open_sender("/queues/unsettled")
        await sender.send(Message(body="hello"))
        receiver = await client.open_receiver("/queues/unsettled")
        delivery = await receiver.receive()
        late = await trio.to_thread.run_sync(drain, "0.3")
        assert late.code == Exit.TIMED_OUT
        assert late.out == "the broker is being drained; 2 connections, 1 messages unsettled\n"
        assert "not everything was settled within 0.3 s" in late.err
        delivery.accept()
        done = await trio.to_thread.run_sync(drain, "5")
        assert (done.code, done.out.splitlines()[-1]) == (Exit.DONE, "it may be stopped")
        await client.request("DELETE", "/headgate/drain")


@pytest.mark.slow
def test_connections_stay_and_new_ones_are_refused(headgate, drained_url):
    headgate("queues", "declare", "held")
    consume = start(*HEADGATE, "consume", "/queues/held", url=drained_url)
    try:
        headgate("publish", "/queues/held", "hello")
        assert consume.stdout.readline() == "hello\n"
        assert headgate("drain", "--wait", "5").code is Exit.DONE
        refused = headgate("publish", "/queues/held", "too late")
        assert refused.code is Exit.REFUSED
        assert "being drained" in refused.err
    finally:
        consume.kill()
        consume.communicate()
        headgate("undrain")
    assert headgate("publish", "/queues/held", "again").code is Exit.DONE
