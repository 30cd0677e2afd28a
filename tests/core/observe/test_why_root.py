"""The root of a wait: behind the full queue or the alarm, the consumer that does not settle; and the list of what has
waited most."""

from collections.abc import Iterator, Mapping

import pytest

from core.interface import Snapshot
from core.observe.why import why
from core.observe.why_minute import worst_waits
from core.slices import run_at_once
from tests.core.observe.test_why_answers import IN, OUT, QUEUE, QUIET, Changes, Situation, alarmed, stall

FULL: Changes = {
    "stalls c1/0/0": stall("c1/0/0", "queue-full", culprit="queue q"),
    "links c1/0/0": {"link_credit": 0, "withheld": True},
    "queues q": {"messages_ready": 9, "max_length": 9},
}
HELD: Snapshot = {"unsettled": 500, "unsettled_max": 500}
SHOP = "consumer shop"
HOLDS_3 = f"{SHOP} does not settle: it holds 3 messages and grants no more link credit"


def root(subject: str, changes: Changes) -> object:
    kind, _, identity = subject.partition(" ")
    answer = run_at_once(why(Situation(changes), kind, identity))
    assert answer is not None
    return answer["root"]


def says(subject: str, changes: Changes) -> object:
    found = root(subject, changes)
    return found["says"] if isinstance(found, dict) else found


@pytest.mark.parametrize("subject", [IN, QUEUE, "connections c1"])
def test_the_root_of_a_full_queue_is_the_consumer_that_does_not_settle(subject: str):
    assert root(subject, {**FULL, "links c1/0/1": HELD, "consumers x": {"grant": 0}}) == {
        "kind": "links",
        "identity": "c1/0/1",
        "says": f"{SHOP} does not settle: it holds 500 messages",
    }


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ({"link_credit": 0}, f"{SHOP} grants no link credit"),
        ({"link_credit": 0, "unsettled": 3}, HOLDS_3),
        ({"paused": True}, f"{SHOP} is paused by an operator"),
        ({"idle": False, "waiting": 5}, f"{SHOP} does not open its incoming-window"),
    ],
)  # fmt: skip
def test_each_fault_of_a_consumer_is_told_as_its_own(link: Snapshot, expected: str):
    session: Changes = {"sessions c1/0": {"remote_incoming_window": 0}} if "waiting" in link else {}
    changes = {**FULL, **session, "links c1/0/1": link}
    assert says(IN, changes) == says(OUT, changes) == expected


def test_of_several_consumers_the_one_that_holds_most_is_the_root():
    other: Snapshot = {**QUIET["links c1/0/1"], "identity": "c1/0/2", "link_credit": 0, "unsettled": 700}
    changes = {**FULL, "links c1/0/1": {"link_credit": 0, "unsettled": 3}, "links c1/0/2": other}
    found = root(IN, changes)
    assert isinstance(found, dict)
    assert found["identity"] == "c1/0/2"


def test_without_a_consumer_the_queue_is_the_root():
    changes = {**FULL, "consumers x": None, "links c1/0/1": None}
    assert root(IN, changes) == {"kind": "addresses", "identity": "q", "says": "queue q has no consumer"}


def test_consumers_that_do_all_they_can_are_slower_than_the_publishers():
    assert says(IN, FULL) == "the 1 consumers of queue q are slower than its publishers; they hold 1 messages"


def test_the_root_of_a_memory_alarm_is_behind_the_queue_that_has_most():
    changes = {**alarmed("memory"), "queues q": {"ready_bytes": 4096}, "links c1/0/1": {"link_credit": 0}}
    changes |= {"stalls c1/0/0": stall("c1/0/0", "memory")}
    assert says(IN, changes) == f"queue q holds 4096 bytes: {SHOP} grants no link credit"


def test_what_has_no_root_says_so():
    assert root(IN, {}) is None
    assert root(OUT, {"links c1/0/1": {"active": False}}) is None
    assert root(IN, {"links c1/0/0": {"link_credit": 0, "paused": True}}) is None


MINUTE: Mapping[str, object] = {
    "connection": "c1",
    "peer": "127.0.0.1:1",
    "container_id": "shop",
    "user": "ann",
    "vhost": "/",
    "address": "q",
    "direction": "in",
    "over_seconds": 60.0,
    "seconds": 38.0,
    "share": 0.633,
    "by_reason": [{"reason": "queue-full", "culprit": "queue q", "seconds": 38.0, "share": 0.633}],
}


class Waited:
    """A situation, and what has waited in the last minute."""

    def __init__(self, changes: Changes, *waited: Snapshot) -> None:
        self._rows = Situation(changes)
        self._waited = waited

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        return iter(self._waited) if kind == "last_minute" else self._rows.rows(kind, identity)


def test_an_answer_has_the_last_minute_beside_what_holds_now():
    waited = Waited({}, {**MINUTE, "identity": "c1/0/0"})
    answer = run_at_once(why(waited, "links", "c1/0/0"))
    assert answer is not None
    assert answer["waits"] is False
    assert answer["last_minute"] == {key: MINUTE[key] for key in ("over_seconds", "seconds", "share", "by_reason")}


def test_of_a_connection_and_a_queue_the_last_minutes_of_their_links_are_added_up():
    other = {**MINUTE, "identity": "c1/0/1", "direction": "out", "seconds": 19.0, "share": 0.317}
    other["by_reason"] = [{"reason": "link-credit", "culprit": "client", "seconds": 19.0, "share": 0.317}]
    for kind, identity in (("connections", "c1"), ("addresses", "q")):
        answer = run_at_once(why(Waited({}, {**MINUTE, "identity": "c1/0/0"}, other), kind, identity))
        assert answer is not None
        assert answer["last_minute"] == {
            "over_seconds": 60.0,
            "seconds": 57.0,
            "share": 0.475,
            "by_reason": [
                {"reason": "queue-full", "culprit": "queue q", "seconds": 38.0, "share": 0.317},
                {"reason": "link-credit", "culprit": "client", "seconds": 19.0, "share": 0.158},
            ],
            "links": 2,
        }


def test_what_is_not_a_figure_is_not_added_up():
    odd: Snapshot = {"identity": "c1/0/0", "connection": "c1", "by_reason": [{"reason": "queue-full"}, 7]}
    answer = run_at_once(why(Waited({}, odd, {**odd, "identity": "c1/0/1"}), "connections", "c1"))
    assert answer is not None
    none: Snapshot = {"reason": "queue-full", "culprit": "None", "seconds": 0.0, "share": 0.0}
    expected = {"over_seconds": 0.0, "seconds": 0.0, "share": 0.0, "by_reason": [none], "links": 2}
    assert answer["last_minute"] == expected


def test_what_waited_most_comes_first_with_its_root_and_those_that_are_gone():
    changes = {**FULL, "links c1/0/1": {"link_credit": 0, "unsettled": 3}}
    gone = {**MINUTE, "identity": "c9/0/0", "connection": "c9", "seconds": 50.0}
    found = run_at_once(worst_waits(Waited(changes, {**MINUTE, "identity": "c1/0/0"}, gone), 10))
    assert (found["waited"], found["waiting"], found["over_seconds"]) == (2, 1, 60.0)
    items = found["items"]
    assert isinstance(items, list)
    first, second = items
    assert (first["identity"], first["present"], first["waits"], first["root"]) == ("c9/0/0", False, False, None)
    assert (second["identity"], second["present"], second["reason"]) == ("c1/0/0", True, "queue-full")
    assert second["root"]["says"] == HOLDS_3
    assert second["last_minute"]["share"] == 0.633
    assert len(run_at_once(worst_waits(Waited(changes, gone, gone), 1))["items"]) == 1
