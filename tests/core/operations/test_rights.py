"""Who may do what: every operation on every surface, for users with each tag. The tests are made from the tables.

A user without the right of an operation is refused on the management node and over HTTP, and nothing is changed.
"""

from dataclasses import replace

import pytest

from core.access.rights import Permission, TopicPermission
from core.operations.all_operations import OPERATIONS
from core.operations.operation import RIGHTS_OF_TAGS, Operation, Right
from tests.core.operations.escalation import (
    ACT_SURFACES,
    FORBIDDEN,
    HTTP_ACTS,
    SURFACES,
    USERS,
    HttpAct,
    act_lines,
    acts_without_a_right,
    attempts,
    basic,
    lines,
    may,
    over_amqp,
    over_http,
    place,
    state,
    with_a_cookie,
    writes_to_names,
)
from tests.core.operations.test_all_operations import names, split
from tests.kit.admin import client_of


def test_the_tags_give_what_they_say():
    assert RIGHTS_OF_TAGS["administrator"] == set(Right)
    given = {right: [user for user in USERS if may(user, right)] for right in Right}
    assert given == {
        Right.MANAGE: ["administrator", "monitoring", "policymaker", "management"],
        Right.MONITOR: ["administrator", "monitoring"],
        Right.OPERATE: ["administrator"],
        Right.CONFIGURE: ["administrator", "policymaker"],
        Right.ADMINISTER: ["administrator"],
    }


def test_no_user_escalates_over_amqp():
    facts = place()
    before, made = state(facts), over_amqp(facts)
    assert [attempt for attempt in made if not attempt.refused] == []
    rights = {operation.name: operation.right.value for operation in OPERATIONS}
    for attempt in made:
        assert f"{attempt.operation} needs the right {rights[attempt.operation]}" in attempt.said
    assert len(made) > 5 * len(OPERATIONS)
    assert state(facts) == before


async def test_no_user_escalates_over_http():
    facts = place()
    before, made = state(facts), await over_http(facts)
    assert [attempt for attempt in made if not attempt.refused] == []
    assert len(made) > 4 * len(OPERATIONS)
    assert state(facts) == before


@pytest.mark.parametrize("with_token", [False, True])
async def test_no_user_escalates_with_a_cookie(with_token: bool):
    """The cookie of a login to the console gives what the tags give, and no write without the text of the login."""
    facts = place()
    before, made = state(facts), await with_a_cookie(facts, with_token=with_token)
    assert [attempt for attempt in made if not attempt.refused] == []
    alone = [attempt for attempt in made if attempt.surface == "cookie alone"]
    assert min(len(alone), len(made) - len(alone)) > 4 * len(OPERATIONS)
    assert state(facts) == before


async def test_the_matrix_has_every_operation_and_tells_what_was_allowed():
    made, changed = await attempts()
    assert not changed
    named = {attempt.operation for attempt in made}
    assert named == {entry.operation.name for entry in place().api()[0].table.entries}
    assert {attempt.surface for attempt in made} == set(SURFACES)
    assert lines(made)[-1].endswith("0 allowed wrongly")
    assert lines([replace(made[0], status=200), *made[1:]])[-1].endswith(" 1 allowed wrongly")


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.method == "GET"], ids=names)
async def test_the_right_is_enough_over_http(operation: Operation):
    """Users with the right see what an operation shows. ``full`` rights to queues are given to all of them."""
    facts = place()
    path, free = split(operation, operation.path, operation.example.parameters)
    async with client_of(facts.application()) as client:
        for user in USERS:
            response = await client.get(f"/api/headgate{path}", params=dict(free), headers=basic(user))
            assert (response.status_code == FORBIDDEN) is not may(user, operation.right), (user, response.text)


@pytest.mark.parametrize("act", HTTP_ACTS)
async def test_over_http_permissions_decide_about_queues_and_exchanges(act: HttpAct):
    assert await act.refusal(lacking=False) is None
    told = await act.refusal(lacking=True)
    assert told is not None
    assert f"{act.what} access to " in told
    assert f"'{act.name}'" in told


def test_every_write_to_queues_and_exchanges_over_http_is_among_the_acts():
    written = {(entry.spelling.method, entry.path) for entry in writes_to_names(place())}
    assert {(act.method, act.template) for act in HTTP_ACTS} == written


async def test_no_act_on_queues_and_exchanges_is_allowed_without_one_of_its_rights():
    made = await acts_without_a_right()
    assert [attempt for attempt in made if not attempt.refused] == []
    assert {attempt.surface for attempt in made} == set(ACT_SURFACES)
    assert act_lines(made)[-1].endswith("0 allowed wrongly")
    assert act_lines([replace(made[0], refused=False), *made[1:]])[-1].endswith(" 1 allowed wrongly")


async def test_peeking_needs_the_right_to_read_too():
    facts = place()
    facts.control.users.set_permission("monitoring", Permission(read="^archive$"))
    async with client_of(facts.application()) as client:
        for queue, status in (("archive", 200), ("orders", FORBIDDEN)):
            response = await client.get(f"/api/headgate/queues/{queue}/messages", headers=basic("monitoring"))
            assert response.status_code == status


async def test_a_user_without_the_virtual_host_manages_nothing():
    facts = place()
    facts.control.users.set_permission("management", None)
    async with client_of(facts.application()) as client:
        for path in ("/api/queues", "/api/whoami", "/api/vhosts"):
            assert (await client.get(path, headers=basic("management"))).status_code == FORBIDDEN


@pytest.mark.parametrize(
    ("name", "key", "allowed"),
    [
        ("orders", None, (False, False, True)),
        ("archive", None, (False, False, False)),
        ("amq.default", None, (False, True, False)),
        ("orders.events", None, (False, True, True)),
        ("orders.events", "reader.new", (False, True, False)),
        ("orders.events", "writer.new", (False, False, False)),
    ],
)
async def test_an_operator_is_told_in_advance_what_a_user_may_do(
    name: str, key: str | None, allowed: tuple[bool, bool, bool]
):
    facts = place()
    users = facts.control.users
    users.set_permission("management", Permission(write="^(amq[.]default|orders[.]events)$", read="^orders"))
    users.set_topic_permission("management", "orders.events", TopicPermission(write="^reader[.]"), "/")
    query = {"name": name} if key is None else {"name": name, "key": key}
    async with client_of(facts.application()) as client:
        path = "/api/headgate/permissions/management"
        answer = (await client.get(path, params=query, headers=basic("administrator"))).json()
        assert tuple(answer[what] for what in ("configure", "write", "read")) == allowed
        assert (answer["user"], answer["vhost"], answer["refusal"]) == ("management", "/", None)
        users.set_permission("management", None)
        answer = (await client.get(path, params=query, headers=basic("administrator"))).json()
        assert not any(answer[what] for what in ("configure", "write", "read"))
        assert answer["refusal"] == "access to vhost '/' refused for user 'management'"
        missing = await client.get("/api/headgate/permissions/noone", params=query, headers=basic("administrator"))
        assert missing.status_code == 404


# --- who asks over HTTP --------------------------------------------------------------------------------------------


async def test_name_and_password_are_checked_and_the_tokens_go_on():
    facts = place()
    asked = [
        ({}, b"t" * 16, 401),
        ({"authorization": "Bearer " + "t" * 16}, b"t" * 16, 200),
        (basic("any", "t" * 16), b"t" * 16, 200),
        (basic("monitoring"), b"t" * 16, 200),
        (basic("monitoring", "wrong"), b"t" * 16, 401),
        (basic("nobody"), b"t" * 16, 401),
        ({"authorization": "Basic !"}, b"t" * 16, 401),
        ({}, None, 200),
        (basic("monitoring", "wrong"), None, 401),
        (basic("plain"), None, FORBIDDEN),
    ]
    for headers, token, status in asked:
        async with client_of(facts.application(token=token)) as client:
            assert (await client.get("/api/nodes", headers=headers)).status_code == status, (headers, token)


async def test_with_users_only_a_request_needs_a_user():
    facts = place()
    async with client_of(facts.application(users_only=True)) as client:
        refused = await client.get("/api/nodes")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Basic realm="Headgate"')
        assert (await client.get("/api/nodes", headers=basic("monitoring"))).status_code == 200
        assert (await client.get("/metrics", headers=basic("monitoring"))).status_code == 200
        assert (await client.get("/metrics", headers=basic("management"))).status_code == FORBIDDEN
        assert (await client.get("/livez")).status_code == 200


async def test_the_log_names_the_user_of_a_write():
    facts = place()
    async with client_of(facts.application()) as client:
        await client.put("/api/queues/%2F/new", headers=basic("management"), json={})
    assert [line["user"] for line in facts.logged("admin-write")] == ["management"]


async def test_users_are_made_and_changed_as_rabbitmqadmin_does():
    facts = place()
    admin = basic("administrator")
    async with client_of(facts.application()) as client:
        made = await client.put("/api/users/shop", headers=admin, json={"password": "one", "tags": "management"})
        assert made.status_code == 201
        assert (await client.get("/api/queues", headers=basic("shop", "one"))).status_code == FORBIDDEN
        permission = {"configure": "", "write": "", "read": "^orders$"}
        for status in (201, 204):
            response = await client.put("/api/permissions/%2F/shop", headers=admin, json=permission)
            assert response.status_code == status
        row = (await client.get("/api/permissions/%2F/shop", headers=admin)).json()
        assert row == {"user": "shop", "vhost": "/", **permission}
        assert (await client.get("/api/queues", headers=basic("shop", "one"))).status_code == 200
        topic = {"exchange": "amq.topic", "write": "^a", "read": ""}
        assert (await client.put("/api/topic-permissions/%2F/shop", headers=admin, json=topic)).status_code == 201
        rows = (await client.get("/api/users/shop/topic-permissions", headers=admin)).json()
        assert rows == [{"user": "shop", "vhost": "/", **topic}]
        changed = await client.put("/api/users/shop", headers=admin, json={"password": "two", "tags": "monitoring"})
        assert changed.status_code == 204
        assert (await client.get("/api/nodes", headers=basic("shop", "one"))).status_code == 401
        assert (await client.get("/api/nodes", headers=basic("shop", "two"))).status_code == 200
        listed = (await client.get("/api/users", headers=admin)).json()
        assert {"name": "shop", "password_hash": "", "tags": ["monitoring"], "limits": {}} in listed
        exported = (await client.get("/api/definitions", headers=admin)).json()
        (user,) = [one for one in exported["users"] if one["name"] == "shop"]
        assert user["hashing_algorithm"] == "headgate_scram_sha256"
        assert (await client.get("/api/definitions", headers=basic("shop", "two"))).json()["users"] == []
        assert (await client.request("DELETE", "/api/users/shop", headers=admin)).status_code == 204
        assert (await client.get("/api/nodes", headers=basic("shop", "two"))).status_code == 401
