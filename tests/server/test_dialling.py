"""Connecting to other nodes: which failures are refusals, and pauses that are cut short."""

import socket

import pytest
import trio
import trio.testing

from core.server.dialling import Dialling, is_refusal

LONG_S = 3600.0
"""A pause that no test waits for."""
WAIT_S = 10.0


class FarSide:
    """A :class:`core.server.dialling.Dialled`."""

    node = "b"

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.failures: list[str] = []
        self.tried = trio.Event()

    def make(self, info, touch, tunnel=None):
        raise NotImplementedError

    def failed(self, why: str) -> None:
        self.failures.append(why)
        self.tried.set()


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


async def dialled(connection: FarSide, pause: float, *, hurry: str = "") -> list[tuple[str, str, int]]:
    """Try to connect once. Returns what was said of refusals."""
    refusals: list[tuple[str, str, int]] = []
    dialling = Dialling(lambda *connected: connected[0].close() or connection.tried.set())
    dialling.refused = lambda *refusal: refusals.append(refusal)
    with trio.fail_after(WAIT_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dialling.run, lambda: None)
            dialling(connection, pause)
            if hurry:
                await trio.testing.wait_all_tasks_blocked()
                assert not connection.tried.is_set()
                dialling.hurry("another")
                dialling.hurry(hurry)
            await connection.tried.wait()
            nursery.cancel_scope.cancel()
    return refusals


async def test_an_address_that_refuses_is_told():
    connection = FarSide("127.0.0.1", closed_port())
    assert await dialled(connection, 0.0) == [("b", "127.0.0.1", connection.port)]
    assert len(connection.failures) == 1


async def test_a_host_of_which_all_addresses_refuse_refuses():
    connection = FarSide("localhost", closed_port())
    assert await dialled(connection, 0.0) == [("b", "localhost", connection.port)]


async def test_an_address_that_accepts_is_no_refusal():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection = FarSide("127.0.0.1", listening.getsockname()[1])
        assert await dialled(connection, 0.0) == []
    assert connection.failures == []


async def test_a_pause_ends_when_the_node_is_back():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        connection = FarSide("127.0.0.1", listening.getsockname()[1])
        await dialled(connection, LONG_S, hurry="b")


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError("it does not answer"),
        ConnectionResetError("reset"),
        OSError("no route to host"),
    ],
)
def test_other_failures_are_no_refusals(error):
    assert not is_refusal(error)


def test_one_address_of_several_that_does_not_answer_makes_it_no_refusal():
    both = OSError("all attempts to connect have failed")
    both.__cause__ = ExceptionGroup("", [ConnectionRefusedError(), TimeoutError()])
    assert not is_refusal(both)
    both.__cause__ = ExceptionGroup("", [ConnectionRefusedError(), ConnectionRefusedError()])
    assert is_refusal(both)
