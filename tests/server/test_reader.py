"""What waits for bytes on sockets: one task over an epoll, or where there is none, a task for each socket."""

import os
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from itertools import count

import pytest
import trio
from trio.testing import MockClock

from core.clock import Now
from core.server.pump import ALLOWANCE_MIN, ALLOWANCE_OF_ALL, TURN_SECONDS_MAX, Pump
from core.server.reader import READS_MAX, SELECTABLE, EpollReader, MakeReader, Read, Reader, open_reader, task_reader
from core.server.run import read_clocks
from core.work import Work
from tests.kit.echo import HEADER, EchoBroker
from tests.kit.serving import serving, settled

PATIENCE_SECONDS = 0.001
FLOOD = 12_000_000
"""More bytes than the socket buffers of both ends take."""
BOTH = [pytest.param(open_reader, id="for this platform"), pytest.param(task_reader, id="tasks")]


class Watched:
    """One end of a socket pair that a reader watches; the test writes to the other."""

    def __init__(self, ends: tuple[socket.socket, socket.socket], diary: list[str], name: str) -> None:
        self.own, self.other = ends
        self.own.setblocking(False)
        self.name = name
        self.going_on = True
        self.takes = 100
        """How many bytes one read takes."""
        self.on_read: Callable[[], None] = lambda: None
        self._diary = diary

    def read(self, now: Now) -> bool:
        """Read, write it into the diary, and say whether to go on."""
        data = self.own.recv(self.takes)
        self._diary.append(f"{self.name}:{data.decode()}")
        self.on_read()
        return self.going_on


class Field:
    """A reader with its pump, and what happened."""

    def __init__(
        self,
        make_reader: MakeReader,
        nursery: trio.Nursery,
        stack: ExitStack,
        *,
        clock: Callable[[], Now] = read_clocks,
    ) -> None:
        self.broker = EchoBroker()
        self.work = Work()
        self.diary: list[str] = []
        pump = Pump(engine=self.broker, clock=clock, rounds_max=1, wake_at=lambda when: None, work=self.work)
        nursery.start_soon(pump.run)
        self.reader: Reader = make_reader(clock, pump, self.work, nursery)
        self.pairs: list[Watched] = []
        self._stack = stack

    def pair(self, name: str) -> Watched:
        """A socket that is not watched yet."""
        ends = socket.socketpair()
        for end in ends:
            self._stack.enter_context(end)
        self.pairs.append(Watched(ends, self.diary, name))
        return self.pairs[-1]

    def watch(self, name: str) -> Watched:
        """A socket that is watched."""
        watched = self.pair(name)
        self.reader.watch(watched.own.fileno(), watched.read)
        return watched


@pytest.fixture(params=BOTH)
async def field(request: pytest.FixtureRequest, nursery: trio.Nursery) -> AsyncIterator[Field]:
    with ExitStack() as stack:
        field = Field(request.param, nursery, stack)
        nursery.start_soon(field.reader.run)
        yield field
        nursery.cancel_scope.cancel()
        field.reader.close()


async def test_a_socket_is_read_whenever_it_has_bytes_and_a_turn_follows(field: Field):
    watched = field.watch("a")
    await settled()
    assert field.diary == []
    for turns in (1, 2):
        watched.other.send(b"x")
        await settled()
        assert field.diary == ["a:x"] * turns
        assert field.broker.turns == turns


async def test_bytes_that_one_read_leaves_are_read_by_the_next(field: Field):
    watched = field.watch("a")
    watched.takes = 2
    watched.other.send(b"12345")
    await settled()
    assert field.diary == ["a:12", "a:34", "a:5"]


async def test_sockets_that_are_ready_together_share_a_turn(field: Field):
    for name in "abc":
        field.watch(name).other.send(b"x")
    await settled()
    assert sorted(field.diary) == ["a:x", "b:x", "c:x"]
    assert field.broker.turns == 1


async def test_a_socket_is_not_read_after_a_read_that_says_so_until_it_is_watched_anew(field: Field):
    watched = field.watch("a")
    watched.going_on = False
    watched.other.send(b"1")
    await settled()
    watched.other.send(b"2")
    await settled()
    assert field.diary == ["a:1"]
    field.reader.watch(watched.own.fileno(), watched.read)
    await settled()
    assert field.diary == ["a:1", "a:2"]


async def test_the_end_of_a_peer_is_read_as_nothing(field: Field):
    watched = field.watch("a")
    watched.going_on = False
    watched.other.close()
    await settled()
    assert field.diary == ["a:"]


async def test_a_descriptor_can_be_watched_again_after_its_socket_was_closed(field: Field):
    watched = field.watch("a")
    await settled()
    descriptor = watched.own.fileno()
    field.reader.forget(descriptor)
    watched.own.close()
    again = field.watch("b")
    assert again.own.fileno() == descriptor, "the kernel gives the lowest free descriptor"
    again.other.send(b"x")
    await settled()
    assert field.diary == ["b:x"]


async def test_to_forget_a_socket_that_is_not_watched_does_nothing(field: Field):
    field.reader.forget(field.pair("a").own.fileno())
    field.watch("b").other.send(b"x")
    await settled()
    assert field.diary == ["b:x"]


async def test_sockets_are_read_on_while_one_has_always_bytes(field: Field):
    busy, other = field.watch("busy"), field.watch("other")
    busy.takes = 1
    busy.other.send(b"y" * 50)
    other.other.send(b"x")
    await settled()
    assert field.diary.index("other:x") <= 2
    assert len(field.diary) == 51


async def test_a_task_can_have_sockets_read_that_have_bytes_within_a_moment(field: Field):
    watched = field.watch("a")
    await settled()
    assert not field.reader.read_within(0.0, False)
    assert (field.diary, field.broker.turns) == ([], 0)
    watched.other.send(b"x")
    field.reader.read_within(PATIENCE_SECONDS, False) or await settled()  # where sockets have tasks, these read
    assert (field.diary, field.broker.turns) == (["a:x"], 1)
    field.reader.close()
    assert not field.reader.read_within(0.0, False)


# --- the epoll -------------------------------------------------------------------------------------------------------


@pytest.fixture
def epoll_reader() -> Iterator[Callable[..., EpollReader]]:
    """Makes an epoll reader whose passes a test makes itself."""
    made: list[EpollReader] = []

    def make(work: Work, clock: Callable[[], Now] = lambda: Now(1.0, 2.0)) -> EpollReader:
        pump = Pump(engine=EchoBroker(), clock=clock, rounds_max=1, wake_at=lambda when: None, work=work)
        made.append(EpollReader(clock=clock, pump=pump, work=work))
        return made[-1]

    yield make
    for reader in made:
        reader.close()


def watch_many(reader: Reader, number: int, read_of: Callable[[int], Read], stack: ExitStack) -> None:
    """Have so many sockets watched that always have bytes."""
    for place in range(number):
        own, other = socket.socketpair()
        stack.enter_context(own)
        stack.enter_context(other)
        other.send(b"x")
        reader.watch(own.fileno(), read_of(place))


def test_bytes_are_found_also_where_select_does_not_take_the_descriptor(epoll_reader: Callable[..., EpollReader]):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * SELECTABLE), hard))
    diary: list[str] = []
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        watched = Watched(socket.socketpair(), diary, "a")
        stack.enter_context(watched.own)
        stack.enter_context(watched.other)
        descriptor = 0
        while descriptor < SELECTABLE:
            descriptor = os.open(os.devnull, os.O_RDONLY)
            stack.callback(os.close, descriptor)
        reader = epoll_reader(Work())
        reader.watch(watched.own.fileno(), watched.read)
        assert not reader.read_within(0.0, False)
        watched.other.send(b"x")
        assert reader.read_within(0.0, False) == 1, "there is no work less than 1"
        reader.forget(watched.own.fileno())
    assert diary == ["a:x"]


def test_a_read_that_waits_all_of_its_time_finds_what_has_come(epoll_reader: Callable[..., EpollReader]):
    diary: list[str] = []
    with ExitStack() as stack:
        watched = Watched(socket.socketpair(), diary, "a")
        stack.enter_context(watched.own)
        stack.enter_context(watched.other)
        reader = epoll_reader(Work())
        reader.watch(watched.own.fileno(), watched.read)
        assert reader.read_within(0.0, True) == 0
        watched.other.send(b"x")
        assert reader.read_within(0.0, True) == 1
        reader.forget(watched.own.fileno())
    assert diary == ["a:x"]


def test_sockets_left_over_by_a_pass_come_first_in_the_next(epoll_reader: Callable[..., EpollReader]):
    reader, diary = epoll_reader(Work()), list[int]()

    def read_of(place: int) -> Read:
        def read(now: Now) -> bool:
            diary.append(place)
            return True

        return read

    number = READS_MAX + READS_MAX // 2
    with ExitStack() as stack:
        watch_many(reader, number, read_of, stack)
        for _ in range(3):
            reader.read_ready()
    assert diary == [*range(number), *range(number)]


@pytest.mark.parametrize("number", [1, 2, 100])
def test_sockets_that_are_ready_together_share_the_work_of_a_pass(
    epoll_reader: Callable[..., EpollReader], number: int
):
    work, allowances = Work(), list[int]()
    reader = epoll_reader(work)

    def read_of(place: int) -> Read:
        def read(now: Now) -> bool:
            allowances.append(work.allowance)
            return True

        return read

    with ExitStack() as stack:
        watch_many(reader, number, read_of, stack)
        reader.read_ready()
    assert allowances == [ALLOWANCE_OF_ALL // number] * number


def test_sockets_that_a_long_pass_reads_late_may_do_little(epoll_reader: Callable[..., EpollReader]):
    work, allowances = Work(), list[int]()
    times = (Now(1.0 + number * 0.4 * TURN_SECONDS_MAX, 2.0) for number in count())
    reader = epoll_reader(work, lambda: next(times))

    def read_of(place: int) -> Read:
        def read(now: Now) -> bool:
            allowances.append(work.allowance)
            return True

        return read

    with ExitStack() as stack:
        watch_many(reader, 5, read_of, stack)
        reader.read_ready()
    assert allowances == [ALLOWANCE_OF_ALL // 5] * 3 + [ALLOWANCE_MIN] * 2


async def test_sockets_are_read_before_a_turn_is_continued(nursery: trio.Nursery):
    """A peer that has sent meanwhile does not wait for the rest of the turn."""
    broker, work, turns = EchoBroker(), Work(), list[int]()
    pump = Pump(engine=broker, clock=read_clocks, rounds_max=1, wake_at=lambda when: None, work=work)
    reader = EpollReader(clock=read_clocks, pump=pump, work=work)

    def read(now: Now) -> bool:
        turns.append(broker.turns)
        return False

    with ExitStack() as stack:
        watch_many(reader, 1, lambda place: read, stack)
        pump.turn_soon(read_clocks())
        nursery.start_soon(pump.run)
        await trio.testing.wait_all_tasks_blocked()
        assert turns == [0]
        reader.close()
        pump.turn_soon(read_clocks())
        await trio.testing.wait_all_tasks_blocked()
    assert broker.turns == 2, "a reader that is closed is not asked"


def test_a_socket_that_was_closed_by_the_read_of_another_is_passed_over(epoll_reader: Callable[..., EpollReader]):
    reader, diary, ends = epoll_reader(Work()), list[str](), list[socket.socket]()

    def read(now: Now) -> bool:
        diary.append("first")
        for end in ends:
            reader.forget(end.fileno())
            end.close()
        return False

    with ExitStack() as stack:
        for _ in range(3):
            own, other = map(stack.enter_context, socket.socketpair())
            other.send(b"x")
            reader.watch(own.fileno(), read)
            ends.append(own)
        reader.read_ready()
        reader.read_ready()
    assert diary == ["first"]


# --- a whole server --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make_reader", BOTH)
async def test_a_paused_connection_that_is_reset_costs_nothing_and_ends(make_reader: MakeReader):
    """A socket that failed is always ready; it must not be read again and again while its front end does not want to
    read."""
    async with serving(make_reader) as s:
        client, front_end = await s.open()
        other, _ = await s.open()
        await client.send(b"pause\n")
        await settled()
        client.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await client.stream.aclose()
        await settled()
        turns = s.broker.turns
        await settled()
        assert s.broker.turns == turns
        await other.send(b"tell c1 go\n")
        await settled()
        assert front_end.calls[-1] == "connection_lost"
        assert len(s.server.snapshot("connections")) == 1


@pytest.mark.parametrize("make_reader", BOTH)
async def test_a_half_closed_connection_whose_output_waits_costs_nothing(make_reader: MakeReader):
    async with serving(make_reader, linger="60s") as s:
        client, _ = await s.open()
        await client.send(b"flood %d\n" % FLOOD)
        await client.stream.send_eof()
        await settled()
        turns = s.broker.turns
        await settled()
        assert s.broker.turns == turns
        rest = await client.rest()
        assert len(rest) == FLOOD
        await settled()
        assert s.server.snapshot("connections") == []


@pytest.mark.parametrize("make_reader", BOTH)
async def test_a_connection_ends_at_a_deadline_while_another_is_served(make_reader: MakeReader, mock_clock: MockClock):
    async with serving(make_reader, handshake_time_out="5s") as s:
        other, _ = await s.open()
        late = await s.connect()
        await settled()
        mock_clock.jump(5.0)
        assert await late.rest() == b""
        await other.send(b"here\n")
        await other.expect(b"here\n")


@pytest.mark.parametrize("make_reader", BOTH)
async def test_a_pause_ends_and_what_has_come_meanwhile_is_read(make_reader: MakeReader):
    async with serving(make_reader) as s:
        client, _ = await s.open()
        other, _ = await s.open()
        for text in (b"one\n", b"two\n"):
            await client.send(b"pause\n")
            await settled()
            await client.send(text)
            await settled()
            await other.send(b"tell c1 go\n")
            await client.expect(b"told go\n" + text)


@pytest.mark.parametrize("make_reader", BOTH)
async def test_a_connection_that_fails_while_others_have_bytes_ends_alone(make_reader: MakeReader):
    async with serving(make_reader) as s:
        victim, front_end = await s.open()
        others = [await s.open() for _ in range(3)]
        front_end.crash_in = "receive_data"
        for client in [others[0][0], victim, others[1][0], others[2][0]]:
            await client.send(b"line\n")
        assert await victim.rest() == b"sorry"
        for client, _ in others:
            await client.expect(b"line\n")
        assert s.server.counters.faults == 1


@pytest.mark.parametrize("make_reader", BOTH)
async def test_many_connections_come_and_go(make_reader: MakeReader):
    async with serving(make_reader) as s:
        for _ in range(3):
            clients = [await s.connect() for _ in range(20)]
            for client in clients:
                await client.send(HEADER + b"hello\nquit\n")
            for client in clients:
                assert await client.rest() == HEADER + b"hello\nbye\n"
                await client.stream.aclose()
            await settled()
            assert s.server.snapshot("connections") == []
