"""Virtual hosts over HTTP: RabbitMQ's paths, rights across virtual hosts, and definitions there and back."""

import pytest

from core.access.rights import FULL
from core.clock import Now
from core.flow_facts import StallSubject
from core.interface import FlowReason, QueueDeclaration
from core.virtual_hosts import shown_name
from tests.core.operations.escalation import FORBIDDEN, basic, place
from tests.kit.admin import Facts, client_of


def two() -> Facts:
    """A broker whose virtual hosts / and b have a queue each, and whose user management may do all on / and none on b.
    The user with the tag administrator may do all on b."""
    facts = place()
    control = facts.control
    control.users.virtual_hosts = lambda: control.hosts.names
    control.hosts.closing = control.users.close_virtual_host
    control.hosts.forget_rights = control.users.forget_virtual_host
    control.hosts.add("b")
    control.hosts.named("b").declare_queue(QueueDeclaration(name="only-b", arguments={}), "setup")
    control.users.set_permission("management", FULL)
    control.users.set_permission("policymaker", FULL)
    control.users.set_permission("administrator", FULL, "b")
    return facts


@pytest.mark.parametrize(
    ("method", "path", "user"),
    [
        ("GET", "/api/queues/b", "management"),
        ("GET", "/api/queues/b/only-b", "management"),
        ("GET", "/api/exchanges/b", "management"),
        ("GET", "/api/bindings/b", "management"),
        ("GET", "/api/vhosts/b", "management"),
        ("PUT", "/api/queues/b/new", "management"),
        ("DELETE", "/api/queues/b/only-b", "management"),
        ("DELETE", "/api/queues/b/only-b/contents", "management"),
        ("PUT", "/api/exchanges/b/new", "management"),
        ("POST", "/api/bindings/b/e/amq.direct/q/only-b", "management"),
        ("PUT", "/api/policies/b/p", "policymaker"),
        ("DELETE", "/api/policies/b/p", "policymaker"),
        ("GET", "/api/headgate/queues/only-b/messages?vhost=b", "monitoring"),
        ("DELETE", "/api/vhosts/b", "management"),
        ("PUT", "/api/vhosts/c", "policymaker"),
        ("PUT", "/api/vhost-limits/b/max-queues", "management"),
        ("GET", "/api/queues/nowhere", "management"),
    ],
)
async def test_a_user_reaches_nothing_of_another_virtual_host(method: str, path: str, user: str):
    facts = two()
    bodies = {
        "/api/policies/b/p": {"pattern": "x", "definition": {"max-length": 1}},
        "/api/exchanges/b/new": {"type": "direct"},
    }
    body = {"value": 1} if "limits" in path else bodies.get(path, {})
    async with client_of(facts.application()) as client:
        response = await client.request(
            method, path, headers=basic(user), json=body if method in ("PUT", "POST") else None
        )
    assert response.status_code == FORBIDDEN, response.text
    assert [row["name"] for row in facts.control.hosts.named("b").snapshot("queues")] == ["only-b"]


async def test_a_user_is_told_that_the_permission_is_missing_and_not_the_tag():
    async with client_of(two().application()) as client:
        refused = await client.get("/api/queues/b", headers=basic("management"))
    assert "user 'management' has the tag for it, and no permission on the virtual host 'b'" in refused.text


async def test_lists_without_a_virtual_host_have_what_the_user_may_see():
    facts = two()
    async with client_of(facts.application()) as client:
        for user, hosts in (("management", {"/"}), ("administrator", {"b"})):
            if user == "administrator":
                facts.control.users.set_permission(user, None)
            rows = (await client.get("/api/queues", headers=basic(user))).json()
            assert {row["vhost"] for row in rows} == hosts
            rows = (await client.get("/api/vhosts", headers=basic(user))).json()
            assert {row["name"] for row in rows} == hosts


async def test_rabbitmqs_paths_make_limit_and_delete():
    facts, headers = two(), basic("administrator")
    async with client_of(facts.application()) as client:
        assert (await client.put("/api/vhosts/c", headers=headers, json={})).status_code == 201
        assert (await client.put("/api/vhosts/c", headers=headers, json={})).status_code == 204
        assert (await client.put("/api/queues/c/q", headers=headers, json={})).status_code == 201, "its maker may"
        limit = "/api/vhost-limits/c/max-queues"
        assert (await client.put(limit, headers=headers, json={"value": 1})).status_code == 204
        assert (await client.get("/api/vhost-limits/c", headers=headers)).json() == [
            {"vhost": "c", "value": {"max-queues": 1}}
        ]
        refused = await client.put("/api/queues/c/more", headers=headers, json={})
        assert (refused.status_code, "max-queues" in refused.json()["reason"]) == (409, True)
        assert (await client.delete(limit, headers=headers)).status_code == 204
        assert (await client.delete("/api/vhosts/c", headers=headers)).status_code == 204
        assert (await client.delete("/api/vhosts/%2F", headers=headers)).status_code == FORBIDDEN
        assert (await client.get("/api/queues/c", headers=headers)).status_code == 404
    hosts = facts.control.hosts
    for second in range(20):
        hosts.turn(Now(facts.now.monotonic + second, facts.now.wall))
    assert hosts.names == ["/", "staging", "b"]
    assert "c" not in facts.control.users.record("administrator").permissions


async def test_definitions_go_there_and_back_with_all_virtual_hosts():
    facts, headers = two(), basic("administrator")
    async with client_of(facts.application()) as client:
        await client.put("/api/vhost-limits/b/max-connections", headers=headers, json={"value": 9})
        await client.put("/api/policies/b/p", headers=headers, json={"pattern": "x", "definition": {"max-length": 1}})
        document = (await client.get("/api/definitions", headers=headers)).json()
        one = (await client.get("/api/definitions/b", headers=headers)).json()
    assert [host["name"] for host in document["vhosts"]] == ["/", "staging", "b"]
    assert {(queue["vhost"], queue["name"]) for queue in document["queues"]} >= {("/", "orders"), ("b", "only-b")}
    assert document["parameters"] == [
        {"vhost": "b", "component": "vhost-limits", "name": "limits", "value": {"max-connections": 9}}
    ]
    assert {queue["vhost"] for queue in one["queues"]} == {"b"}
    other = place()
    control = other.control
    control.users.virtual_hosts = lambda: control.hosts.names
    async with client_of(other.application()) as client:
        sent = await client.post("/api/definitions", headers=headers, json=document)
        assert sent.status_code == 204, sent.text
        again = (await client.get("/api/definitions", headers=headers)).json()
    assert control.hosts.limits("b").shown() == {"max-connections": 9}
    assert control.users.record("administrator").permissions["b"] == FULL
    for kind in ("vhosts", "queues", "exchanges", "bindings", "policies", "permissions", "parameters"):
        assert again[kind] == document[kind], kind


async def test_connections_and_what_belongs_to_them_are_listed_for_all_virtual_hosts_or_for_one():
    facts = two()
    hosts = {"c1": "/", "c2": "b", "c3": None}  # c3 has not named one yet
    for kind, end in (("connections", ""), ("sessions", "/0"), ("links", "/0/0"), ("channels", "/1")):
        facts.server.rows[kind] = [
            {"identity": one + end, "connection": one, "vhost": host, "publishes_to": [], "direction": "in"}
            | {"address": "/queues/only-b"}
            for one, host in hosts.items()
        ]
    for one, host in (("c1", "/"), ("c2", "b")):
        who = StallSubject(
            identity=f"{one}/0/0",
            connection=one,
            peer="",
            container_id="",
            user="",
            direction="in",
            address=shown_name(host, "/queues/only-b"),
            virtual_host=host,
        )
        facts.stalls.blocked(who, FlowReason.QUEUE_FULL, "queue only-b", facts.now)
    facts.now = Now(200.0, 1_700_000_100.0)

    async def shown(kind: str, query: str = "") -> set[str]:
        response = await client.get(f"/api/headgate/{kind}{query}", headers=basic("monitoring"))
        rows = response.json()["edges" if kind == "flow-map" else "items"]
        return {str(row["identity"]).partition("/")[0] for row in rows}

    async with client_of(facts.application()) as client:
        for kind in ("connections", "sessions", "links", "channels"):
            assert await shown(kind) == {"c1", "c2", "c3"}
            assert await shown(kind, "?vhost=/") == {"c1", "c3"}
            assert await shown(kind, "?vhost=b") == {"c2"}
        assert (await shown("stalls"), await shown("stalls", "?vhost=b")) == ({"c1", "c2"}, {"c2"})
        assert (await shown("flow-map"), await shown("flow-map", "?vhost=b")) == ({"c1", "c3"}, {"c2"})
        everywhere = (await client.get("/api/headgate/stalls", headers=basic("monitoring"))).json()["items"]
        assert [row["address"] for row in everywhere] == ["/queues/only-b", "vhost:b:/queues/only-b"]
        of_one = (await client.get("/api/headgate/stalls?vhost=b", headers=basic("monitoring"))).json()["items"]
        assert [row["address"] for row in of_one] == ["/queues/only-b"]
        assert (await client.get("/api/headgate/links/c2%2F0%2F0", headers=basic("monitoring"))).status_code == 200
        unknown = await client.get("/api/headgate/links?vhost=nowhere", headers=basic("monitoring"))
        assert unknown.status_code == 404
