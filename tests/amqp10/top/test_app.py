"""The screen of ``headgate top`` as a user at the keyboard sees it, over made-up answers.

textual demands asyncio, so these tests are no Trio tests: each runs a loop of its own.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from amqp10.top.admin import AdminError, Row
from amqp10.top.app import TopApp

NAME = "[bold]shop[/bold]\x1b"
"""A name with markup, and with control sequences that a terminal obeys."""


def link(identity: str, **facts: object) -> Row:
    session = identity.rpartition("/")[0]
    return {
        "identity": identity,
        "session": session,
        "connection": session.partition("/")[0],
        "direction": "in",
        "address": "/queues/orders",
        "link_credit": 5,
        **facts,
    }


@dataclass
class MadeUp:
    """A stand-in for the admin server's answers."""

    silent: bool = False
    answers: threading.Event = field(default_factory=threading.Event)
    """The answers wait for it."""
    asked: threading.Event = field(default_factory=threading.Event)
    asked_why: list[tuple[str, str]] = field(default_factory=list)
    kinds: dict[str, list[Row]] = field(
        default_factory=lambda: {
            "connections": [{"identity": "c1", "container_id": NAME}, {"identity": "c2", "container_id": "till"}],
            "sessions": [{"identity": "c1/0", "connection": "c1"}, {"identity": "c2/0", "connection": "c2"}],
            "links": [link("c1/0/0"), link("c2/0/0", link_credit=0), link("c2/0/1", oldest_unsettled_seconds=3.0)],
            "stalls": [{"identity": "c2/0/1", "connection": "c2", "reason": "queue-full", "seconds": 70.0}],
        }
    )

    def __post_init__(self) -> None:
        self.answers.set()

    def get(self, path: str) -> Row:
        self.asked.set()
        self.answers.wait()
        if self.silent:
            raise AdminError("http://x does not answer")
        if path == "overview":
            return {"rates": {"in": 7.0}, "alarms": ["memory"]}
        raise AssertionError(path)

    def flow_map(self) -> Row:
        return {"edges": [{"identity": "c1/0/0", "rate": 40.0}]}

    def rows(self, kind: str) -> list[Row]:
        return self.kinds[kind]

    def why(self, kind: str, identity: str) -> Row:
        self.asked.set()
        self.answers.wait()
        self.asked_why.append((kind, identity))
        return {"sentence": f"It is {identity}.", "advice": "Consume.", "chain": []}


def played(admin: MadeUp, play: Callable[[Pilot[None]], Awaitable[None]]) -> None:
    """Start the program in a terminal of 120 by 30, let the test press keys, and end it."""

    async def main() -> None:
        async with TopApp(admin).run_test(size=(120, 30)) as pilot:
            await pilot.pause()
            await play(pilot)

    asyncio.run(main())


def first_cells(pilot: Pilot[None], column: int = 1) -> list[str]:
    """The texts of one column."""
    table = pilot.app.query_one(DataTable)
    return [str(table.get_row_at(index)[column]) for index in range(table.row_count)]


def words(pilot: Pilot[None], where: str) -> str:
    """The text in a part of the screen."""
    return str(pilot.app.query_one(where, Static).render())


def test_links_are_sorted_by_what_is_pressed():
    async def play(pilot: Pilot[None]) -> None:
        assert "in 7.0/s" in words(pilot, "#head")
        assert "alarms: memory" in words(pilot, "#head")
        assert first_cells(pilot)[0] == "c2/0/1"
        for key, first in {"c": "c2/0/0", "u": "c2/0/1", "r": "c1/0/0", "b": "c2/0/1"}.items():
            await pilot.press(key)
            assert first_cells(pilot)[0] == first
        assert "by blocked" in words(pilot, "#place")

    played(MadeUp(), play)


def test_a_name_is_neither_markup_nor_a_command_to_the_terminal():
    async def play(pilot: Pilot[None]) -> None:
        await pilot.press("r")
        assert first_cells(pilot, 0)[0] == "[bold]shop[/bold]\N{REPLACEMENT CHARACTER}"

    played(MadeUp(), play)


def test_from_a_connection_to_its_session_to_its_links_and_back():
    admin = MadeUp()

    async def play(pilot: Pilot[None]) -> None:
        await pilot.press("n")
        assert first_cells(pilot) == ["c2", "c1"]  # links that wait come first
        await pilot.press("enter")
        assert first_cells(pilot, 0) == ["c2/0"]
        await pilot.press("enter")
        assert first_cells(pilot) == ["c2/0/1", "c2/0/0"]
        assert "connections > sessions of c2 > links of c2/0" in words(pilot, "#place")
        await pilot.press("down", "enter")
        assert set(admin.asked_why) == {("links", "c2/0/0")}  # asked again each second
        await pilot.press("escape")
        assert not pilot.app.query_one("#why").display
        await pilot.press("escape", "escape")
        assert first_cells(pilot) == ["c2", "c1"]
        await pilot.press("l")
        assert len(first_cells(pilot)) == 3

    played(admin, play)


@pytest.mark.parametrize(
    ("ask", "silent"), [(TopApp.show_page, False), (TopApp.show_page, True), (TopApp.action_why, False)]
)
def test_an_answer_after_the_user_quit_is_shown_nowhere(ask: Callable[[TopApp], Awaitable[None]], silent: bool):
    async def main() -> None:
        admin = MadeUp()
        app = TopApp(admin)
        async with app.run_test(size=(120, 30)):
            admin.silent = silent
            admin.answers.clear()
            admin.asked.clear()
            asking = asyncio.ensure_future(ask(app))
            await asyncio.to_thread(admin.asked.wait)
        admin.answers.set()
        await asking

    asyncio.run(main())


def test_why_of_a_connection_and_of_a_link():
    admin = MadeUp()

    async def play(pilot: Pilot[None]) -> None:
        await pilot.press("w")
        assert "It is c2/0/1." in words(pilot, "#why")
        assert "What to do: Consume." in words(pilot, "#why")
        await pilot.press("n", "w")
        assert "It is c2." in words(pilot, "#why")

    played(admin, play)
    assert list(dict.fromkeys(admin.asked_why)) == [("links", "c2/0/1"), ("connections", "c2")]


def test_the_cursor_stays_on_its_line():
    admin = MadeUp()

    async def play(pilot: Pilot[None]) -> None:
        await pilot.press("down")
        chosen = first_cells(pilot)[pilot.app.query_one(DataTable).cursor_row]
        admin.kinds["stalls"] = [{"identity": "c1/0/0", "reason": "memory", "seconds": 99.0}]
        await pilot.app.show_page()
        table = pilot.app.query_one(DataTable)
        assert first_cells(pilot)[0] == "c1/0/0"
        assert first_cells(pilot)[table.cursor_row] == chosen

    played(admin, play)


def test_a_broker_that_does_not_answer_is_told_and_the_lines_stay():
    admin = MadeUp()

    async def play(pilot: Pilot[None]) -> None:
        admin.silent = True
        await pilot.app.show_page()
        assert "NO ANSWER" in words(pilot, "#head")
        assert len(first_cells(pilot)) == 3
        admin.silent = False
        await pilot.app.show_page()
        assert "NO ANSWER" not in words(pilot, "#head")

    played(admin, play)


def test_the_key_q_ends_the_program():
    async def play(pilot: Pilot[None]) -> None:
        await pilot.press("q")
        assert not pilot.app.is_running

    played(MadeUp(), play)
