"""The live stream: its events, how many clients it admits, and what happens to clients that do not read."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing

from core.access.login import NewPassword
from core.access.records import UserRecord
from core.clock import Now
from core.flow_facts import StallSubject
from core.interface import FlowReason
from core.slices import run_at_once
from tests.kit.admin import TOKEN, Facts, listening, until_closed

ASK = b"GET /api/headgate/live HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


@pytest.fixture
def patient_clock() -> trio.testing.MockClock:
    """A clock that jumps when nothing has happened for 20 ms."""
    return trio.testing.MockClock(autojump_threshold=0.02)


class Watcher:
    """A client of the live stream."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._read = b""

    async def ask(self, request: bytes = ASK) -> bytes:
        """Ask for the stream; returns the head of the answer."""
        await self._stream.send_all(request)
        return await self.head()

    async def head(self) -> bytes:
        """The head of the answer."""
        return await self._until(b"\r\n\r\n")

    async def event(self) -> tuple[str, Any]:
        """The next event."""
        while True:
            block = await self._until(b"\n\n")
            if b"event: " in block:
                lines = [line for line in block.split(b"\n") if line.startswith((b"event: ", b"data: "))]
                name, data = (line.partition(b": ")[2] for line in lines)
                return name.decode(), json.loads(data)

    async def _until(self, end: bytes) -> bytes:
        while end not in self._read:
            more = await self._stream.receive_some(4096)
            assert more, "the stream ended"
            self._read += more
        found, _, self._read = self._read.partition(end)
        return found


@asynccontextmanager
async def watching(facts: Facts, **settings: object) -> AsyncIterator[Watcher]:
    async with listening(facts, **settings) as admin, await admin.connect() as stream:
        watcher = Watcher(stream)
        head = await watcher.ask()
        assert head.startswith(b"HTTP/1.1 200")
        assert b"content-type: text/event-stream" in head
        yield watcher


def block(facts: Facts, identity: str, reason: FlowReason = FlowReason.QUEUE_FULL) -> StallSubject:
    who = StallSubject(
        identity=identity, connection="c1", peer="", container_id="", user="", direction="in", address="/queues/a"
    )
    facts.stalls.blocked(who, reason, "queue a", facts.now)
    facts.now = Now(facts.now.monotonic + 1.0, facts.now.wall + 1.0)
    return who


async def test_a_new_client_gets_an_event_at_once_and_then_each_second(patient_clock):
    async with watching(Facts()) as watcher:
        began = trio.current_time()
        name, overview = await watcher.event()
        assert (name, overview["connections"], overview["alarms"]) == ("overview", 0, [])
        assert await watcher.event() == ("stalls", {"time": 1_700_000_000.0, "total": 0, "stalls": []})
        times = []
        for _ in range(3):
            name, _ = await watcher.event()
            assert name == "overview"
            times.append(trio.current_time() - began)
    assert [later - earlier for earlier, later in pairwise(times)] == pytest.approx([1.0, 1.0])


async def test_a_stall_is_told_when_it_begins_changes_and_ends(patient_clock):
    facts = Facts()
    async with watching(facts) as watcher:

        async def stalls() -> list[tuple[str, str]]:
            while True:
                name, data = await watcher.event()
                if name == "stalls":
                    assert data["total"] == len(data["stalls"])
                    return [(row["identity"], row["reason"]) for row in data["stalls"]]

        assert await stalls() == []
        began = trio.current_time()
        who = block(facts, "c1/0/0")
        assert await stalls() == [("c1/0/0", "queue-full")]
        assert trio.current_time() - began <= 0.6
        block(facts, "c1/0/0", FlowReason.MEMORY)
        assert await stalls() == [("c1/0/0", "memory")]
        block(facts, "c1/0/1")
        assert await stalls() == [("c1/0/0", "memory"), ("c1/0/1", "queue-full")]
        facts.stalls.unblocked(who, facts.now)
        assert await stalls() == [("c1/0/1", "queue-full")]


async def test_only_the_longest_stalls_are_rows_and_all_are_counted(patient_clock):
    facts = Facts()
    for number in range(130):
        block(facts, f"c1/0/{number}")
    async with watching(facts) as watcher:
        _, overview = await watcher.event()
        _, stalls = await watcher.event()
    assert overview["links_blocked"] == {"queue-full": 130}
    assert (stalls["total"], len(stalls["stalls"]), stalls["stalls"][0]["identity"]) == (130, 100, "c1/0/0")


async def test_the_stream_outlives_the_time_of_a_request(patient_clock):
    async with watching(Facts(), request_time_out="2s") as watcher:
        began = trio.current_time()
        while trio.current_time() < began + 10:
            await watcher.event()


async def test_only_so_many_may_watch_and_a_place_is_free_when_one_goes(patient_clock):
    async with listening(Facts(), live_clients_max=1) as admin:
        async with await admin.connect() as stream:
            await Watcher(stream).ask()
            refused = await admin.raw(ASK)
            assert refused.startswith(b"HTTP/1.1 503")
            assert b"too-many-live-clients" in refused
        await trio.sleep(1)
        async with await admin.connect() as stream:
            assert (await Watcher(stream).ask()).startswith(b"HTTP/1.1 200")


async def test_one_user_leaves_places_for_others(patient_clock):
    async with listening(Facts(), live_clients_max=3, live_clients_per_user_max=1, token=TOKEN) as admin:
        with_token = ASK.replace(b"\r\n", b"\r\nAuthorization: Bearer " + TOKEN + b"\r\n", 1)
        as_guest = b"\r\nAuthorization: Basic " + b64encode(b"guest:guest") + b"\r\n"
        async with await admin.connect() as stream, await admin.connect() as another:
            assert (await Watcher(stream).ask(with_token)).startswith(b"HTTP/1.1 200")
            refused = await admin.raw(with_token)
            assert refused.startswith(b"HTTP/1.1 503")
            assert b"live_clients_per_user_max" in refused
            assert (await Watcher(another).ask(ASK.replace(b"\r\n", as_guest, 1))).startswith(b"HTTP/1.1 200")


async def test_a_client_that_does_not_read_is_cut_off(patient_clock):
    facts = Facts()
    for number in range(100):
        block(facts, f"c1/0/{number}-{'x' * 200}")
    async with listening(facts, live_clients_max=1, request_time_out="3s") as admin, await admin.connect() as stream:
        await stream.send_all(ASK)
        for number in range(60):
            await trio.sleep(1)
            facts.stalls.blocked(block(facts, f"c2/0/{number}"), FlowReason.DISK, "alarm disk", facts.now)
        async with await admin.connect() as another:  # the place is free again
            assert (await Watcher(another).ask()).startswith(b"HTTP/1.1 200")
        assert len(await until_closed(stream)) > 0


async def test_a_head_has_no_stream():
    async with listening(Facts()) as admin:
        answer = await admin.raw(ASK.replace(b"GET", b"HEAD"))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"event:" not in answer


async def test_nothing_is_done_without_clients(patient_clock):
    facts = Facts()
    asked = 0
    read = facts.overview.read

    def counted() -> object:
        nonlocal asked
        asked += 1
        return read()

    facts.overview.read = counted
    async with listening(facts) as admin:
        await trio.sleep(60)
        assert asked == 0
        async with await admin.connect() as stream:
            watcher = Watcher(stream)
            await watcher.ask()
            await watcher.event()
        await trio.sleep(2)
        asked_then = asked
        await trio.sleep(60)
    assert asked == asked_then > 0


COOKIE_ASK = ASK.replace(b"\r\n\r\n", b"\r\ncookie: headgate-%d=%s\r\n\r\n")


@pytest.mark.parametrize("change", ["logout", "deleted", "expired"])
async def test_with_a_login_the_stream_ends_when_the_login_does(change: str, patient_clock):
    facts = Facts()
    users = facts.control.users
    users.set(UserRecord(name="mona", tags=("monitoring",)))
    async with listening(facts, users_only=True, session_idle="60s") as admin, await admin.connect() as stream:
        rights = users.rights_of("mona")
        secret, session = facts.sessions.begin(rights, is_user=True)
        await stream.send_all(COOKIE_ASK % (admin.server.listening_on[0][1], secret.encode()))
        watcher = Watcher(stream)
        assert (await watcher.head()).startswith(b"HTTP/1.1 200")
        for _ in range(4):
            await watcher.event()
        if change == "logout":
            facts.sessions.end(session)
        elif change == "deleted":
            users.delete("mona")
        else:
            facts.now = Now(facts.now.monotonic + 60.0, facts.now.wall)
        began = trio.current_time()
        rest = await until_closed(stream)
        assert b"event: " not in rest
        assert rest.endswith(b"0\r\n\r\n")  # the answer has an end, as a browser expects
        assert trio.current_time() - began <= 1.6


async def test_a_user_that_may_not_look_any_more_gets_no_further_event(patient_clock):
    facts = Facts()
    users = facts.control.users
    secret = run_at_once(NewPassword(facts.control.logins, "a password").hashing())
    users.set(UserRecord(name="mona", tags=("monitoring",), secret=secret))
    async with listening(facts) as admin, await admin.connect() as stream:
        shown = b64encode(b"mona:a password")
        await stream.send_all(ASK.replace(b"\r\n\r\n", b"\r\nauthorization: Basic " + shown + b"\r\n\r\n"))
        watcher = Watcher(stream)
        assert (await watcher.head()).startswith(b"HTTP/1.1 200")
        await watcher.event()
        await watcher.event()
        users.set(UserRecord(name="mona", tags=("management",), secret=secret))
        assert b"event: " not in await until_closed(stream)
