"""Publishers at a distance: the proxy that delays, and the measurement in a short form."""

import time
from pathlib import Path

import pytest
import trio

from amqp10.load.plan import PlannedTraffic
from bench.broker import started
from bench.delay_proxy import Way, serve
from bench.delay_proxy import main as proxy_main
from bench.distance import Point, applications, compared, judgements, line, main, one_run
from bench.results import Entry, Results
from bench.run import HEADGATE

SOME = bytes(range(256)) * 4000


@pytest.mark.parametrize(("round_trip", "jitter"), [(0.0, 0.0), (0.0113, 0.0), (0.0, 0.01), (0.002, 0.02)])
def test_the_proxy_delays_bytes_and_changes_none(round_trip: float, jitter: float) -> None:
    async def echo(stream: trio.SocketStream) -> None:
        async for data in stream:
            await stream.send_all(data)
        await stream.send_eof()

    async def talk() -> tuple[float, bytes]:
        async with trio.open_nursery() as nursery:
            [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, echo, [listener])
            to = ("127.0.0.1", listener.socket.getsockname()[1])
            port = await serve(("127.0.0.1", 0), to, Way(round_trip / 2, jitter), nursery)
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
    assert "timed" not in PlannedTraffic().parameters()


def test_a_far_publisher_is_measured() -> None:
    with started(HEADGATE, configuration='[amqp10]\nflow = "adaptive"\n') as broker:
        found = one_run(broker, Point(20.0, 1, 12), "far", seconds=0.3)
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


def measured(round_trip: float, links: int, queue_type: str = "classic", **rates: float) -> list[Entry]:
    point = Point(round_trip, links, 12, queue_type)
    return [
        Entry(scenario=str(point), parameters=point.parameters(), broker=name, runs=({"rate": rate, "void": ""},))
        for name, rate in rates.items()
    ]


def test_goals_are_judged_where_they_hold() -> None:
    entries = [
        *measured(0.0, 1, fixed=100.0, adaptive=94.0),
        *measured(2.0, 1, fixed=10.0, adaptive=50.0, rabbit=9.0),
        *measured(50.0, 1, "quorum", fixed=10.0, adaptive=51.0),
        *measured(0.5, 1, fixed=10.0, adaptive=10.0),
        *measured(0.0, 32, fixed=100.0, adaptive=100.0),
        *measured(50.0, 32, fixed=10.0, adaptive=79.0),
        *measured(100.0, 32, fixed=10.0, adaptive=10.0),
        *measured(2.0, 32, "quorum", fixed=10.0, adaptive=10.0),  # its rate at 0 ms was not measured
    ]
    judged = judgements(entries)
    assert [(point.round_trip, point.links, judgement.met, judgement.than) for point, judgement in judged] == [
        (0.0, 1, False, "times fixed"),
        (2.0, 1, True, "times fixed"),
        (2.0, 1, False, "times rabbit"),
        (50.0, 1, True, "times fixed"),
        (0.0, 32, True, "times fixed"),
        (50.0, 32, False, "times its rate at 0 ms"),
    ]


def test_parts_are_judged_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [measured(0.0, 32, fixed=100.0, adaptive=100.0), measured(50.0, 32, fixed=10.0, adaptive=81.0)]
    files = [tmp_path / f"{number}.json" for number in range(2)]
    for file, entries in zip(files, parts, strict=True):
        Results(environment={}, warm_up_seconds=0.0, entries=tuple(entries)).write(file)
    assert main(["--judge", *map(str, files)]) == 0
    assert "2 of 2 goals are met" in capsys.readouterr().out
    void = Entry(scenario="s", parameters=Point(0.0, 1, 12).parameters(), broker="adaptive", runs=({"void": "lost"},))
    Results(environment={}, warm_up_seconds=0.0, entries=(void, *measured(0.0, 1, fixed=1.0))).write(files[0])
    assert main(["--judge", str(files[0])]) == 1
    assert "NOT JUDGED" in capsys.readouterr().out
    files[0].write_text("{}")
    assert main(["--judge", str(files[0])]) == 2
    assert "cannot judge" in capsys.readouterr().err


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
