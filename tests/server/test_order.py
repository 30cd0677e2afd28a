"""The first node's order of changes, over real sockets: what other nodes are told, and what becomes of requests."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
import trio

from core.cluster.definitions import StateReading
from core.cluster.definitions_engine import ChangesRead
from core.engine.routing.agreement import AgreedChange, ChangeKind
from core.server.node_sockets import listen_at
from core.server.order_client import OrderClient
from core.server.order_frames import FrameReader, encoded
from core.server.order_service import OrderService
from core.store.order_database import FILE, OrderDatabase

LOG = structlog.get_logger()
WAIT_S = 5.0


def change(name: str) -> AgreedChange:
    return AgreedChange(ChangeKind.HOST, "", name)


class Client:
    """A node's side, and what it was answered."""

    def __init__(self, socket: Path) -> None:
        self._changed = trio.Event()
        self.engine = OrderClient(socket, lambda: self._changed.set())
        self.put_answers: list[ChangesRead | None] = []
        self.unanswered: list[str] = []
        self.states: list[tuple[int, list[AgreedChange]]] = []

    async def until(self, there: Callable[[], bool]) -> None:
        with trio.fail_after(WAIT_S):
            while not there():
                await self._changed.wait()
                self._changed = trio.Event()

    async def connected(self) -> None:
        await self.until(lambda: self.engine.latest is not None)

    def put(self, number: int, name: str) -> None:
        self.engine.put(
            number,
            change(name),
            number - 1,
            self.put_answers.append,
            lambda: self.unanswered.append(self.engine.trouble),
        )

    def read_state(self) -> None:
        def take(number: int, state: StateReading) -> None:
            self.states.append((number, list(state.changes())))

        self.engine.read_state(take, lambda: self.unanswered.append(self.engine.trouble))


@asynccontextmanager
async def service(folder: Path) -> AsyncIterator[None]:
    running = OrderService(folder, folder / "order.socket", LOG)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.run, lambda: None)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def clients(folder: Path, count: int) -> AsyncIterator[list[Client]]:
    made = [Client(folder / "order.socket") for _ in range(count)]
    async with trio.open_nursery() as nursery:
        for one in made:
            nursery.start_soon(one.engine.run, lambda: None)
        yield made
        nursery.cancel_scope.cancel()


async def test_of_two_changes_with_one_number_the_second_is_told_the_first(tmp_path):
    async with service(tmp_path), clients(tmp_path, 2) as (a, b):
        await a.connected()
        await b.connected()
        a.put(1, "first")
        await a.until(lambda: bool(a.put_answers))
        assert a.put_answers == [None]
        await b.until(lambda: b.engine.latest == 1)
        b.put(1, "second")
        await b.until(lambda: bool(b.put_answers))
        (read,) = b.put_answers
        assert read is not None
        assert (read.latest, [number for number, _ in read.changes]) == (1, [1])
        b.read_state()
        await b.until(lambda: bool(b.states))
        assert b.states == [(1, [change("first"), AgreedChange(ChangeKind.HOST_SETTINGS, "", "first", {})])]


async def test_a_change_is_everywhere_when_all_that_are_connected_have_made_it(tmp_path):
    async with service(tmp_path), clients(tmp_path, 2) as (a, b):
        for one in (a, b):
            await one.connected()
            one.engine.tell_made(0)
        await a.until(lambda: a.engine.everywhere == 0)
        a.put(1, "first")
        await a.until(lambda: bool(a.put_answers) and a.engine.latest == 1)
        a.engine.tell_made(1)
        await b.until(lambda: b.engine.latest == 1)
        assert a.engine.everywhere == 0
        b.engine.tell_made(1)
        await a.until(lambda: a.engine.everywhere == 1)


async def test_a_node_that_makes_no_change_is_waited_for_a_second_at_most(tmp_path):
    async with service(tmp_path), clients(tmp_path, 2) as (a, b):
        for one in (a, b):
            await one.connected()
            one.engine.tell_made(0)
        await a.until(lambda: a.engine.everywhere == 0)
        a.put(1, "first")
        await a.until(lambda: bool(a.put_answers))
        a.engine.tell_made(1)
        await a.until(lambda: a.engine.everywhere == 1)  # b never says that it has made it


async def test_what_is_asked_while_the_first_node_is_away_is_sent_when_it_is_back(tmp_path):
    async with clients(tmp_path, 1) as (a,):
        a.put(1, "first")
        async with service(tmp_path):
            await a.until(lambda: a.put_answers == [None])
        await a.until(lambda: a.engine.latest is None)
        assert a.engine.trouble == "the connection is closed"
        async with service(tmp_path):
            await a.until(lambda: a.engine.latest == 1)
    assert a.unanswered == []


@pytest.mark.parametrize("landed", [False, True])
async def test_a_change_whose_answer_was_lost_is_sent_again(tmp_path, landed):
    listening = trio.socket.from_stdlib_socket(listen_at(tmp_path / "order.socket", 1))
    async with clients(tmp_path, 1) as (a,):
        accepted, _ = await listening.accept()
        async with trio.SocketStream(accepted) as stream:
            await stream.send_all(encoded("order", "first life", 0, 0))
            await a.connected()
            a.put(1, "first")
            assert (await FrameReader(stream).next())[0] == "put"
        listening.close()
        if landed:
            database = OrderDatabase(tmp_path / FILE, kept=10, identity="first life")
            database.put(1, b"first", [])
            database.close()
        async with service(tmp_path):
            await a.until(lambda: bool(a.put_answers))
    assert a.put_answers == [ChangesRead(1, [(1, b"first")]) if landed else None]
    assert a.unanswered == []


async def test_a_process_that_sends_nonsense_is_cut_off_and_others_are_served(tmp_path):
    async with service(tmp_path), clients(tmp_path, 1) as (a,):
        await a.connected()
        async with await trio.open_unix_socket(tmp_path / "order.socket") as stream:
            await stream.send_all(b"\x00\x00\x00\x02\x81\x00")
            with trio.fail_after(WAIT_S):
                while await stream.receive_some(65_536):
                    pass
        a.put(1, "first")
        await a.until(lambda: a.put_answers == [None])
