"""Notices to a service manager: what it is told and when, and that a broker without one works."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from core.server.service_notice import ServiceNotice


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The manager's end of the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


def heard(manager: socket.socket) -> list[bytes]:
    """All notices that have come."""
    notices = []
    while True:
        try:
            notices.append(manager.recv(1024))
        except BlockingIOError:
            return notices


async def run_for(seconds: float, **environment: str) -> None:
    """Run the notices of a broker that lives this long, started with this environment."""
    with trio.move_on_after(seconds):
        await ServiceNotice(environment).run(lambda: None)


@pytest.mark.parametrize("wanted", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "often"}])
async def test_the_start_and_the_stop_are_told(
    manager: socket.socket, wanted: dict[str, str], autojump_clock: MockClock
):
    await run_for(3600, NOTIFY_SOCKET=manager.getsockname(), **wanted)
    assert heard(manager) == [b"READY=1", b"STOPPING=1"]


async def test_signs_of_life_come_twice_as_often_as_wanted(manager: socket.socket, autojump_clock: MockClock):
    await run_for(46, NOTIFY_SOCKET=manager.getsockname(), WATCHDOG_USEC="30000000")
    assert heard(manager) == [b"READY=1", *[b"WATCHDOG=1"] * 3, b"STOPPING=1"]


async def test_an_abstract_name_begins_with_an_at_sign(autojump_clock: MockClock):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("")  # the kernel chooses an abstract address
        listening.setblocking(False)
        name = listening.getsockname().decode()
        await run_for(1, NOTIFY_SOCKET=f"@{name[1:]}")
        assert heard(listening) == [b"READY=1", b"STOPPING=1"]


async def test_a_manager_that_is_gone_or_was_never_there_is_not_minded(tmp_path: Path, autojump_clock: MockClock):
    await run_for(46, WATCHDOG_USEC="30000000")
    await run_for(46, WATCHDOG_USEC="30000000", NOTIFY_SOCKET=str(tmp_path / "gone"))
    assert trio.current_time() >= 92.0


async def test_a_manager_that_reads_nothing_does_not_hold_the_broker_up(
    manager: socket.socket, autojump_clock: MockClock
):
    await run_for(2000, NOTIFY_SOCKET=manager.getsockname(), WATCHDOG_USEC="2000000")
    notices = heard(manager)
    assert notices[0] == b"READY=1"
    assert len(notices) < 2000
