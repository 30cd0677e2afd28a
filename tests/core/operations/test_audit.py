"""Each act of each surface in the audit log: operations over AMQP and HTTP, methods of 0.9.1, requests, attaches.

The tests of operations are made from the tables.
"""

import base64
import json

import pytest

from amqp10.management.node import ManagementNode
from amqp10.serve import management_node
from core.access.checked_engine import CheckedEngine
from core.access.login import NewPassword
from core.access.records import UserRecord
from core.access.rights import FULL, MONITORING, Permission, Rights, all_rights, no_rights
from core.amqp091.methods import BasicConsume, ExchangeDeclare, QueueBind, QueueDeclare, QueueDelete, QueuePurge
from core.operations.all_operations import OPERATIONS
from core.operations.operation import Operation
from core.slices import run_at_once
from tests.core.operations.test_all_operations import document, names, shop, split
from tests.kit.acts import place
from tests.kit.admin import TOKEN, Facts, client_of
from tests.kit.audited import Audited
from tests.kit.link_pair import LinkPair
from tests.kit.management import binding_to_queue, encode_request
from tests.kit.wire091 import Wire091Peer, connect

SECRET = "a secret that no record may have"


def audited_shop() -> tuple[Facts, Audited]:
    facts, audited = shop(), Audited()
    assert facts.control.access is not None
    facts.control.access.audit = audited.log
    return facts, audited


def node_of(facts: Facts) -> ManagementNode:
    return management_node(facts.broker, facts.control)


def ask(facts: Facts, audited: Audited, method: str, to: str, body: object = None, rights=None) -> None:
    """Send a request to the management node, as a client whose acts are recorded."""
    engine = CheckedEngine(facts.broker, rights or all_rights("alice"), audited.peer("amqp-1.0"))
    for _ in node_of(facts).respond(encode_request(method, to, body), engine, "me"):
        facts.turn()


@pytest.mark.parametrize("operation", OPERATIONS, ids=names)
async def test_every_operation_that_changes_something_is_recorded_over_both(operation: Operation):
    facts, audited = audited_shop()
    path, free = split(operation, operation.path, operation.example.parameters)
    sends = operation.method in ("PUT", "POST")
    body = document(operation, free) if sends else None
    ask(facts, audited, operation.method, f"/headgate{path}", body)
    over_amqp = audited.taken()
    facts, audited = audited_shop()
    async with client_of(facts.application(token=TOKEN), authorization=f"Bearer {TOKEN.decode()}") as client:
        await client.request(
            operation.method,
            f"/api/headgate{path}",
            json=body,
            params=None if sends else {k: str(v) for k, v in free.items()},
        )
    over_http = audited.taken()
    expected = operation.method != "GET" or operation.is_audited
    for records, user, protocol in ((over_amqp, "alice", "amqp-1.0"), (over_http, "administrator", "http")):
        told = [(one["action"], one["result"], one["user"], one["protocol"]) for one in records]
        assert told == ([(operation.name, "done", user, protocol)] if expected else [])


@pytest.mark.parametrize("operation", OPERATIONS, ids=names)
def test_every_operation_that_is_refused_is_recorded(operation: Operation):
    facts, audited = audited_shop()
    path, free = split(operation, operation.path, operation.example.parameters)
    body = document(operation, free) if operation.method in ("PUT", "POST") else None
    ask(facts, audited, operation.method, f"/headgate{path}", body, no_rights("bob"))
    (record,) = audited.taken()
    assert (record["event"], record["action"], record["result"]) == ("refusals", operation.name, "refused")
    assert "needs the right" in record["reason"]


async def test_every_write_of_rabbitmqs_paths_is_recorded_and_no_record_has_a_secret():
    facts, audited = audited_shop()
    api, _ = facts.api()
    headers = {"authorization": f"Bearer {TOKEN.decode()}"}
    tried = 0
    async with client_of(facts.application(api=api, token=TOKEN), **headers) as client:
        for entry in api.table.entries:
            operation, method = entry.operation, entry.spelling.method
            if method == "GET":
                continue
            given = {one.name: SECRET for one in operation.parameters if not one.in_path and not one.is_document}
            given |= {"password": SECRET, "token": SECRET, SECRET: SECRET}
            secret = [one.name for one in operation.parameters if one.secret]
            path = entry.path
            for parameter in operation.parameters:
                if parameter.in_path:
                    path = path.replace(f"{{{parameter.name}}}", (parameter.choices or ("any",))[0].replace("/", "%2F"))
            for body in (dict.fromkeys(secret, SECRET), {name: [SECRET] for name in secret}, given):
                await client.request(method, path, json=None if method == "DELETE" else body)
                (record,) = [one for one in audited.taken() if one["action"] != "left-out"]
                facts.control.hosts.turn(facts.now)  # the virtual host that was deleted goes
                assert record["action"] == operation.name
                shown = {name: value for name, value in record.get("parameters", {}).items() if value != "(secret)"}
                assert not set(shown) & set(secret)
                if secret or operation.document:
                    assert SECRET not in json.dumps(record | {"parameters": {}}), record
                tried += 1
                audited.pass_time(2.0)
                audited.log.end_windows()
    assert tried > 100


def test_parameters_with_secrets_are_marked():
    for operation in OPERATIONS:
        for parameter in operation.parameters:
            named = any(word in parameter.name for word in ("password", "token", "secret", "payload"))
            assert parameter.secret is named, (operation.name, parameter.name)


async def test_users_and_their_rights_are_recorded_without_passwords():
    facts, audited = audited_shop()
    ask(facts, audited, "PUT", "/headgate/users/carol", {"password": SECRET, "tags": "monitoring"})
    ask(facts, audited, "PUT", "/headgate/users/carol", {"password": 12345678901234})
    ask(facts, audited, "PUT", "/headgate/users/carol", {"password_hash": f"{SECRET}="})
    ask(facts, audited, "PUT", "/headgate/permissions/carol", {"configure": "", "write": "^x", "read": "^q"})
    ask(facts, audited, "POST", "/headgate/definitions/users", {"users": [{"name": "d", "password_hash": SECRET}]})
    records = audited.taken()
    assert [one["result"] for one in records] == ["done", "failed", "failed", "done", "failed"]
    assert records[0]["parameters"] == {"user": "carol", "password": "(secret)", "tags": "monitoring"}
    assert records[3]["parameters"] == {"user": "carol", "configure": "", "write": "^x", "read": "^q"}
    assert records[4]["parameters"] == {"document": '{"users": 1}'}
    told = json.dumps(records)
    assert SECRET not in told
    assert "12345678901234" not in told


async def test_logins_over_http_are_recorded():
    facts, audited = audited_shop()
    secret = run_at_once(NewPassword(facts.control.logins, "right").hashing())
    facts.control.users.set(UserRecord(name="watcher", secret=secret, tags=(MONITORING,), permissions={"/": FULL}))

    def basic(password: str) -> dict[str, str]:
        return {"authorization": f"Basic {base64.b64encode(f'watcher:{password}'.encode()).decode()}"}

    async with client_of(facts.application(token=TOKEN)) as client:
        for headers in (basic("right"), basic("right"), basic(SECRET), {"authorization": f"Bearer {SECRET}"}):
            await client.get("/api/headgate/status", headers=headers)
        await client.put("/api/headgate/drain", headers=basic("right"))
    records = audited.taken()
    assert [(one["action"], one["result"], one["user"]) for one in records] == [
        ("login", "done", "watcher"),
        ("login", "refused", "watcher"),
        ("login", "refused", ""),
        ("drain", "refused", "watcher"),
    ]
    assert [one.get("mechanism") for one in records] == ["HTTP-BASIC", "HTTP-BASIC", "token", None]
    assert SECRET not in json.dumps(records)


def test_requests_to_the_management_node_are_recorded():
    broker = place()
    peer = broker.connect()
    peer.begin()
    pair = LinkPair(peer).attach()
    pair.grant(100)
    for method, to, body in (
        ("PUT", "/queues/new", {"arguments": {}}),
        ("PUT", "/exchanges/new", {"arguments": {}}),
        ("POST", "/bindings", binding_to_queue("new", "new", "k")),
        ("DELETE", "/queues/new/messages", None),
        ("DELETE", "/queues/new", None),
        ("DELETE", "/exchanges/new", None),
        ("GET", "/queues/q", None),
        ("PUT", "/headgate/alarms/memory", None),
    ):
        pair.ask(method, to, body)
    records = broker.audited.taken()
    assert [(one["action"], one["result"]) for one in records] == [
        ("queues.declare", "done"),
        ("exchanges.declare", "done"),
        ("bindings.bind", "done"),
        ("queues.purge", "done"),
        ("queues.delete", "done"),
        ("exchanges.delete", "done"),
        ("alarms.set", "done"),
    ]
    assert {(one["protocol"], one["user"]) for one in records} == {("amqp-1.0", "guest")}


def test_methods_of_091_are_recorded():
    broker = place()
    peer = connect(broker)
    peer.send(1, QueueDeclare(queue="new"), QueueDeclare(queue="q", passive=True))
    peer.send(1, ExchangeDeclare(exchange="y", type="topic"), QueueBind(queue="new", exchange="y", routing_key="k"))
    peer.send(1, QueuePurge(queue="new"), QueueDelete(queue="new"))
    peer.publish(1, [b"never recorded"], routing_key="q")
    told = broker.audited.told()
    acts = ("queues.declare", "exchanges.declare", "bindings.bind", "queues.purge", "queues.delete")
    assert told == [(action, "done", "guest") for action in acts]


def test_refused_attaches_and_consumers_are_recorded_with_the_connection():
    broker = place()
    broker.rights = no_rights("bob")
    broker.rights.tags = frozenset((MONITORING,))
    peer = broker.connect()
    peer.begin()
    peer.attach_receiver("/queues/q")
    peer.attach_sender("/exchanges/x/k")
    records = broker.audited.taken()
    assert [(one["action"], one["kind"], one["name"]) for one in records] == [
        ("read", "queue", "q"),
        ("write", "exchange", "x"),
    ]
    assert {(one["user"], one["protocol"], one["result"]) for one in records} == {("bob", "amqp-1.0", "refused")}
    assert all(one["connection"] for one in records)
    broker.rights = no_rights("carol")
    broker.connect()
    assert broker.audited.told() == [("connect", "refused", "carol")]
    Wire091Peer(broker).negotiate()
    assert broker.audited.told() == [("connect", "refused", "carol")]
    broker.rights = Rights("carol", Permission(configure="", write="", read=""))
    broker.rights = Rights("carol", Permission(configure="", write="", read=""))
    other = connect(broker)
    other.send(1, BasicConsume(queue="q"))
    assert broker.audited.told() == [("read", "refused", "carol")]
