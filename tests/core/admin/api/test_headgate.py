"""The requests that only Headgate has: rows, why, the flow map, time lines, the store, limits, and an operator's
actions."""

from typing import Any

import httpx
import pytest

from core.flow_facts import StallSubject
from core.interface import FlowReason, Snapshot
from core.server.orders import BoundLink, CloseLink, CloseSession, PauseLink, ResumeLink
from tests.kit.admin import Facts, client_of
from tests.kit.engine import Peer, bodies, make_broker

WRITE = {"x-headgate-request": "1"}


async def ask(facts: Facts, method: str, path: str, *, body: object = None, **settings: object) -> httpx.Response:
    async with client_of(facts.application(**settings), **WRITE) as client:
        return await client.request(method, f"/api/headgate/{path}", json=body)


async def get(facts: Facts, path: str, **settings: object) -> Any:
    response = await ask(facts, "GET", path, **settings)
    assert response.status_code == 200, response.text
    return response.json()


def link(
    identity: str, *, direction: str = "in", address: str | None = "/queues/a", delivery_count: int = 0
) -> Snapshot:
    return {
        "identity": identity,
        "connection": identity.partition("/")[0],
        "direction": direction,
        "address": address,
        "link_credit": 5,
        "delivery_count": delivery_count,
    }


def connection(identity: str) -> Snapshot:
    return {"identity": identity, "container_id": f"app-{identity}", "peer": "127.0.0.1:4711"}


def block(facts: Facts, identity: str, reason: FlowReason = FlowReason.QUEUE_FULL) -> StallSubject:
    who = StallSubject(
        identity=identity,
        connection=identity.partition("/")[0],
        peer="127.0.0.1:4711",
        container_id="app",
        user="guest",
        direction="in",
        address="/queues/a",
    )
    facts.stalls.blocked(who, reason, "queue a", facts.now)
    return who


# --- rows ------------------------------------------------------------------------------------------------------------


async def test_rows_come_in_pages_in_the_order_of_their_identities():
    facts = Facts(broker=make_broker("c", "a", "b"))
    first = await get(facts, "queues?limit=2")
    assert [row["name"] for row in first["items"]] == ["a", "b"]
    assert first["next"] == "b"
    second = await get(facts, "queues?limit=2&after=b")
    assert [row["name"] for row in second["items"]] == ["c"]
    assert second["next"] is None


async def test_one_row_is_found_by_its_identity():
    facts = Facts(broker=make_broker("a/b"))
    facts.server.rows["links"] = [link("c1/0/0")]
    assert (await get(facts, "queues/a%2Fb"))["name"] == "a/b"
    assert (await get(facts, "links/c1%2F0%2F0"))["link_credit"] == 5
    missing = await ask(facts, "GET", "links/c1%2F0%2F1")
    assert missing.status_code == 404
    assert missing.json() == {"error": "not-found", "reason": "there is no 'c1/0/1' under /headgate/links"}


async def test_an_unknown_kind_is_told_the_known_ones():
    response = await ask(Facts(), "GET", "tasks")
    assert response.status_code == 404
    assert "there are queues, exchanges" in response.json()["reason"]


async def test_names_with_markup_stay_text():
    name = "<script>alert(1)</script>"
    facts = Facts(broker=make_broker(name))
    response = await ask(facts, "GET", "queues")
    assert response.headers["content-type"] == "application/json"
    assert response.json()["items"][0]["name"] == name


async def test_stalls_are_rows():
    facts = Facts()
    block(facts, "c1/0/0")
    facts.pass_time()
    (row,) = (await get(facts, "stalls"))["items"]
    assert (row["identity"], row["reason"], row["culprit"], row["seconds"]) == ("c1/0/0", "queue-full", "queue a", 1.0)


# --- the broker as a whole --------------------------------------------------------------------------------------------


async def test_the_status_names_the_broker():
    status = await get(Facts(), "status")
    assert (status["product"], status["version"], status["pid"]) == ("Headgate", "1.2.3", 4711)


async def test_limits_have_what_is_used():
    facts = Facts(broker=make_broker("a", "b"))
    limits = {row["name"]: (row["used"], row["max"]) for row in (await get(facts, "limits"))["limits"]}
    assert limits["queues"] == (2, 100)
    assert limits["connections"] == (2, 900)
    assert limits["unauthenticated"] == (1, 10)


async def test_the_store_shows_its_lanes():
    (lane,) = (await get(Facts(), "store"))["lanes"]
    assert lane["name"] == "classic"
    assert lane["sync_histogram"][0] == {"le": 0.0005, "count": 0}
    assert lane["sync_histogram"][-1]["le"] is None


async def test_the_overview_is_that_of_the_live_stream():
    facts = Facts(broker=make_broker("a"))
    seen = await get(facts, "overview")
    assert (seen["queues"], seen["time"], seen["links_blocked"]) == (1, 1_700_000_000.0, {})


async def test_why_is_asked_of_the_control_plane():
    facts = Facts()
    assert (await ask(facts, "GET", "why/connections/nobody")).status_code == 404
    assert (await ask(facts, "GET", "why/queues/a")).status_code == 404


async def test_time_lines_have_a_value_a_second():
    facts = Facts(broker=make_broker("a"))
    facts.server.rows["links"] = [link("c1/0/0")]
    facts.pass_time()
    facts.pass_time()
    lines = await get(facts, "timelines/links/c1%2F0%2F0")
    assert (lines["kind"], lines["identity"], lines["interval"]) == ("links", "c1/0/0", 1.0)
    assert len(lines["times"]) == 2
    assert lines["series"]["link_credit"] == [5, 5]
    assert lines["series"]["rate"] == [None, 0.0]
    assert (await get(facts, "timelines/queues/a"))["series"]["messages_ready"] == [0, 0]
    assert (await ask(facts, "GET", "timelines/queues/b")).status_code == 404
    assert (await ask(facts, "GET", "timelines/stalls/a")).status_code == 404


# --- the flow map ----------------------------------------------------------------------------------------------------


async def test_the_flow_map_joins_both_ends_of_a_queue():
    facts = Facts(broker=make_broker("a b"))
    facts.server.rows["connections"] = [connection("c1"), connection("c2"), connection("c3")]
    facts.server.rows["links"] = [
        link("c1/0/0", address="/queues/a%20b"),
        link("c2/0/0", direction="out", address="/queue/a b"),
    ]
    facts.server.rows["channels"] = [{"identity": "c3/1", "connection": "c3", "published": 0, "publishes_to": ["a b"]}]
    shown = await get(facts, "flow-map")
    assert [(edge["from"], edge["to"], edge["identity"]) for edge in shown["edges"]] == [
        ("c1", "/queues/a%20b", "c1/0/0"),
        ("/queues/a%20b", "c2", "c2/0/0"),
        ("c3", "/queues/a%20b", "c3"),
    ]
    assert [edge["why_kind"] for edge in shown["edges"]] == ["links", "links", "connections"]
    assert [node["container_id"] for node in shown["publishers"]] == ["app-c1", "app-c3"]
    assert [node["identity"] for node in shown["consumers"]] == ["c2"]
    assert [(node["queue"], node["messages_ready"]) for node in shown["addresses"]] == [("a b", 0)]


async def test_an_address_that_is_no_queue_is_a_node_too():
    facts = Facts()
    facts.server.rows["links"] = [link("c1/0/0", address="/exchanges/e/k"), link("c1/0/1", address=None)]
    shown = await get(facts, "flow-map")
    assert [(node["address"], node["queue"]) for node in shown["addresses"]] == [("/exchanges/e/k", None), ("", None)]


async def test_the_most_blocked_edges_are_shown_first_and_then_the_busiest():
    facts = Facts()
    facts.server.rows["links"] = links = [link(f"c1/0/{number}") for number in range(4)]
    block(facts, "c1/0/2")
    for _ in range(3):
        links[1]["delivery_count"] = links[1]["delivery_count"] + 7
        facts.pass_time()
    shown = await get(facts, "flow-map", flow_map_max=2)
    assert [edge["identity"] for edge in shown["edges"]] == ["c1/0/2", "c1/0/1"]
    assert [edge["blocked_share"] for edge in shown["edges"]] == [1.0, 0.0]
    assert [edge["rate"] for edge in shown["edges"]] == [0.0, 7.0]
    assert [(edge["blocked"], edge["reason"], edge["culprit"]) for edge in shown["edges"]] == [
        (True, "queue-full", "queue a"),
        (False, None, None),
    ]
    assert shown["edges_total"] == 4


async def test_an_edge_says_what_held_its_link_when_it_does_not_wait_any_more():
    facts = Facts()
    facts.server.rows["links"] = [link("c1/0/0"), link("c1/0/1")]
    facts.pass_time(8.0)
    who = block(facts, "c1/0/0")
    facts.pass_time(2.0)
    facts.stalls.unblocked(who, facts.now)
    for _ in facts.stalls.remember():
        pass
    held, free = (await get(facts, "flow-map"))["edges"]
    assert (held["identity"], held["blocked"], held["reason"]) == ("c1/0/0", False, None)
    assert held["last_minute"] == [{"reason": "queue-full", "culprit": "queue a", "seconds": 2.0, "share": 0.2}]
    assert free["last_minute"] == []


async def test_what_has_waited_most_is_listed_with_links_that_are_gone():
    facts = Facts()
    facts.server.rows["links"] = [link("c1/0/0")]
    facts.server.rows["connections"] = [connection("c1")]
    block(facts, "c1/0/0")
    gone = block(facts, "c9/0/0", FlowReason.MEMORY)
    facts.pass_time(3.0)
    facts.stalls.unblocked(gone, facts.now)
    facts.pass_time(1.0)
    for _ in facts.stalls.remember():
        pass
    shown = await get(facts, "why?limit=5")
    assert (shown["waited"], shown["waiting"]) == (2, 1)
    assert [(item["identity"], item["present"], item["waits"]) for item in shown["items"]] == [
        ("c1/0/0", True, True),
        ("c9/0/0", False, False),
    ]
    assert [item["last_minute"]["share"] for item in shown["items"]] == [1.0, 0.75]
    assert [len((await get(facts, "why?limit=1"))["items"]), (await ask(facts, "GET", "why?limit=0")).status_code] == [
        1,
        400,
    ]


# --- actions ---------------------------------------------------------------------------------------------------------


async def test_messages_are_looked_at_and_stay():
    facts = Facts(broker=make_broker("a"))
    Peer(facts.broker).publish("a", bodies(3))
    facts.turn()
    peeked = await get(facts, "queues/a/peek?count=2")
    assert [message["sequence"] for message in peeked["messages"]] == [0, 1]
    assert (await get(facts, "queues/a"))["messages_ready"] == 3
    assert (await ask(facts, "GET", "queues/b/peek")).status_code == 404


@pytest.mark.parametrize("body", [{"to": "b"}, {"to": "b", "count": 3}, {"exchange": "", "key": "b"}])
async def test_messages_are_moved(body: dict[str, object]):
    facts = Facts(broker=make_broker("a", "b"))
    Peer(facts.broker).publish("a", bodies(3))
    facts.turn()
    begun = await ask(facts, "POST", "queues/a/move", body=body)
    assert begun.status_code == 202, begun.text
    assert begun.json() == {"move": 1}
    assert (await get(facts, "queues/b"))["messages_ready"] == 3


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ({}, 400, "either to"),
        ({"to": "b", "exchange": "e"}, 400, "either to"),
        ({"to": "b", "count": 0}, 400, "count"),
        ({"to": "nowhere"}, 404, "nowhere"),
        ({"to": "a"}, 400, "to itself"),
        ({"to": "b", "cuont": 1}, 400, "there is no parameter 'cuont'"),
    ],
)
async def test_a_move_that_cannot_be_is_refused(body: dict[str, object], status: int, reason: str):
    facts = Facts(broker=make_broker("a", "b"))
    refused = await ask(facts, "POST", "queues/a/move", body=body)
    assert refused.status_code == status
    assert reason in refused.json()["reason"]


async def test_dead_letters_are_replayed():
    facts = Facts(broker=make_broker("a"))
    assert (await ask(facts, "POST", "queues/a/replay", body={})).json() == {"move": 1}
    assert (await ask(facts, "POST", "queues/b/replay", body={})).status_code == 404


async def test_an_alarm_is_raised_and_cleared_by_hand():
    facts = Facts()
    assert (await ask(facts, "PUT", "alarms/memory")).status_code == 204
    assert (await get(facts, "alarms/memory"))["on"] is True
    assert (await ask(facts, "DELETE", "alarms/memory")).status_code == 204
    assert (await get(facts, "alarms/memory"))["on"] is False
    assert (await ask(facts, "PUT", "alarms/nonsense")).status_code == 400
    assert facts.server.turns > 0


async def test_a_broker_is_drained_and_not_drained():
    facts = Facts()
    assert (await get(facts, "drain"))["draining"] is False
    begun = await ask(facts, "PUT", "drain")
    assert (begun.json()["draining"], begun.json()["since"]) == (True, 1_700_000_000.0)
    assert (await ask(facts, "DELETE", "drain")).json()["draining"] is False


async def test_a_connection_is_closed_with_a_reason():
    facts = Facts()
    facts.server.rows["connections"] = [connection("c1")]
    assert (await ask(facts, "DELETE", "connections/c1?reason=enough")).status_code == 204
    assert (await ask(facts, "DELETE", "connections/c2")).status_code == 404
    assert facts.server.closed == [("c1", "enough"), ("c2", "closed by the operator")]


async def test_links_and_sessions_take_orders():
    facts = Facts()
    facts.server.rows = {"links": [link("c1/0/0")], "sessions": [{"identity": "c1/0"}]}
    for method, path in (
        ("PUT", "links/c1%2F0%2F0/pause"),
        ("DELETE", "links/c1%2F0%2F0/pause"),
        ("PUT", "links/c1%2F0%2F0/credit?max=7"),
        ("DELETE", "links/c1%2F0%2F0/credit"),
        ("DELETE", "links/c1%2F0%2F0?reason=so"),
        ("DELETE", "sessions/c1%2F0"),
    ):
        assert (await ask(facts, method, path)).status_code == 204
    assert facts.server.orders == [
        PauseLink("c1/0/0"),
        ResumeLink("c1/0/0"),
        BoundLink("c1/0/0", 7),
        BoundLink("c1/0/0", None),
        CloseLink("c1/0/0", "so"),
        CloseSession("c1/0", "closed by the operator"),
    ]
    assert (await ask(facts, "PUT", "links/c9%2F0%2F0/pause")).status_code == 404
    assert (await ask(facts, "PUT", "links/c1%2F0%2F0/credit")).status_code == 400
