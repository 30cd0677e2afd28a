"""A front end for tests of the server. It echoes what it receives, and does on command what real protocols do rarely.

Its protocol header is ``ECHO`` and four more bytes. The first line establishes the connection. Commands are lines:
``quit`` ends the protocol, ``crash`` raises, ``flood N`` makes N bytes of output, ``tell WHO TEXT`` puts TEXT into the
mailbox of connection WHO, ``pause`` stops reading until the next action, ``deadline S`` ticks in S seconds.
"""

from collections.abc import Callable, Iterator
from math import inf

from core.clock import Now
from core.errors import NotFound
from core.server.frame_tap import Cut, Cutters
from core.server.frontends import FrontEndFactory, PeerInfo
from core.server.orders import Order

HEADER = b"ECHO1.0\n"
PIECE_BYTES = 4096
"""The size of the pieces in which output comes. A large flood has more of them than one system call takes."""


class EchoBroker:
    """A stand-in for the engine, which remembers the front ends that it made."""

    def __init__(self) -> None:
        self.front_ends: dict[str, EchoFrontEnd] = {}
        self.turns = 0
        self.turns_with_work_left = 0
        self.refuse_to_make = False

    def deadline(self) -> float:
        """Infinity: no work is ever due."""
        return inf

    def turn(self, now: Now) -> bool:
        """Count the turn; say that work is left as often as the test wants."""
        self.turns += 1
        if self.turns_with_work_left:
            self.turns_with_work_left -= 1
            return True
        return False

    def factory(self) -> FrontEndFactory:
        """The factory that the server is given."""

        def make(info: PeerInfo, notify: Callable[[], None]) -> EchoFrontEnd:
            if self.refuse_to_make:
                raise RuntimeError("told not to make a front end")
            front_end = EchoFrontEnd(self, info, notify)
            self.front_ends[info.identity] = front_end
            return front_end

        return FrontEndFactory(
            name="echo",
            accepts=lambda preface: preface == HEADER,
            make=make,
            refusal=lambda reason: HEADER + f"refused: {reason}\n".encode(),
        )


class AtOnce:
    """A cutter that makes one frame of all bytes that come together."""

    def cut(self, data: bytes) -> Iterator[Cut]:
        """See :class:`core.server.frame_tap.FrameCutter`."""
        yield Cut(len(data), b"")


class EchoFrontEnd:
    """The front end of one connection. ``calls`` lists what the server called."""

    def __init__(self, broker: EchoBroker, info: PeerInfo, notify: Callable[[], None]) -> None:
        self.calls: list[str] = []
        self.backlogs: list[int] = []
        self.finished = False
        self.established = False
        self.reading = True
        self.crash_in = ""
        self._broker = broker
        self._info = info
        self._notify = notify
        self._greeted = False
        self._input = b""
        self._output = b""
        self._actions: list[str] = []
        self._deadline: float | None = None
        self._overdue: float | None = None

    def tell(self, text: str) -> None:
        """Put an action into this connection's mailbox."""
        if not self._actions:
            self._notify()
        self._actions.append(text)

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.crash_in == name:
            raise RuntimeError(f"told to fail in {name}")

    def receive_data(self, data: bytes, now: Now) -> bool:
        self._called("receive_data")
        self._input += data
        if not self._greeted:
            self._greeted = True
            self._output += HEADER
            self.finished = not self._input.startswith(HEADER)
            self._input = self._input.removeprefix(HEADER)
        while b"\n" in self._input and not self.finished:
            line, self._input = self._input.split(b"\n", 1)
            self.established = True
            self._obey(line.decode(), now)
        return data != b"nothing\n"

    def _obey(self, line: str, now: Now) -> None:
        match line.split(" "):
            case ["quit"]:
                self.finished = True
                self._output += b"bye\n"
            case ["nothing"]:
                pass
            case ["crash"]:
                raise RuntimeError("told to crash")
            case ["flood", size]:
                self._output += b"x" * int(size)
            case ["tell", who, text]:
                self._broker.front_ends[who].tell(text)
            case ["pause"]:
                self.reading = False
            case ["deadline", seconds]:
                self._deadline = now.monotonic + float(seconds)
            case ["overdue"]:
                self._deadline = self._overdue = now.monotonic - 1.0
            case _:
                self._output += line.encode() + b"\n"

    def receive_eof(self, now: Now) -> None:
        self._called("receive_eof")

    def take_actions(self, now: Now) -> None:
        self._called("take_actions")
        actions, self._actions = self._actions, []
        for text in actions:
            self.reading = True
            self._output += f"told {text}\n".encode()

    def pieces_to_send(self, now: Now) -> list[bytes | memoryview]:
        self._called("pieces_to_send")
        output, self._output = self._output, b""
        return [output[at : at + PIECE_BYTES] for at in range(0, len(output), PIECE_BYTES)]

    def output_backlog(self, waiting_bytes: int) -> None:
        self._called("output_backlog")
        self.backlogs.append(waiting_bytes)

    def deadline(self) -> float | None:
        return self._deadline

    def tick(self, now: Now) -> None:
        self._called("tick")
        self._deadline = self._overdue
        self._output += b"tick\n"

    def shut_down(self, reason: str, now: Now) -> None:
        self._called("shut_down")
        self.finished = True
        self._output += f"closed: {reason}\n".encode()

    def last_words(self) -> bytes:
        return b"sorry"

    def connection_lost(self, now: Now) -> None:
        self._called("connection_lost")

    def check(self, order: Order) -> None:
        raise NotFound("connection 'c1' has no links and sessions")

    def obey(self, order: Order, now: Now) -> None:
        self._called("obey")

    def cutters(self) -> Cutters:
        """Cutters that make one frame of all bytes that come or go together."""
        return Cutters(AtOnce(), AtOnce(), b"")

    def parts(self, kind: str, now: Now, identity: str | None = None) -> Iterator[list[dict[str, object]]]:
        yield self.snapshot(kind, now)

    def snapshot(self, kind: str, now: Now) -> list[dict[str, object]]:
        if kind == "connections":
            return [{"container_id": "echo-client"}]
        return [{"identity": f"{self._info.identity}/1"}] if kind == "links" else []
