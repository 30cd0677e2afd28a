"""``python -m tests.hostile.descriptor_limits --runs N``: more clients than a broker has descriptors, N times each way.

A crowd of both protocols, half and half, connects all at once to a whole broker that has too few descriptors for it.
Meanwhile a client of each protocol that is already connected goes on publishing and consuming, with a ledger.

*soft*: the broker's own limit on connections is reached first, and the broker gives that reason. *hard*: the process
has used up descriptors elsewhere, so there are none left when connections come, and the broker can only close.
"""

import argparse
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

import trio

from amqp10.client import ClientConnection, ClientSettings, Message, connect
from amqp10.wire.framing import PROTOCOL_HEADER_AMQP, PROTOCOL_HEADER_SASL, ReceiveBuffer
from amqp10.wire.messaging import Accepted
from amqp10.wire.performatives import Begin, Close, Open, decode_performative, encode_performative
from core.amqp091.methods import ConnectionClose, ConnectionOpenOk, ConnectionStart
from core.server.connections import HURRIED_PREFACE_SECONDS_MAX
from core.server.descriptors import RESERVED
from tests.kit.amqp091_peer import methods_in, opening
from tests.kit.amqp091_socket import Amqp091Socket
from tests.kit.attacked_server import OPENING
from tests.kit.hostile import frame
from tests.kit.limited_broker import LimitedBroker, limited_broker
from tests.kit.wire import numbered

LIMIT = 256
CLIENTS = 400
USED_UP = {"soft": 0, "hard": RESERVED + 16}
"""Descriptors that the process uses up by itself; the second number is more than its reserve."""
SOCKETS_LIMIT = LIMIT - RESERVED
REASONS = {"soft": f"the limit of {SOCKETS_LIMIT} connections is reached", "hard": "out of file descriptors"}
FATES_EXPECTED = {"soft": {"served", "told"}, "hard": {"served", "closed"}}
FATES = ("served", "told", "closed")
CLOSED_SECONDS_MAX = {"soft": 1.0, "hard": 0.1}
"""The longest time until a client is refused, on a machine that does nothing else: the promise."""
AT_ONCE_SECONDS = 4.0
"""The longest time until a client is refused in the test suite, whose machine is shared. It is less than the 5 s that a
handshake may take, so no deadline has answered in the broker's place."""
CONNECTIONS = 2
"""Clients that are connected before the crowd, one of each protocol."""
ROUNDS_AMID = 20
"""Rounds of the ledgers while the served part of the crowd holds all descriptors."""
PATIENCE_S = 30.0
ROUND = 10
"""Messages in one round of a ledger."""
UNDISTURBED_SECONDS = 4.0
"""A round never takes longer, on however busy a machine. It is less than the time-out of any deadline."""
GUEST = b"\0guest\0guest"
OPENINGS = {
    "amqp-1.0": OPENING
    + frame(encode_performative(Open(container_id="crowd")))
    + frame(encode_performative(Begin(next_outgoing_id=0, incoming_window=1, outgoing_window=1))),
    "amqp-0-9-1": opening(response=GUEST),
}


@dataclass(slots=True)
class Visit:
    """What one client of the crowd met with."""

    protocol: str
    answer: bytes = b""
    seconds: float = 0.0
    """The time from before the connect to the handshake's end, or to the broker's close."""
    late: bool = False
    """True when the client may have sent its protocol header later than the broker waits for it. Then the broker
    answers in AMQP 1.0."""
    fate: str = ""
    """"served", "told" or "closed"."""

    def fate_so_far(self) -> str:
        """The fate of the client; "" while it is not decided."""
        if self.late and self.answer.startswith(PROTOCOL_HEADER_SASL):
            return fate10(self.answer)
        return FATE_OF[self.protocol](self.answer)


def fate10(answer: bytes) -> str:
    """The fate of a client of AMQP 1.0, from the bytes so far."""
    _, header, frames = answer.partition(PROTOCOL_HEADER_AMQP)
    buffer = ReceiveBuffer()
    buffer.feed(frames)
    while header and (found := buffer.next_frame(2**32 - 1)) is not None:
        performative, _ = decode_performative(buffer.data, found.body_start, found.body_end)
        if isinstance(performative, Begin):
            return "served"
        if isinstance(performative, Close):
            assert performative.error is not None
            assert performative.error.condition == "amqp:resource-limit-exceeded"
            assert performative.error.description == REASONS["soft"]
            return "told"
    return ""


def fate091(answer: bytes) -> str:
    """The fate of a client of AMQP 0.9.1, from the bytes so far."""
    methods = [method for _, method in methods_in(answer)]
    if any(isinstance(method, ConnectionOpenOk) for method in methods):
        return "served"
    if methods and isinstance(close := methods[-1], ConnectionClose):
        assert isinstance(methods[0], ConnectionStart)
        assert (close.reply_code, close.reply_text) == (506, f"RESOURCE_ERROR - {REASONS['soft']}")
        return "told"
    return ""


FATE_OF = {"amqp-1.0": fate10, "amqp-0-9-1": fate091}


Play = Callable[[list[bytes]], Awaitable[list[bytes]]]
"""One round of a ledger: it gets the bodies to send, and returns those that came."""


@dataclass(slots=True)
class Ledger:
    """A client that publishes, waits for confirms, consumes and acknowledges in rounds, each message once and in order.

    It is undisturbed if its connection stays open and no round takes long.
    """

    rounds: int = 0
    longest_round: float = 0.0
    """The duration of the longest round, in seconds."""

    async def round(self, play: Play) -> None:
        """Do one round."""
        began = trio.current_time()
        sent = numbered(ROUND, ROUND * self.rounds)
        with trio.fail_after(PATIENCE_S):
            assert await play(sent) == sent
        self.rounds += 1
        self.longest_round = max(self.longest_round, trio.current_time() - began)

    async def keep(self, play: Play, stop: trio.Event) -> None:
        """Do rounds until told to stop."""
        while not stop.is_set():
            await self.round(play)


async def play10(connection: ClientConnection, queue: str) -> Play:
    """Do rounds on a connection of AMQP 1.0, through a new durable queue."""
    answer = await connection.request("PUT", f"/queues/{queue}", {"durable": True})
    assert answer.status == 201
    sender = await connection.open_sender(f"/queues/{queue}")
    receiver = await connection.open_receiver(f"/queues/{queue}")

    async def play(bodies: list[bytes]) -> list[bytes]:
        fates = await sender.send_many(Message(body) for body in bodies)
        assert {type(each.fate) for each in fates} == {Accepted}
        came = [await receiver.receive() for _ in bodies]
        receiver.accept(came[0].number, came[-1].number)
        return [body for each in came if isinstance(body := each.message.body, bytes)]

    return play


async def play091(peer: Amqp091Socket, queue: str) -> Play:
    """Do rounds on a connection of AMQP 0.9.1, through a new durable queue."""
    await peer.log_in()
    await peer.consume_own(queue)

    async def play(bodies: list[bytes]) -> list[bytes]:
        await peer.publish(queue, bodies)
        return await peer.round(len(bodies))

    return play


async def visit(port: int, visit: Visit, parting: trio.Event) -> None:
    """Connect, and if the broker serves the client, stay until the crowd leaves."""
    began = trio.current_time()
    with trio.socket.socket() as socket:
        try:
            await socket.connect(("127.0.0.1", port))
            await socket.send(OPENINGS[visit.protocol])
            visit.late = trio.current_time() - began >= HURRIED_PREFACE_SECONDS_MAX
            while data := await socket.recv(65536):
                visit.answer += data
                if visit.fate_so_far() == "served":
                    break
        except ConnectionError:
            pass  # a socket was closed with unread bytes: only at the hard limit may that happen
        visit.seconds = trio.current_time() - began
        visit.fate = visit.fate_so_far() or "closed"
        if visit.fate == "served":
            await parting.wait()


async def crowd(port: int, *, everybody_knows: Callable[[], Awaitable[None]]) -> Sequence[Visit]:
    """Let all clients connect at once. Those that are served stay until the call that follows has returned."""
    visits = [Visit(protocol) for _ in range(CLIENTS // 2) for protocol in OPENINGS]
    parting = trio.Event()
    async with trio.open_nursery() as nursery:
        for one in visits:
            nursery.start_soon(visit, port, one, parting)
        with trio.fail_after(PATIENCE_S):
            while not all(one.fate for one in visits):  # noqa: ASYNC110 - the last of many
                await trio.sleep(0.01)
        await everybody_knows()
        parting.set()
    return visits


@dataclass(frozen=True, slots=True)
class Run:
    """What one run has shown."""

    visits: Sequence[Visit]
    ledgers: Sequence[Ledger]

    def count(self, fate: str, protocol: str | None = None) -> int:
        """How many clients of the crowd had this fate, of one protocol or of both."""
        return sum(one.fate == fate and protocol in (one.protocol, None) for one in self.visits)

    def seconds(self, fate: str) -> list[float]:
        """The times that these clients waited."""
        return [one.seconds for one in self.visits if one.fate == fate]

    def __str__(self) -> str:
        said = [
            f"{len(seconds)} {fate} (p50 {1000 * median(seconds):.0f} ms, max {1000 * max(seconds):.0f} ms)"
            for fate in FATES
            if (seconds := self.seconds(fate))
        ]
        rounds = ", ".join(f"{one.rounds} (longest {1000 * one.longest_round:.0f} ms)" for one in self.ledgers)
        return f"{', '.join(said)}; rounds of the ledgers: {rounds}"


async def together(port: int) -> Run:
    """The crowd, and the ledgers from before it until after it. One ledger opens its queue, which needs files, while no
    descriptor is left."""
    before = [Ledger() for _ in range(CONNECTIONS)]
    amid = Ledger()
    stop = trio.Event()

    async def amid_the_crowd() -> None:
        play = await play10(connection, "amid")
        for _ in range(ROUNDS_AMID):
            await amid.round(play)

    async with (
        connect(f"amqp://guest:guest@127.0.0.1:{port}", ClientSettings(reconnect=None)) as connection,
        Amqp091Socket(await trio.open_tcp_stream("127.0.0.1", port)) as peer,
    ):
        plays = [await play10(connection, "own10"), await play091(peer, "own091")]
        async with trio.open_nursery() as nursery:
            for ledger, play in zip(before, plays, strict=True):
                nursery.start_soon(ledger.keep, play, stop)
            visits = await crowd(port, everybody_knows=amid_the_crowd)
            stop.set()
        for ledger, play in zip(before, plays, strict=True):
            await ledger.round(play)
    return Run(visits, [*before, amid])


def run(way: str, folder: Path, *, closed_seconds_max: float | None = None) -> Run:
    """Run one broker with one crowd. Raises AssertionError for each promise that was not kept. ``closed_seconds_max``
    takes the place of :data:`CLOSED_SECONDS_MAX`."""
    with limited_broker(folder, limit=LIMIT, used_up=USED_UP[way]) as broker:
        seen = trio.run(together, broker.port)
    check(way, seen, broker, closed_seconds_max=closed_seconds_max or CLOSED_SECONDS_MAX[way])
    return seen


def check(way: str, seen: Run, broker: LimitedBroker, *, closed_seconds_max: float) -> None:
    """Check that each client had the right answer in time, that everything is counted and little is logged, and that no
    other client was disturbed."""
    refused = CLIENTS - seen.count("served")
    assert {one.fate for one in seen.visits} == FATES_EXPECTED[way], str(seen)
    if way == "soft":
        assert seen.count("served") == SOCKETS_LIMIT - CONNECTIONS, str(seen)
    else:
        assert LIMIT - USED_UP[way] - RESERVED < seen.count("served") < LIMIT - USED_UP[way], str(seen)
    for fate in FATES_EXPECTED[way]:
        assert min(seen.count(fate, protocol) for protocol in OPENINGS) > 0, f"{fate}: one protocol only"
    assert max(seen.seconds("told") + seen.seconds("closed")) < closed_seconds_max, str(seen)
    assert broker.counted["refused"] == {REASONS[way]: refused}
    assert broker.counted["accepted"] == CLIENTS - refused + CONNECTIONS
    assert broker.counted["faults"] == 0
    lines = broker.logged("connection-refused")
    times = [datetime.fromisoformat(str(line["timestamp"])) for line in lines]
    assert lines, "nothing was logged"
    assert all((later - earlier).total_seconds() > 0.95 for earlier, later in pairwise(times))
    assert {line["reason"] for line in lines} == {REASONS[way]}
    assert all(line["level"] != "error" for line in broker.log)
    assert all(ledger.longest_round < UNDISTURBED_SECONDS for ledger in seen.ledgers), str(seen)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="python -m tests.hostile.descriptor_limits",
    )
    parser.add_argument("--runs", type=int, default=20, help="how often, each way (default 20)")
    arguments = parser.parse_args()
    for way in USED_UP:
        slowest = longest = 0.0
        for number in range(1, arguments.runs + 1):
            with tempfile.TemporaryDirectory(prefix="headgate-limits-") as folder:
                try:
                    seen = run(way, Path(folder))
                except AssertionError as error:
                    sys.exit(f"{way} limit, run {number}: {error}")
            print(f"{way} {number}: {seen}", flush=True)
            slowest = max(slowest, *seen.seconds("told"), *seen.seconds("closed"), 0.0)
            longest = max(longest, *(ledger.longest_round for ledger in seen.ledgers))
        print(
            f"{way} limit, {arguments.runs} runs of {CLIENTS} clients: the last answer to one that was not served after"
            f" {1000 * slowest:.0f} ms, the longest round of a ledger {1000 * longest:.0f} ms"
        )


if __name__ == "__main__":
    main()
