"""Who may do what: every operation on every surface, for users with each tag. The tests are made from the tables.

A user without the right of an operation is refused on the management node and over HTTP, and nothing is changed.
"""

import base64
import re
from collections.abc import Mapping

import pytest

from amqp10.conversion.converter import MessageConverter
from core.access.login import NewPassword
from core.access.records import UserRecord
from core.access.rights import FULL, TAGS, Permission
from core.admin.console.login import LOGIN_PATH
from core.amqp091.plain_messages import PlainMessages
from core.operations.all_operations import OPERATIONS
from core.operations.operation import RIGHTS_OF_TAGS, Operation, Right
from core.operations.table import PathEntry
from core.slices import run_at_once
from tests.core.operations.test_all_operations import document, names, shop, split
from tests.kit.admin import Facts, client_of
from tests.kit.management import Console, decode_answer, encode_request, respond
from tests.kit.tokens import ALL, make_token, token_access

PASSWORD = "a password of a user"
USERS: Mapping[str, UserRecord] = {
    tag: UserRecord(name=tag, tags=(tag,), permissions={"/": FULL}) for tag in (*TAGS, "unknown-tag")
} | {"plain": UserRecord(name="plain", permissions={"/": FULL})}
"""A user with each tag, and one without any; all of them may do everything with queues and exchanges."""
STATE = ("queues", "exchanges", "bindings", "policies", "alarms")
FORBIDDEN = 403


def place() -> Facts:
    """The broker of the examples, with these users."""
    facts = shop()
    secret = run_at_once(NewPassword(facts.control.logins, PASSWORD).hashing())
    for record in USERS.values():
        facts.control.users.set(UserRecord(**{**{f: getattr(record, f) for f in record.__slots__}, "secret": secret}))
    return facts


def may(user: str, right: Right) -> bool:
    return any(right in RIGHTS_OF_TAGS.get(tag, ()) for tag in USERS[user].tags)


def state(facts: Facts) -> object:
    rows = {kind: facts.control.snapshot(kind) for kind in STATE}
    kept = ("name", "messages_ready", "definition", "on", "binding_key", "destination", "arguments")
    seen = {kind: [[row.get(key) for key in kept] for row in found] for kind, found in rows.items()}
    return seen, [record.render() for record in facts.control.users.records()], facts.server.closed, facts.server.orders


def basic(user: str, password: str = PASSWORD) -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


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
    console = Console()
    node = console.node
    tried = 0
    before = state(facts)
    for operation in OPERATIONS:
        for user in USERS:
            if may(user, operation.right):
                continue
            for spelling in operation.spellings:
                path, free = split(operation, spelling.path, operation.example.parameters)
                body = document(operation, free) if spelling.method in ("PUT", "POST") else None
                request = encode_request(spelling.method, f"/headgate{path}", body)
                answer = decode_answer(
                    respond(node, console.broker, request, rights=facts.control.users.rights_of(user))
                )
                assert answer.status == FORBIDDEN, (operation.name, user)
                assert f"{operation.name} needs the right {operation.right.value}" in str(answer.body)
                tried += 1
    assert tried > 5 * len(OPERATIONS)
    assert state(facts) == before


async def test_no_user_escalates_over_http():
    facts = place()
    api, _ = facts.api()
    before, tried = state(facts), 0
    async with client_of(facts.application(api=api)) as client:
        for entry in api.table.entries:
            operation, path = entry.operation, example_path(entry)
            for user in USERS:
                if may(user, operation.right):
                    continue
                sends = entry.spelling.method in ("PUT", "POST")
                response = await client.request(
                    entry.spelling.method, path, headers=basic(user), json={} if sends else None
                )
                assert response.status_code == FORBIDDEN, (operation.name, user, response.text)
                tried += 1
    assert tried > 4 * len(OPERATIONS)
    assert state(facts) == before


@pytest.mark.parametrize("with_token", [False, True])
async def test_no_user_escalates_with_a_cookie(with_token: bool):
    """The cookie of a login to the console gives what the tags give, and no write without the text of the login. The
    tags are those of the user, or of a token of OAuth 2 that is given as the password of an administrator."""
    facts = place()
    facts.control.logins.tokens = token_access().tokens
    api, _ = facts.api()
    app = facts.application(api=api, users_only=True)
    before, tried, unmarked = state(facts), 0, 0
    for user in USERS:
        async with client_of(app, **{"x-headgate-request": "1", "origin": "http://127.0.0.1:15692"}) as client:
            given = {"user": user, "password": PASSWORD}
            if with_token:
                given = {"user": "administrator", "password": make_token(sub=user, scope=f"{ALL} broker.tag:{user}")}
            login = await client.post(LOGIN_PATH, json=given)
            has_tag = any(may(user, right) for right in Right)
            assert (login.status_code == 200) is has_tag, (user, login.text)
            mark = {"x-headgate-csrf": login.json()["csrf_token"]} if has_tag else {}
            for entry in api.table.entries:
                operation, path = entry.operation, example_path(entry)
                method, sends = entry.spelling.method, entry.spelling.method in ("PUT", "POST")
                shown = has_tag and operation.name in login.json()["operations"]
                assert shown is may(user, operation.right), (operation.name, user)
                if method != "GET":
                    response = await client.request(method, path, json={} if sends else None)
                    assert response.status_code == (FORBIDDEN if has_tag else 401), (operation.name, user)
                    unmarked += 1
                if may(user, operation.right):
                    continue
                response = await client.request(method, path, headers=mark, json={} if sends else None)
                assert response.status_code == (FORBIDDEN if has_tag else 401), (operation.name, user)
                tried += 1
    assert min(tried, unmarked) > 4 * len(OPERATIONS)
    assert state(facts) == before


def example_path(entry: PathEntry) -> str:
    """The path with some value for each parameter."""
    choices = {one.name: one.choices[0] for one in entry.operation.parameters if one.choices}
    given = {"queue": "orders", "name": "orders", **choices}
    return re.sub(r"{(\w+)}", lambda match: str(given.get(match[1], "any")).replace("/", "%2F"), entry.path)


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.method == "GET"], ids=names)
async def test_the_right_is_enough_over_http(operation: Operation):
    """Users with the right see what an operation shows. ``full`` rights to queues are given to all of them."""
    facts = place()
    path, free = split(operation, operation.path, operation.example.parameters)
    async with client_of(facts.application()) as client:
        for user in USERS:
            response = await client.get(f"/api/headgate{path}", params=dict(free), headers=basic(user))
            assert (response.status_code == FORBIDDEN) is not may(user, operation.right), (user, response.text)


MANAGED = [
    ("PUT", "/api/queues/%2F/new", "configure", "new"),
    ("DELETE", "/api/queues/%2F/orders", "configure", "orders"),
    ("DELETE", "/api/queues/%2F/orders/contents", "read", "orders"),
    ("POST", "/api/queues/%2F/orders/get", "read", "orders"),
    ("POST", "/api/exchanges/%2F/amq.direct/publish", "write", "amq.direct"),
    ("PUT", "/api/exchanges/%2F/new", "configure", "new"),
    ("DELETE", "/api/exchanges/%2F/new", "configure", "new"),
    ("POST", "/api/bindings/%2F/e/amq.direct/q/orders", "write", "orders"),
    ("POST", "/api/bindings/%2F/e/amq.direct/q/orders", "read", "amq.direct"),
    ("DELETE", "/api/bindings/%2F/e/amq.direct/q/orders/k", "write", "orders"),
    ("DELETE", "/api/bindings/%2F/e/amq.direct/q/orders/k", "read", "amq.direct"),
]


@pytest.mark.parametrize(("method", "path", "what", "name"), MANAGED)
async def test_over_http_permissions_decide_about_queues_and_exchanges(method: str, path: str, what: str, name: str):
    facts = place()
    facts.control.message_forms = PlainMessages(MessageConverter())
    users = facts.control.users
    patterns = dict.fromkeys(("configure", "write", "read"), ".*")
    body = {"payload": "x"} if "/publish" in path else {"type": "direct"} if "/exchanges/" in path else {}
    for lacking in (False, True):
        users.set_permission("management", Permission(**(patterns | ({what: "^other$"} if lacking else {}))))
        async with client_of(facts.application()) as client:
            response = await client.request(
                method, path, headers=basic("management"), json=body if method in ("PUT", "POST") else None
            )
        assert (response.status_code == FORBIDDEN) is lacking, response.text
        if lacking:
            assert f"{what} access to " in response.json()["reason"]
            assert f"'{name}'" in response.json()["reason"]


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
