"""``why`` lets other tasks have their turn: each step takes one row, or one link's answer, however many there are."""

from collections import Counter
from collections.abc import Iterator

import pytest

from core.interface import Snapshot
from core.observe.why import why
from core.slices import RUN_ITEMS, run_at_once

COUNT = 300
SINGLE = ("queues", "connections", "sessions", "lanes", "waiting_publishers", "consumers_with_grant")


class Large:
    """A queue with this many links of one connection, all of which wait, and bindings from an exchange."""

    def __init__(self) -> None:
        self.made = 0
        self.links = COUNT
        self.asked: Counter[str] = Counter()

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        """See :class:`core.row_walks.RowSource`."""
        if identity is None:
            self.asked[kind] += 1
        if kind in ("stalls", "last_minute") and identity is not None:
            numbers = range(int(identity.rpartition("/")[2]), COUNT)[:1]
        else:
            numbers = range(1 if kind in SINGLE else self.links if kind == "links" else COUNT)
        for number in numbers:
            self.made += 1
            yield self._row(kind, number)

    def _row(self, kind: str, number: int) -> Snapshot:
        link: Snapshot = {"identity": f"c1/0/{number}", "connection": "c1", "session": "c1/0", "direction": "out"}
        match kind:
            case "queues":
                return {"name": "q", "type": "classic", "messages_ready": 5, "consumers": COUNT}
            case "connections" | "sessions":
                return {"identity": "c1" if kind == "connections" else "c1/0"}
            case "links":
                to_exchange = {"direction": "in", "exchange": "x"} if number % 2 else {"queue": "q"}
                return {**link, **to_exchange, "link_credit": 0}
            case "stalls" | "last_minute":
                return {**link, "reason": "link-credit", "culprit": "client", "since": 1.0, "seconds": 2.0}
            case "consumers":
                return {"name": str(number), "queue": "q", "grant": 0}
            case "bindings":
                return {"source": "x", "destination": "q", "destination_is_queue": True}
        return {"name": str(number)}


@pytest.mark.parametrize(("kind", "identity"), [("addresses", "q"), ("connections", "c1")])
def test_others_have_their_turn_behind_each_row(kind: str, identity: str):
    source = Large()
    steps, most, made = 0, 0, 0
    for _ in why(source, kind, identity):
        steps += 1
        most, made = max(most, source.made - made), source.made
    # The last row of a kind, behind which there is no pause, and the first of the next; or a run of links, each with
    # its own stall.
    assert most <= (2 if kind == "addresses" else RUN_ITEMS)
    assert steps > COUNT
    assert max(source.asked.values(), default=1) == 1


def test_the_answer_for_a_link_looks_at_no_others():
    source = Large()
    source.links = 1
    answer = run_at_once(why(source, "links", "c1/0/0"))
    assert answer is not None
    assert (answer["waits"], answer["reason"]) == (True, "link-credit")
    assert source.made <= len(SINGLE) + 3, "its own row, those of its stall and its last minute, and those around it"
