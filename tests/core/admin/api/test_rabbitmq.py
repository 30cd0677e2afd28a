"""RabbitMQ's management API, as far as it is offered: what its users' scripts read and do."""

from typing import Any

import httpx
import pytest

from tests.kit.admin import Facts, client_of
from tests.kit.engine import Peer, binding, bodies, exchange, make_broker, queue

WRITE = {"x-headgate-request": "1"}
CONNECTION = {
    "identity": "c1",
    "protocol": "amqp-1.0",
    "state": "OPENED",
    "container_id": "shop",
    "user": "guest",
    "remote_host": "127.0.0.1",
    "remote_port": 4711,
    "local_host": "127.0.0.1",
    "local_port": 5672,
    "accepted_at": 1_700_000_000.5,
    "bytes_in": 1,
    "bytes_out": 2,
    "unsent_bytes": 3,
    "sessions": 1,
}
CHANNEL = {
    "identity": "c2/1",
    "connection": "c2",
    "channel": 1,
    "stage_credit_state": "flow",
    "confirming": True,
    "transactional": False,
    "unacked": 4,
    "unconfirmed": 5,
    "consumers": 1,
    "prefetch_count": 10,
    "channel_prefetch_count": 0,
}


async def ask(facts: Facts, method: str, path: str, *, body: object = None) -> httpx.Response:
    async with client_of(facts.application(), **WRITE) as client:
        return await client.request(method, f"/api/{path}", json=body)


async def get(facts: Facts, path: str) -> Any:
    response = await ask(facts, "GET", path)
    assert response.status_code == 200, response.text
    return response.json()


async def status(facts: Facts, method: str, path: str, *, body: object = None) -> int:
    return (await ask(facts, method, path, body=body)).status_code


def names(rows: list[dict[str, object]]) -> list[object]:
    return [row["name"] for row in rows]


# --- reading ---------------------------------------------------------------------------------------------------------


async def test_the_overview_has_totals_and_rates():
    facts = Facts(broker=make_broker("a"))
    Peer(facts.broker).publish("a", bodies(3))
    facts.turn()
    facts.traffic["amqp10"].messages_received = 3
    overview = await get(facts, "overview")
    assert overview["product_name"] == "Headgate"
    assert overview["rabbitmq_version"].startswith("4.")
    assert overview["queue_totals"] == {"messages": 3, "messages_ready": 3, "messages_unacknowledged": 0}
    assert overview["object_totals"]["queues"] == 1
    assert overview["message_stats"]["publish"] == 3
    assert overview["message_stats"]["publish_details"] == {"rate": 0.0}
    assert overview["listeners"][0]["port"] == 5672


async def test_there_is_one_node_and_one_virtual_host():
    facts = Facts()
    (node,) = await get(facts, "nodes")
    assert (node["name"], node["running"], node["fd_total"]) == ("headgate@here", True, 1024)
    assert (await get(facts, "nodes/headgate@here"))["sockets_total"] == 900
    assert await status(facts, "GET", "nodes/elsewhere") == 404
    assert names(await get(facts, "vhosts")) == ["/"]
    assert await status(facts, "GET", "vhosts/%2F") == 200
    assert await status(facts, "GET", "vhosts/other") == 404
    assert await status(facts, "GET", "queues/other") == 404


async def test_queues_are_listed_and_found():
    facts = Facts(broker=make_broker("a", "b/c"))
    assert names(await get(facts, "queues")) == ["a", "b/c"]
    assert names(await get(facts, "queues/%2F")) == ["a", "b/c"]
    row = await get(facts, "queues/%2F/b%2Fc")
    assert (row["vhost"], row["type"], row["durable"], row["messages"]) == ("/", "classic", True, 0)
    assert await status(facts, "GET", "queues/%2F/d") == 404


async def test_a_list_has_pages():
    facts = Facts(broker=make_broker(*(f"q{number}" for number in range(10)), "other"))
    page = await get(facts, "queues?page=2&page_size=4&name=q&use_regex=false")
    assert names(page.pop("items")) == ["q4", "q5", "q6", "q7"]
    assert page == {
        "filtered_count": 10,
        "item_count": 4,
        "page": 2,
        "page_count": 3,
        "page_size": 4,
        "total_count": 11,
    }
    assert await status(facts, "GET", "queues?page=4&page_size=4") == 400
    assert await status(facts, "GET", "queues?page=1&use_regex=true&name=(?=q)") == 400


async def test_a_list_has_an_order_and_columns():
    facts = Facts(broker=make_broker("a", "c", "b"))
    rows = await get(facts, "queues?sort=name&sort_reverse=true&columns=name,message_stats.publish&disable_stats=true")
    assert rows == [{"name": name, "message_stats": {"publish": 0}} for name in ("c", "b", "a")]
    assert await get(facts, "queues/%2F/a?columns=name,nothing") == {"name": "a"}


async def test_connections_and_channels_are_told_in_its_words():
    facts = Facts()
    facts.server.rows = {"connections": [CONNECTION, {**CONNECTION, "identity": "c2"}], "channels": [CHANNEL]}
    row = await get(facts, "connections/c1")
    assert (row["name"], row["protocol"], row["state"], row["peer_port"]) == ("c1", "AMQP 1-0", "running", 4711)
    assert (row["connected_at"], row["user_provided_name"]) == (1_700_000_000_500, "shop")
    assert names(await get(facts, "connections")) == names(await get(facts, "vhosts/%2F/connections")) == ["c1", "c2"]
    channel = await get(facts, "channels/c2%2F1")
    assert (channel["number"], channel["messages_unacknowledged"], channel["confirm"]) == (1, 4, True)
    assert channel["connection_details"] == {"name": "c2", "peer_host": "127.0.0.1", "peer_port": 4711}
    assert await get(facts, "channels") == await get(facts, "connections/c2/channels") == [channel]
    assert await get(facts, "connections/c1/channels") == []


@pytest.mark.parametrize("protected", [False, True])
async def test_a_connection_says_whether_it_has_tls(protected: bool):
    facts = Facts()
    tls = {"tls": "TLSv1.3", "cipher": "TLS_AES_256_GCM_SHA384", "client_certificate": "CN=alice"} if protected else {}
    facts.server.rows = {"connections": [CONNECTION | tls]}
    row = await get(facts, "connections/c1")
    assert row["ssl"] is protected
    told = (row["ssl_protocol"], row["ssl_cipher"], row["peer_cert_subject"])
    assert told == (tuple(tls.values()) if protected else (None, None, None))


async def test_consumers_are_listed():
    facts = Facts(broker=make_broker("a"))
    Peer(facts.broker).consume("a")
    (consumer,) = await get(facts, "consumers")
    assert consumer["queue"] == {"name": "a", "vhost": "/"}
    assert [consumer[fact] for fact in ("ack_required", "prefetch_count", "consumer_timeout")] == [True, 0, 0]
    assert await get(facts, "consumers/%2F") == [consumer]


async def test_a_consumer_tells_its_bounds_and_that_it_settles_nothing():
    facts = Facts(broker=make_broker("a"))
    limits = {"max-unsettled": 5, "consumer-timeout": 60_000}
    facts.set_policy(name="slow", pattern=".*", priority=0, apply_to="queues", definition=limits)
    Peer(facts.broker).consume("a", settled_when_sent=True)
    (consumer,) = await get(facts, "consumers")
    assert [consumer[fact] for fact in ("ack_required", "prefetch_count", "consumer_timeout")] == [False, 5, 60_000]


async def test_a_connection_that_is_not_open_yet_has_a_row_too():
    facts = Facts()
    bare = {key: CONNECTION[key] for key in CONNECTION if key not in ("state", "container_id", "user", "sessions")}
    facts.server.rows["connections"] = [{**bare, "protocol": None}]
    (row,) = await get(facts, "connections")
    assert (row["state"], row["protocol"], row["channels"]) == (None, None, 0)


async def test_users_have_no_secrets():
    facts = Facts()
    assert await get(facts, "users") == [
        {"name": "guest", "password_hash": "", "tags": ["administrator"], "limits": {}}
    ]
    assert (await get(facts, "users/guest"))["name"] == "guest"
    assert await status(facts, "GET", "users/nobody") == 404
    assert (await get(facts, "whoami"))["tags"] == ["administrator"]


async def test_definitions_have_what_is_declared():
    facts = Facts(broker=make_broker("kept"))
    facts.broker.declare_queue(queue("passing", durable=False), "owner")
    facts.broker.declare_exchange(exchange("orders"))
    facts.broker.bind(binding("orders", "kept", "key"), "owner")
    facts.broker.bind(binding("orders", "passing", "key"), "owner")
    facts.set_policy(name="p", pattern="^k", priority=3, apply_to="queues", definition={"max-length": 5})
    document = await get(facts, "definitions")
    assert names(document["queues"]) == ["kept", "passing"]
    assert names(document["exchanges"]) == ["orders"]
    assert [(row["destination"], row["routing_key"]) for row in document["bindings"]] == [
        ("kept", "key"),
        ("passing", "key"),
    ]
    assert document["policies"][0]["apply-to"] == "queues"
    assert document["vhosts"] == [{"name": "/"}]
    assert document["users"] == []


async def test_definitions_of_one_broker_are_made_in_another():
    facts, other = Facts(broker=make_broker("a")), Facts()
    facts.broker.declare_exchange(exchange("orders"))
    facts.broker.bind(binding("orders", "a", "key"), "owner")
    facts.set_policy(name="p", pattern="^k", priority=3, apply_to="queues", definition={"max-length": 5})
    document = await get(facts, "definitions")
    for _ in range(2):
        assert await status(other, "POST", "definitions", body=document) == 204
        assert await get(other, "definitions/%2F") == document


async def test_definitions_that_cannot_be_are_refused_as_a_whole():
    facts = Facts(broker=make_broker("a"))
    conflict = {"queues": [{"name": "b", "durable": True}, {"name": "a", "durable": False}]}
    refused = await ask(facts, "POST", "definitions", body=conflict)
    assert refused.status_code == 409
    assert "queue 'a' is different" in refused.json()["reason"]
    wrong = await ask(facts, "POST", "definitions", body={"queues": [{"name": 5}] * 9})
    assert wrong.status_code == 400
    assert "queues[0].name" in wrong.json()["reason"]
    assert "more" in wrong.json()["reason"]
    assert names(await get(facts, "queues")) == ["a"]


# --- health ----------------------------------------------------------------------------------------------------------


async def test_health_checks_say_ok_or_why_not():
    facts = Facts()
    checks = ("alarms", "local-alarms", "virtual-hosts", "ready-to-serve-clients")
    assert [(await get(facts, f"health/checks/{check}"))["status"] for check in checks] == ["ok"] * 4
    facts.broker.set_alarm("disk")
    facts.server.leaving = True
    failed = await ask(facts, "GET", "health/checks/alarms")
    assert failed.status_code == 503
    assert failed.json()["alarms"] == [{"node": "headgate@here", "resource": "disk"}]
    assert [await status(facts, "GET", f"health/checks/{check}") for check in checks] == [503, 503, 200, 503]


async def test_listeners_are_checked():
    facts = Facts()
    assert await get(facts, "health/checks/port-listener/5672") == {"status": "ok", "port": 5672}
    missing = await ask(facts, "GET", "health/checks/port-listener/5671")
    assert missing.status_code == 503
    assert (missing.json()["missing"], missing.json()["ports"]) == (5671, [5672])
    assert await status(facts, "GET", "health/checks/port-listener/amqp") == 400
    assert await status(facts, "GET", "health/checks/port-listener/99999") == 400
    for protocol in ("amqp", "AMQP091", "amqp1.0"):
        assert (await get(facts, f"health/checks/protocol-listener/{protocol}"))["protocol"] == "amqp"
    assert await status(facts, "GET", "health/checks/protocol-listener/mqtt") == 503


# --- changes ---------------------------------------------------------------------------------------------------------


async def test_a_queue_is_declared_and_deleted():
    facts = Facts()
    assert await status(facts, "PUT", "queues/%2F/a%2Fb", body={"arguments": {"x-max-length": 5}}) == 201
    assert await status(facts, "PUT", "queues/%2F/a%2Fb", body={"arguments": {"x-max-length": 5}}) == 204
    other = await ask(facts, "PUT", "queues/%2F/a%2Fb", body={})
    assert other.status_code == 400
    assert "x-max-length" in other.json()["reason"]
    assert (await get(facts, "queues/%2F/a%2Fb"))["arguments"] == {"x-max-length": 5}
    assert await status(facts, "DELETE", "queues/%2F/a%2Fb") == 204
    assert await status(facts, "DELETE", "queues/%2F/a%2Fb") == 404
    assert await status(facts, "PUT", "queues/%2F/amq.mine", body={}) == 403


async def test_what_its_command_line_sends_is_taken():
    facts = Facts()
    queue_body = {"auto_delete": "false", "durable": "true", "arguments": {}, "name": "a", "vhost": "/", "node": None}
    assert await status(facts, "PUT", "queues/%2F/a", body=queue_body) == 201
    exchange_body = {"name": "e", "vhost": "/", "type": "fanout", "auto_delete": "false", "internal": "false"}
    assert await status(facts, "PUT", "exchanges/%2F/e", body=exchange_body) == 201
    binding_body = {"source": "e", "destination": "a", "destination_type": "queue", "routing_key": "", "vhost": "/"}
    assert await status(facts, "POST", "bindings/%2F/e/e/q/a", body=binding_body) == 201
    policy_body = {"name": "p", "pattern": "^a", "definition": {"max-length": 5}, "priority": "-3", "vhost": "/"}
    assert await status(facts, "PUT", "policies/%2F/p", body=policy_body) == 201
    assert (await get(facts, "queues/%2F/a"))["auto_delete"] is False
    assert (await get(facts, "policies/%2F/p"))["priority"] == -3


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("queues/%2F/a", {"name": "b"}, "name: the path says 'a'"),
        ("queues/%2F/a", {"vhost": "other"}, "vhost: the path says '/'"),
        ("queues/%2F/a", {"exclusive": True}, "exclusive"),
        ("queues/%2F/a", {"durable": "yes"}, "durable"),
        ("policies/%2F/p", {"pattern": "", "definition": {}, "priority": "much"}, "priority"),
        ("policies/%2F/p", {"pattern": "", "definition": {}, "priority": 2**31}, "priority"),
    ],
)
async def test_a_body_that_contradicts_is_refused(path: str, body: dict[str, object], reason: str):
    refused = await ask(Facts(), "PUT", path, body=body)
    assert refused.status_code == 400
    assert reason in refused.json()["reason"]


async def test_a_queue_is_kept_while_it_is_in_use():
    facts = Facts(broker=make_broker("a"))
    peer = Peer(facts.broker)
    peer.publish("a", bodies(2))
    peer.consume("a")
    facts.turn()
    assert await status(facts, "DELETE", "queues/%2F/a?if-empty=true") == 400
    assert await status(facts, "DELETE", "queues/%2F/a?if-unused=true") == 400
    assert await status(facts, "DELETE", "queues/%2F/a/contents") == 204
    assert (await get(facts, "queues/%2F/a"))["messages"] == 0
    assert await status(facts, "DELETE", "queues/%2F/a?if-empty=true") == 204


async def test_an_exclusive_queue_is_its_owners():
    facts = Facts()
    facts.broker.declare_queue(queue("mine", exclusive=True), "somebody")
    assert await status(facts, "DELETE", "queues/%2F/mine") == 409
    assert await status(facts, "DELETE", "queues/%2F/mine/contents") == 409


async def test_exchanges_are_declared_and_deleted():
    facts = Facts(broker=make_broker("a"))
    assert await status(facts, "PUT", "exchanges/%2F/e", body={"type": "topic"}) == 201
    assert await status(facts, "PUT", "exchanges/%2F/e", body={"type": "topic"}) == 204
    assert await status(facts, "PUT", "exchanges/%2F/f", body={"type": "nonsense"}) == 400
    assert await status(facts, "PUT", "exchanges/%2F/f", body={}) == 400
    assert (await get(facts, "exchanges/%2F/e"))["type"] == "topic"
    assert "" in names(await get(facts, "exchanges/%2F"))
    assert await status(facts, "GET", "exchanges/%2F/") == 200
    assert await status(facts, "POST", "bindings/%2F/e/e/q/a", body={"routing_key": "k"}) == 201
    assert await status(facts, "DELETE", "exchanges/%2F/e?if-unused=true") == 400
    assert await status(facts, "DELETE", "exchanges/%2F/e") == 204
    assert await status(facts, "DELETE", "exchanges/%2F/e") == 404


@pytest.mark.parametrize(
    "body", [{"routing_key": "a/b.#"}, {}, {"routing_key": "k", "arguments": {"x": 1, "y": [True, "z"]}}]
)
async def test_a_binding_is_removed_by_its_properties_key(body: dict[str, object]):
    facts = Facts(broker=make_broker("a"))
    between = "bindings/%2F/e/amq.topic/q/a"
    assert await status(facts, "POST", between, body=body) == 201
    assert await status(facts, "POST", between, body={"routing_key": "another"}) == 201
    (row,) = [row for row in await get(facts, between) if row["routing_key"] == body.get("routing_key", "")]
    key = httpx.URL(f"http://x/?{httpx.QueryParams({'k': row['properties_key']})}").query.decode().removeprefix("k=")
    assert await get(facts, f"{between}/{key}") == row
    assert row in await get(facts, "queues/%2F/a/bindings")
    assert row in await get(facts, "exchanges/%2F/amq.topic/bindings/source")
    assert await status(facts, "DELETE", f"{between}/{key}") == 204
    assert await status(facts, "DELETE", f"{between}/{key}") == 404
    assert [row["routing_key"] for row in await get(facts, between)] == ["another"]


async def test_exchanges_are_bound_to_exchanges():
    facts = Facts()
    assert await status(facts, "POST", "bindings/%2F/e/amq.topic/e/amq.fanout", body={}) == 201
    (row,) = await get(facts, "exchanges/%2F/amq.fanout/bindings/destination")
    assert (row["source"], row["destination_type"], row["properties_key"]) == ("amq.topic", "exchange", "~")
    assert await status(facts, "POST", "bindings/%2F/e/amq.topic/x/amq.fanout", body={}) == 404
    assert await status(facts, "POST", "bindings/%2F/e/nowhere/q/a", body={}) == 404
    long = await ask(facts, "POST", "bindings/%2F/e/amq.topic/e/amq.fanout", body={"routing_key": "ü" * 128})
    assert long.status_code == 400
    assert "routing_key must have at most 255 bytes" in long.json()["reason"]


async def test_every_queue_is_bound_to_the_default_exchange():
    (row,) = await get(Facts(broker=make_broker("a")), "bindings/%2F")
    assert (row["source"], row["destination"], row["routing_key"]) == ("", "a", "a")


async def test_policies_are_set_and_cleared():
    facts = Facts()
    body = {"pattern": "^a", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}
    assert await status(facts, "PUT", "policies/%2F/p", body=body) == 201
    assert await status(facts, "PUT", "policies/%2F/p", body=body) == 204
    assert await get(facts, "policies/%2F/p") == {"vhost": "/", "name": "p", **body}
    assert await get(facts, "policies") == await get(facts, "policies/%2F")
    assert await status(facts, "PUT", "policies/%2F/p", body={**body, "definition": {"nonsense": 1}}) == 400
    assert await status(facts, "PUT", "policies/%2F/p", body={"pattern": "^a"}) == 400
    assert await status(facts, "DELETE", "policies/%2F/p") == 204
    assert await status(facts, "DELETE", "policies/%2F/p") == 404


async def test_a_connection_is_closed():
    facts = Facts()
    facts.server.rows["connections"] = [CONNECTION]
    async with client_of(facts.application(), **WRITE) as client:
        assert (await client.delete("/api/connections/c1", headers={"x-reason": "enough"})).status_code == 204
        assert (await client.delete("/api/connections/c2")).status_code == 404
    assert facts.server.closed == [("c1", "enough"), ("c2", "closed by the operator")]


async def test_the_connections_of_a_user_are_listed_and_closed():
    facts = Facts()
    facts.server.rows["connections"] = [CONNECTION, CONNECTION | {"identity": "c2", "user": "shop"}]
    assert names(await get(facts, "connections/username/shop")) == ["c2"]
    assert await get(facts, "connections/username/till") == []
    async with client_of(facts.application(), **WRITE) as client:
        assert (await client.delete("/api/connections/username/till")).status_code == 204
        assert facts.server.closed == []
        closed = await client.delete("/api/connections/username/shop", headers={"x-reason": "it left"})
        assert closed.status_code == 204
    assert facts.server.closed == [("c2", "it left")]


async def test_certificates_are_checked():
    facts = Facts()
    check = "health/checks/certificate-expiration"
    assert await get(facts, f"{check}/1/months") == {"status": "ok"}
    row = {"identity": "default", "path": "server.pem", "subject": "CN=localhost", "days_left": 20.5}
    facts.server.rows["certificates"] = [row]
    assert await get(facts, f"{check}/20/days") == {"status": "ok"}
    failed = await ask(facts, "GET", f"{check}/3/weeks")
    assert failed.status_code == 503
    shown = {"path": "server.pem", "subject": "CN=localhost", "days_left": 20.5}
    assert failed.json()["certificates"] == [shown]
    for wrong in ("20/hours", "many/days", "123456/days"):
        assert await status(facts, "GET", f"{check}/{wrong}") == 400
