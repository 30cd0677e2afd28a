"""Publishers at a distance: the proxy that delays, and the measurement in a short form."""

import time

import pytest
import trio

from bench.broker import started
from bench.delay_proxy import main as proxy_main
from bench.delay_proxy import serve
from bench.distance import Point, applications, compared, line, main, one_run
from bench.load.plan import Traffic
from bench.results import Entry
from bench.run import HEADGATE

SOME = bytes(range(256)) * 4000


@pytest.mark.parametrize("round_trip", [0.0, 0.0113])
def test_the_proxy_delays_bytes_and_changes_none(round_trip: float) -> None:
    async def echo(stream: trio.SocketStream) -> None:
        async for data in stream:
            await stream.send_all(data)
        await stream.send_eof()

    async def talk() -> tuple[float, bytes]:
        async with trio.open_nursery() as nursery:
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, echo, [listener])
            to = ("127.0.0.1", listener.socket.getsockname()[1])
            port = await serve(("127.0.0.1", 0), to, round_trip, nursery)
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            async with stream:
                before = time.monotonic()
                await stream.send_all(b"x")
                assert await stream.receive_some(1) == b"x"
                took = time.monotonic() - before
                nursery.start_soon(stream.send_all, SOME)
                got = b""
                while len(got) < len(SOME):
                    got += await stream.receive_some()
                await stream.send_eof()
                assert await stream.receive_some() == b""
            nursery.cancel_scope.cancel()
        return took, got

    took, got = trio.run(talk)
    assert took >= round_trip
    assert got == SOME


def test_publishers_share_a_session_and_the_consumer_is_near() -> None:
    publishers, consumers = applications(Point(50.0, 4, 12), "q")
    assert [one.shares for one in publishers] == ["nothing", "session", "session", "session"]
    assert [one.consume_from for one in consumers] == ["q"]
    assert "timed" not in Traffic().parameters()


def test_a_far_publisher_is_measured() -> None:
    with started(HEADGATE, configuration='[amqp10]\nflow = "adaptive"\n') as broker:
        found = one_run(broker, Point(20.0, 1, 12), "far", seconds=0.3, kind="classic")
    assert found["void"] == ""
    assert isinstance(found["p50_ms"], float)
    assert found["p50_ms"] >= 20


def test_a_line_has_the_figures_and_the_ratio() -> None:
    def entry(name: str, rate: float) -> Entry:
        run = {"rate": rate, "p50_ms": 20.0, "p99_ms": 21.5, "broker_cpu_us": 2.0, "void": ""}
        return Entry(scenario="s", parameters={}, broker=name, runs=(run,))

    entries = {name: entry(name, rate) for name, rate in (("fixed", 10_000.0), ("adaptive", 55_000.0))}
    assert line("fixed", entries["fixed"]).split() == [
        "fixed",
        "10,000",
        "(10,000",
        "-",
        "10,000)",
        "20.00",
        "21.50",
        "2.00",
    ]
    assert compared(entries).strip() == "adaptive: 5.5 times fixed"
    void = Entry(scenario="s", parameters={}, broker="fixed", runs=({"void": "3 lost"},))
    assert line("fixed", void).endswith("VOID: 3 lost")
    assert compared(entries | {"fixed": void}) == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--round-trips", "-1"], "--round-trips must be at least 0"),
        (["--sizes", "11"], "--sizes must be at least 12"),
        (["--runs", "0"], "--runs must be above 0"),
    ],
)
def test_a_wrong_command_line_is_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err


def test_the_proxy_refuses_what_is_no_address(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        proxy_main(["--to", "5672"])
    assert "is no host:port" in capsys.readouterr().err
