"""Rows in, answer out: what ``why`` answers to each of these situations is, field by field, as it was recorded.

Each situation is the quiet broker of :data:`QUIET` with some fields changed. The reasons on live brokers are in
test_why_reasons.py. The file of answers has a line of JSON for each situation.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from core.interface import Snapshot
from core.observe.why import why
from core.slices import run_at_once

RECORDED = Path(__file__).with_name("why_answers.jsonl")
Changes = Mapping[str, Snapshot | None]
"""Fields that differ by the kind and name of the row, such as ``links c1/0/0``; None where there is no such row. A row
that the quiet broker does not have is added."""

QUIET: Mapping[str, Snapshot] = {
    "connections c1": {"peer": "127.0.0.1:1", "container_id": "shop", "user": "ann", "alarms": [], "state": "opened",
        "protocol": "amqp-1.0", "backlog_bytes": 0, "unsent_bytes": 3},
    "connections c2": {"peer": "127.0.0.1:2", "user": "bob", "alarms": [], "state": "running", "unsent_bytes": 0,
        "protocol": "amqp-0-9-1", "stage_credit_state": "running", "stage_credit_held_up_by": []},
    "sessions c1/0": {"connection": "c1", "incoming_window": 2048, "incoming_window_closed": False,
        "remote_incoming_window": 100},
    "links c1/0/0": {"connection": "c1", "session": "c1/0", "name": "l0", "direction": "in", "address": "/queues/q",
        "queue": "q", "exchange": None, "link_credit": 10, "max_link_credit": 170, "unconfirmed": 2,
        "unconfirmed_limit": 256, "unsynced": 0, "withheld": False, "paused": False, "bound_by_policy": None,
        "bound_by_operator": None},
    "links c1/0/1": {"connection": "c1", "session": "c1/0", "name": "l1", "direction": "out", "address": "q",
        "queue": "q", "link_credit": 10, "queue_grant": 5, "available": None, "active": True, "drain": False,
        "paused": False, "idle": True, "waiting": 0, "held_up_by": []},
    "channels c2/1": {"connection": "c2", "publishes_to": ["q", "gone"], "stage_credit_state": "running",
        "stage_credit_held_up_by": []},
    "queues q": {"type": "classic", "policy": None, "messages_ready": 4, "messages_unacknowledged": 1, "consumers": 1,
        "publishers": 1, "published": 7, "messages_waiting": 0, "stage_credit_state": "running",
        "stage_credit_held_up_by": []},
    "consumers x": {"queue": "q", "grant": 5, "active": True},
    "lanes classic": {"staged_bytes": 8, "records_not_synced": 1, "sync_wanted": False, "last_sync_seconds": 0.0125,
        "failed": False},
    "alarms memory": {"used": 90, "limit": 80, "cause": "too much"},
    "alarms disk": {"free": 10, "free_limit": 20, "cause": None},
}  # fmt: skip
IN, OUT = "links c1/0/0", "links c1/0/1"
LINKS, READER, QUEUE = "connections c1", "connections c2", "addresses q"
FLOW: Snapshot = {"stage_credit_state": "flow"}
USED_UP: Snapshot = {"link_credit": 0}
STREAM: Changes = {"queues q": {"type": "stream"}}


def stall(identity: str, reason: str, **fields: object) -> Snapshot:
    connection, direction = identity.partition("/")[0], "out" if identity.endswith("1") else "in"
    address = {"in": "/queues/q", "out": "q"}[direction]
    return {"identity": identity, "connection": connection, "direction": direction, "address": address} | {
        "reason": reason, "culprit": "the culprit", "since": 7.0, "seconds": 9.25} | fields  # fmt: skip


def alarmed(*alarms: str) -> Changes:
    return {"connections c1": {"alarms": list(alarms)}, "sessions c1/0": {"incoming_window": 0}}


def reader(connection: Snapshot, channel: Snapshot, queue: Snapshot) -> Changes:
    return {"connections c2": connection, "channels c2/1": channel, "queues q": queue}


ADAPTIVE: Snapshot = {
    "window": 64, "round_trip_ms": 50.25, "used_per_second": 900, "share_per_second": 1000, "byte_budget": "connection"
}  # fmt: skip
STALL_0, STALL_1, STALL_2 = "stalls c1/0/0", "stalls c1/0/1", "stalls c2"
CASES: Mapping[str, tuple[str, Changes]] = {
    "a publisher that nothing holds up": (IN, {}),
    "a consumer that nothing holds up": (OUT, {}),
    "a connection whose links do not wait": (LINKS, {}),
    "a reader that nothing holds up": (READER, {}),
    "a queue that nothing holds up": (QUEUE, {}),
    "a publisher under a memory alarm": (IN, alarmed("memory")),
    "a publisher under a disk alarm without a cause": (IN, alarmed("disk")),
    "a publisher under two alarms": (IN, alarmed("disk", "memory")),
    "a publisher while the broker is drained and memory is low": (IN, alarmed("drain-mode", "memory")),
    "a publisher that has used up the incoming-window": (IN, {"sessions c1/0": {"incoming_window": 0}}),
    "a publisher whose session has no row": (IN, {"sessions c1/0": None}),
    "a publisher whose connection has no row": (IN, {"connections c1": None}),
    "a publisher whose queue has no row": (IN, {"queues q": None}),
    "a publisher on a broker without a store": (IN, {"lanes classic": None}),
    "a publisher to a queue of another lane": (IN, {"queues q": {"type": "quorum"}}),
    "a publisher without figures": (IN, {IN: {"link_credit": None, "unconfirmed": None, "unconfirmed_limit": None}}),
    "a paused publisher with link credit": (IN, {IN: {"paused": True}}),
    "a paused publisher": (IN, {IN: USED_UP | {"paused": True, "bound_by_operator": 9}}),
    "a publisher bound by an operator": (IN, {IN: USED_UP | {"bound_by_operator": 9, "bound_by_policy": 5}}),
    "a publisher bound by a policy": (IN, {IN: USED_UP | {"bound_by_policy": 5}}),
    "a publisher bound by the policy of an exchange": (
        IN, {IN: USED_UP | {"bound_by_policy": 5, "queue": None, "exchange": "x"}}),
    "a publisher at the unconfirmed limit": (IN, {IN: USED_UP}),
    "a publisher to an exchange": (IN, {IN: USED_UP | {"queue": None, "exchange": "x"}}),
    "a publisher to any address": (IN, {IN: USED_UP | {"queue": None, "address": None}}),
    "a publisher that waits for a sync": (IN, {IN: USED_UP | {"unsynced": 3}}),
    "a publisher that waits for a first sync": (
        IN, {IN: USED_UP | {"unsynced": 3}, "lanes classic": {"last_sync_seconds": 0.0}}),
    "a publisher to a full queue": (IN, {IN: USED_UP | {"withheld": True}, "queues q": {"max_length": 4}}),
    "a publisher to a queue that is full of bytes": (IN, {
        IN: USED_UP | {"withheld": True, "unsynced": 3},
        "queues q": {"max_length": 9, "max_length_bytes": 8, "ready_bytes": 9}}),
    "a publisher to a queue that was full": (IN, {IN: USED_UP | {"withheld": True}, "queues q": {"max_length": 9}}),
    "a publisher to a full queue without consumers": (
        IN, {IN: USED_UP | {"withheld": True}, "queues q": {"max_length": 4, "consumers": 0}, "consumers x": None}),
    "a publisher to a queue whose consumers take no more": (IN, {"consumers x": {"grant": 0}}),
    "several reasons at once": (IN, {**alarmed("disk"), IN: USED_UP | {"bound_by_policy": 5, "withheld": True}}),
    **{
        f"a publisher whose window is limited by {limit}": (IN, {IN: ADAPTIVE | {"limited_by": limit}})
        for limit in ("bound", "bytes", "queue", "distance", "publisher", "rate")
    },
    "a consumer with as many unsettled messages as an operator allows": (
        OUT, {OUT: {"unsettled": 5, "unsettled_max": 5, "bound_by_operator": 5}}),
    "a consumer with as many unsettled messages as a policy allows": (
        OUT, {OUT: {"unsettled": 5, "unsettled_max": 5, "bound_by_operator": 9}}),
    "a consumer with as many unsettled bytes as it wants": (
        OUT, {OUT: {"unsettled": 5, "unsettled_bytes": 90, "unsettled_bytes_max": 100, "bytes_bound_by": "client",
                    "full_of_bytes": True}}),
    "a consumer with as many unsettled bytes as a policy allows": (
        OUT, {OUT: {"unsettled": 5, "unsettled_max": 6, "unsettled_bytes": 100, "unsettled_bytes_max": 100,
                    "bytes_bound_by": "policy", "full_of_bytes": True}}),
    "a consumer with fewer unsettled messages than it may hold": (
        OUT, {OUT: {"unsettled": 4, "unsettled_max": 5, "bound_by_operator": 5}}),
    "a bounded consumer of a queue without ready messages": (
        OUT, {OUT: {"unsettled": 5, "unsettled_max": 5, "bound_by_operator": 5}, "queues q": {"messages_ready": 0}}),
    "a queue whose consumer holds as many bytes as it may": (
        QUEUE, {OUT: {"unsettled": 5, "full_of_bytes": True}, "consumers x": {"grant": 0}}),
    "a queue whose consumer holds as many as it may": (
        QUEUE, {OUT: {"unsettled": 5, "unsettled_max": 5}, "consumers x": {"grant": 0}}),
    "the ledger names a publisher's reason": (IN, {IN: USED_UP, STALL_0: stall("c1/0/0", "unconfirmed-limit")}),
    "the ledger names another reason": (IN, {IN: USED_UP, STALL_0: stall("c1/0/0", "memory")}),
    "the ledger names a reason of another hop": (IN, {STALL_0: stall("c1/0/0", "socket", seconds=None)}),
    "the ledger names a policy without a culprit": (IN, {STALL_0: stall("c1/0/0", "policy", culprit=None)}),
    "the ledger names an unknown reason": (IN, {STALL_0: stall("c1/0/0", "bad weather")}),
    "an idle consumer": (OUT, {"queues q": {"messages_ready": 0}}),
    "an idle consumer in the ledger": (
        OUT, {"queues q": {"messages_ready": 0}, STALL_1: stall("c1/0/1", "no-message")}),
    "an idle consumer of a stream": (OUT, {**STREAM, OUT: {"available": 0}}),
    "a consumer without link credit": (OUT, {OUT: USED_UP}),
    "a consumer of a stream without link credit": (OUT, {**STREAM, OUT: USED_UP | {"available": 2}}),
    "a consumer without link credit and messages": (OUT, {OUT: USED_UP, "queues q": {"messages_ready": 0}}),
    "a consumer without link credit whose deliveries wait": (OUT, {OUT: USED_UP | {"idle": False, "waiting": 2}}),
    "a consumer that is drained": (OUT, {OUT: {"held_up_by": ["drain-mode"], "paused": True}}),
    "a paused consumer": (OUT, {OUT: {"paused": True, "active": False}}),
    "an inactive consumer": (OUT, {OUT: {"active": False}}),
    "an inactive consumer without link credit": (OUT, {OUT: USED_UP | {"active": False}}),
    "a consumer whose session window is closed": (
        OUT, {OUT: {"idle": False, "waiting": 2}, "sessions c1/0": {"remote_incoming_window": 0}}),
    "a consumer with a part of a delivery": (
        OUT, {OUT: {"idle": False}, "sessions c1/0": {"remote_incoming_window": 0}, LINKS: {"backlog_bytes": 5}}),
    "a consumer that does not read": (OUT, {OUT: {"idle": False, "waiting": 2}, LINKS: {"backlog_bytes": 5}}),
    "a consumer without figures": (OUT, {OUT: {"link_credit": None, "waiting": None}, "queues q": None, LINKS: None}),
    "a consumer whose queue's publishers wait": (OUT, {STALL_0: stall("c1/0/0", "memory", address="q")}),
    "a connection with one link that waits": (LINKS, {IN: USED_UP}),
    "a connection with two links that wait": (LINKS, {IN: USED_UP, OUT: USED_UP, STALL_1: stall("c1/0/1", "socket")}),
    "a connection without links": (LINKS, {IN: None, OUT: None}),
    "a reader whose channel is slow": (READER, reader(FLOW, {}, {})),
    "a reader whose channels are gone": (READER, {**reader(FLOW, {}, {}), "channels c2/1": None}),
    "a reader whose queue is slow": (READER, reader(FLOW | {"stage_credit_held_up_by": ["c2/1"]}, FLOW, {})),
    "a reader whose message store is slow": (
        READER, reader(FLOW, FLOW | {"stage_credit_held_up_by": ["q"]}, FLOW | {"stage_credit_held_up_by": ["store"]})),
    "a reader that names another channel": (
        READER, {**reader(FLOW | {"stage_credit_held_up_by": ["c2/2"]}, FLOW, {}),
        **{f"channels c2/{n}": {"connection": "c2", "publishes_to": [], "stage_credit_state": "running"}
           for n in (2, 3)}}),
    "a reader with more channels than are named": (READER, {**reader(FLOW, {}, {}), **{f"channels c2/{n}": {
        "connection": "c2", "publishes_to": [], "stage_credit_state": "running"} for n in range(2, 6)}}),
    "a reader in the ledger": (READER, {**reader(FLOW, FLOW, {}), STALL_2: stall("c2", "stage-credit")}),
    "a reader in the ledger that its rows do not show": (READER, {STALL_2: stall("c2", "stage-credit")}),
    "a reader that an alarm will stop": (READER, reader(FLOW | {"alarms": ["memory"], "state": "blocking"}, {}, {})),
    "a reader that an alarm has stopped": (READER, reader(FLOW | {"alarms": ["memory"], "state": "blocked"}, {}, {})),
    "a reader that two alarms have stopped": (
        READER, {"connections c2": {"alarms": ["disk", "memory"], "state": "blocked"},
        STALL_2: stall("c2", "memory")}),
    "a reader while the broker is drained": (
        READER, {"connections c2": {"alarms": ["drain-mode", "memory"], "state": "blocked"}}),
    "a reader that a drain will stop": (READER, {"connections c2": {"alarms": ["drain-mode"], "state": "blocking"}}),
    "a reader without figures": (READER, reader({"state": None}, {"stage_credit_state": None}, {})),
    "a queue with no message": (QUEUE, {"queues q": {"messages_ready": 0}}),
    "a queue with no consumer": (QUEUE, {"consumers x": None, OUT: None, "queues q": {"consumers": 0}}),
    "a queue whose consumers hold all they may": (QUEUE, {"consumers x": {"grant": 0}, OUT: None}),
    "a queue whose consumers hold nothing": (
        QUEUE, {"consumers x": {"grant": 0}, OUT: None, "queues q": {"messages_unacknowledged": 0}}),
    "a queue whose consumers are paused": (QUEUE, {"consumers x": {"grant": 0}, OUT: {"paused": True}}),
    "a queue whose consumers have no link credit": (
        QUEUE, {"consumers x": {"grant": 0}, OUT: USED_UP | {"active": False}}),
    "a queue whose consumers have link credit": (QUEUE, {"consumers x": {"grant": 0}}),
    "a queue whose consumer with a grant is not active": (
        QUEUE, {"consumers x": {"active": False}, OUT: USED_UP | {"available": 3}}),
    "a stream": (QUEUE, {**STREAM, "consumers x": {"grant": 0}}),
    "a queue without its type": (QUEUE, {"queues q": {"type": None, "policy": "p"}}),
    "a queue whose publisher waits": (QUEUE, {IN: USED_UP, STALL_0: stall("c1/0/0", "unconfirmed-limit")}),
    "a queue that is full": (
        QUEUE, {IN: USED_UP | {"withheld": True}, OUT: USED_UP, "consumers x": {"grant": 0},
        "queues q": {"max_length": 4}}),
    "a queue whose consumer waits": (QUEUE, {OUT: USED_UP, "consumers x": {"grant": 0}}),
    "a queue whose reader waits": (QUEUE, reader(FLOW, FLOW, {})),
    "a queue with publishers to exchanges": (QUEUE, {
        IN: USED_UP | {"queue": None, "exchange": "x"},
        "bindings 1": {"source": "y", "destination": "q", "destination_is_queue": True},
        "bindings 2": {"source": "x", "destination": "y", "destination_is_queue": False},
        "bindings 3": {"source": "y", "destination": "x", "destination_is_queue": False}}),
    "a queue with publishers to another exchange": (QUEUE, {
        IN: USED_UP | {"queue": None, "exchange": "x"},
        "bindings 1": {"source": "y", "destination": "q", "destination_is_queue": True}}),
    "a queue with more waiting links than are shown": (QUEUE, {
        **{f"links c1/0/{n}": QUIET[OUT] | USED_UP for n in range(1, 40, 2)},
        **{f"links c1/0/{n}": QUIET[IN] | USED_UP for n in range(40, 66, 2)}}),
    "a link that is not there": ("links c9", {}),
    "a kind that is not asked for": ("sessions c1/0", {}),
}  # fmt: skip


class Situation:
    """A source with the rows of the quiet broker and these changes."""

    def __init__(self, changes: Changes) -> None:
        self._rows: dict[str, list[Snapshot]] = {}
        for key in {**QUIET, **changes}:
            kind, _, name = key.partition(" ")
            changed = changes.get(key, {})
            if changed is not None:
                own = "name" if kind in ("queues", "lanes", "alarms") else "identity"
                self._rows.setdefault(kind, []).append({own: name} | QUIET.get(key, {}) | changed)

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        """See :class:`core.row_walks.RowSource`."""
        if kind == "waiting_publishers":
            stalls = self._rows.get("stalls", [])
            count = sum(row.get("address") == identity and row.get("direction") == "in" for row in stalls)
            return iter([{"address": identity, "count": count}])
        if kind == "consumers_with_grant":
            consumers = self._rows.get("consumers", [])
            count = sum(row.get("queue") == identity and bool(row.get("grant")) for row in consumers)
            return iter([{"name": identity, "count": count}])
        return iter(self._rows.get(kind, []))


def answer_to(case: str) -> Snapshot | None:
    """The answer, as JSON has it."""
    subject, changes = CASES[case]
    kind, _, identity = subject.partition(" ")
    answer: Snapshot | None = json.loads(json.dumps(run_at_once(why(Situation(changes), kind, identity))))
    return answer


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, Snapshot | None]:
    return {key: value for line in RECORDED.read_text().splitlines() for key, value in json.loads(line).items()}


@pytest.mark.parametrize("case", CASES)
def test_the_answer_is_as_recorded(recorded: Mapping[str, Snapshot | None], case: str):
    answer = answer_to(case)
    assert answer == recorded[case]
    assert list(answer or ()) == list(recorded[case] or ())


def test_every_recorded_answer_has_its_situation(recorded: Mapping[str, Snapshot | None]):
    assert list(recorded) == list(CASES)
