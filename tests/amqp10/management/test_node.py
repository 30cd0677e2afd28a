"""The management node over the real engine. Tests that are cases of the conformance list, C6, have its names."""

import uuid
from collections.abc import Callable

import pytest

from amqp10.addresses import percent_encode
from amqp10.management.node import NODE_NAME, STATUSES, RequestInProgress
from amqp10.wire.types import (
    Array,
    Symbol,
    UInt,
    ULong,
)
from core import errors
from core.interface import ConsumeOptions, ExchangeTarget, Mailbox, QueueTarget
from core.slices import Walk
from tests.kit.management import (
    Console,
    binding_to_queue,
    bindings_path,
    decode_answer,
    encode_request,
    exchange_path,
    queue_path,
)
from tests.kit.settings import make_settings

CLASSIC = {"x-queue-type": "classic"}
QUEUE_KEYS = [
    "leader",
    "replicas",
    "message_count",
    "consumer_count",
    "name",
    "vhost",
    "durable",
    "auto_delete",
    "exclusive",
    "type",
    "arguments",
]


@pytest.fixture
def console():
    return Console()


# --- the cases of C6 ------------------------------------------------------------------------------------------


def test_all_management_operations(console):
    queue, exchange = "my 🐇", "my fanout exchange 🥳"
    declaration = {"exclusive": False, "auto_delete": False, "arguments": CLASSIC}

    made = console.ask("PUT", queue_path(queue), declaration)
    assert made.status == 201
    assert made.body == {
        "leader": NODE_NAME,
        "replicas": [NODE_NAME],
        "message_count": 0,
        "consumer_count": 0,
        "name": queue,
        "vhost": "/",
        "durable": True,
        "auto_delete": False,
        "exclusive": False,
        "type": "classic",
        "arguments": CLASSIC,
    }
    again = console.ask("PUT", queue_path(queue), declaration)
    assert (again.status, again.body) == (200, made.body)
    shown = console.ask("GET", queue_path(queue))
    assert (shown.status, shown.body) == (200, made.body)

    console.publish(QueueTarget(queue), 1)
    for _ in range(2):
        bound = console.ask("POST", "/bindings", binding_to_queue("amq.direct", queue, "🗝️ 1"))
        assert (bound.status, bound.body) == (204, None)
    console.publish(ExchangeTarget("amq.direct", "🗝️ 1"), 1)
    assert console.ask("GET", queue_path(queue)).body["message_count"] == 2
    for _ in range(2):
        path = f"/bindings/src=amq.direct;dstq={percent_encode(queue)};key={percent_encode('🗝️ 1')};args="
        assert console.ask("DELETE", path).status == 204
    console.publish(ExchangeTarget("amq.direct", "🗝️ 1"), 1)
    assert console.ask("GET", queue_path(queue)).body["message_count"] == 2

    for _ in range(2):
        properties = {"type": "fanout", "auto_delete": True, "internal": False, "arguments": {"📥": "📮"}}
        assert console.ask("PUT", exchange_path(exchange), properties).status == 204
    for _ in range(2):
        assert console.ask("POST", "/bindings", binding_to_queue(exchange, queue, "ignored")).status == 204
    console.publish(ExchangeTarget(exchange, "any"), 1)

    to_exchange = {
        "source": "amq.direct",
        "destination_exchange": exchange,
        "binding_key": "key 2",
        "arguments": {" 😬 ": " 😬 "},
    }
    for _ in range(2):
        assert console.ask("POST", "/bindings", to_exchange).status == 204
    console.publish(ExchangeTarget("amq.direct", "key 2"), 1)
    [listed] = console.ask("GET", bindings_path("amq.direct", exchange, "key 2", "e")).body
    for _ in range(2):
        assert console.ask("DELETE", listed["location"]).status == 204
    console.publish(ExchangeTarget("amq.direct", "key 2"), 1)

    for _ in range(2):
        assert console.ask("DELETE", exchange_path(exchange)).status == 204
    purged = console.ask("DELETE", f"{queue_path(queue)}/messages")
    assert (purged.status, purged.body) == (200, {"message_count": 4})
    for _ in range(2):
        deleted = console.ask("DELETE", queue_path(queue))
        assert (deleted.status, deleted.body) == (200, {"message_count": 0})


def test_queue_binding_args(console):
    queue = "my queue ~!@#$%^&*()_+🙈`-=[]\\;',./"
    assert console.ask("PUT", queue_path(queue), {"exclusive": True, "arguments": CLASSIC}).status == 201
    arguments = {"key 1": "👏", "key 2": UInt(3), "key 3": True, Symbol("x-match"): Symbol("all")}
    assert console.ask("POST", "/bindings", binding_to_queue("amq.headers", queue, "", arguments)).status == 204
    [listed] = console.ask("GET", bindings_path("amq.headers", queue, "")).body
    assert listed["arguments"] == {"key 1": "👏", "key 2": 3, "key 3": True, "x-match": "all"}
    assert console.ask("DELETE", listed["location"]).status == 204
    assert console.ask("GET", bindings_path("amq.headers", queue, "")).body == []


def test_queue_defaults(console):
    shown = console.ask("PUT", "/queues/q", {}).body
    assert (shown["durable"], shown["exclusive"], shown["auto_delete"]) == (True, False, False)
    assert (shown["type"], shown["arguments"]) == ("classic", {})


def test_queue_properties(console):
    shown = console.ask("PUT", "/queues/q", {"durable": False, "exclusive": True, "auto_delete": True}).body
    assert (shown["durable"], shown["exclusive"], shown["auto_delete"]) == (False, True, True)


def test_exchange_defaults(console):
    assert console.ask("PUT", "/exchanges/e", {}).status == 204
    [shown] = console.broker.snapshot("exchanges", "e")
    assert (shown["type"], shown["durable"], shown["auto_delete"]) == ("direct", True, False)
    assert (shown["internal"], shown["arguments"]) == (False, {})


BAD_URIS = [
    "👎",
    "",
    "queues/q",
    "/queues/👎",
    "/queues/a b",
    "/queues/a:b",
    "/queues/%",
    "/queues/%2",
    "/queues/%GG",
    "/queues/%FF",
    "/queues/q#f",
    "/queues/q\n",
    "amqp://host/queues/q",
    "/bindings?src=%FF",
    "/bindings?src=a&src=b",
    7,
    None,
]


@pytest.mark.parametrize("to", BAD_URIS, ids=repr)
def test_bad_uri(console, to):
    answer = decode_answer(console.respond(encode_request("GET", to, message_id=b"\x01\x02\x03")))
    assert answer.status == 400
    assert answer.correlation_id == b"\x01\x02\x03"
    assert isinstance(answer.body, str)


def test_bad_queue_property(console):
    answer = console.ask("PUT", "/queues/my-object", {"unknown": "bla"})
    assert answer.status == 400
    assert "'unknown'" in answer.body


def test_bad_exchange_property(console):
    answer = console.ask("PUT", "/exchanges/my-object", {"unknown": "bla"})
    assert answer.status == 400
    assert "'unknown'" in answer.body


def test_bad_exchange_type(console):
    answer = console.ask("PUT", "/exchanges/e1", {"type": "🤷"})
    assert answer.status == 400
    assert "unknown exchange type '🤷'; there are direct, fanout, topic, headers" in answer.body


def test_get_queue_not_found(console):
    answer = console.ask("GET", queue_path("🤷"))
    assert (answer.status, answer.body) == (404, "there is no queue '🤷'")


def test_declare_queue_default_queue_type(console):
    assert console.ask("PUT", "/queues/q", {}).body["type"] == "classic"
    assert console.ask("PUT", "/queues/q", {"arguments": CLASSIC}).status == 200


def test_declare_queue_empty_name(console):
    assert console.ask("PUT", "/queues/", {}).status == 400


def test_declare_queue_line_feed(console):
    assert console.ask("PUT", queue_path("🤠\n😱"), {}).status == 400


def test_declare_queue_amq_prefix(console):
    assert console.ask("PUT", queue_path("amq.🎇"), {}).status == 403


def test_declare_queue_inequivalent_fields(console):
    assert console.ask("PUT", queue_path("👌"), {"auto_delete": False}).status == 201
    answer = console.ask("PUT", queue_path("👌"), {"auto_delete": True})
    assert answer.status == 409
    assert "auto_delete is False" in answer.body


def test_declare_queue_inequivalent_exclusive(console):
    for first, second in ((True, False), (False, True)):
        name = f"exclusive-{first}"
        assert console.ask("PUT", f"/queues/{name}", {"exclusive": first}).status == 201
        assert console.ask("PUT", f"/queues/{name}", {"exclusive": second}).status == 400


def test_declare_queue_invalid_field(console):
    assert console.ask("PUT", "/queues/q", {"arguments": {"x-queue-type": "tape"}}).status == 400


def test_declare_queue_that_memory_cannot_keep(console):
    for kind in ("stream", "quorum"):
        answer = console.ask("PUT", "/queues/q", {"arguments": {"x-queue-type": kind}})
        assert (answer.status, "needs a data folder" in str(answer.value)) == (409, True)


@pytest.mark.parametrize(
    "arguments", [{"x-max-length": -1}, {"x-max-length": "1"}, {"x-overflow": "never"}, {"x-unheard-of": 1}]
)
def test_declare_queue_invalid_arg(console, arguments):
    assert console.ask("PUT", "/queues/q", {"arguments": arguments}).status == 409
    assert console.ask("GET", "/queues/q").status == 404


def test_declare_queue_vhost_queue_limit():
    console = Console(make_settings(engine={"queues_max": 2}))
    assert [console.ask("PUT", f"/queues/q{n}", {}).status for n in range(3)] == [201, 201, 403]


def test_declare_default_exchange(console):
    assert console.ask("PUT", "/exchanges/", {}).status == 403


def test_declare_exchange_amq_prefix(console):
    assert console.ask("PUT", exchange_path("amq.🎇"), {}).status == 403
    assert console.ask("PUT", "/exchanges/amq.topic", {"type": "topic"}).status == 204


def test_declare_exchange_line_feed(console):
    assert console.ask("PUT", exchange_path("🤠\n😱"), {}).status == 400


def test_declare_exchange_inequivalent_fields(console):
    assert console.ask("PUT", "/exchanges/e", {"type": "direct"}).status == 204
    answer = console.ask("PUT", "/exchanges/e", {"type": "fanout"})
    assert answer.status == 409
    assert "fanout" in answer.body


def test_delete_default_exchange(console):
    assert console.ask("DELETE", "/exchanges/").status == 403


def test_delete_exchange_amq_prefix(console):
    assert console.ask("DELETE", "/exchanges/amq.fanout").status == 403


def test_delete_exchange_carriage_return(console):
    assert console.ask("DELETE", exchange_path("x\rx")).status == 400


def test_exclusive_queue(console):
    assert console.ask("PUT", queue_path("🙌"), {"exclusive": True}, owner="first").status == 201
    binding = binding_to_queue("amq.direct", "🙌", "🗝️")
    assert console.ask("POST", "/bindings", binding, owner="first").status == 204
    text = "queue '🙌' is exclusive to another connection"
    for request in (
        ("POST", "/bindings", binding),
        ("DELETE", queue_path("🙌")),
        ("DELETE", f"{queue_path('🙌')}/messages"),
        ("GET", queue_path("🙌")),
        ("PUT", queue_path("🙌"), {"exclusive": True}),
    ):
        answer = console.ask(*request, owner="second")
        assert (answer.status, answer.body) == (400, text)
    assert console.ask("DELETE", queue_path("🙌"), owner="first").status == 200


def test_purge_non_existing_queue_should_return_not_found(console):
    assert console.ask("DELETE", "/queues/q/messages").status == 404


def test_pipeline(console):
    for method, body, status in (("PUT", {}, 201), ("DELETE", None, 200)):
        requests = [encode_request(method, f"/queues/q-{n}", body, message_id=ULong(n)) for n in range(8)]
        answers = [decode_answer(console.respond(request)) for request in requests]
        assert [answer.correlation_id for answer in answers] == [ULong(n) for n in range(8)]
        assert {answer.status for answer in answers} == {status}
    assert console.broker.snapshot("queues") == []


# --- the form of answers --------------------------------------------------------------------------------------


def test_a_queue_has_its_fields_in_order_and_in_their_types(console):
    console.ask("PUT", "/queues/q", {"arguments": {"x-max-length": UInt(5)}})
    console.publish(QueueTarget("q"), 3)
    console.broker.consume("q", Mailbox(lambda: None), "me", ConsumeOptions(), None)
    value = console.ask("GET", "/queues/q").value
    assert list(value) == QUEUE_KEYS
    assert value["replicas"] == Array(0xA1, (NODE_NAME,))
    assert (value["message_count"], value["consumer_count"]) == (ULong(3), UInt(1))
    assert value["arguments"] == {"x-max-length": 5}


@pytest.mark.parametrize("path", ["/queues/q", "/queues/q/messages"])
def test_message_count_is_a_ulong(console, path):
    console.ask("PUT", "/queues/q", {})
    console.publish(QueueTarget("q"), 300)
    assert console.ask("DELETE", path).value == {"message_count": ULong(300)}


@pytest.mark.parametrize(
    "message_id",
    [ULong(0), ULong(2**64 - 1), uuid.UUID(int=7), b"\x00\xff", "an id", ""],
    ids=repr,
)
def test_the_correlation_id_is_the_message_id_in_its_own_type(console, message_id):
    answer = decode_answer(console.respond(encode_request("GET", "/x", message_id=message_id)))
    assert answer.correlation_id == message_id
    assert type(answer.correlation_id) is type(message_id)


def test_every_answer_says_which_http_it_is(console):
    for answer in (console.ask("PUT", "/queues/q", {}), console.ask("GET", "/queues/missing")):
        assert answer.application_properties == {"http:response": "1.1"}


def test_an_answer_byte_by_byte(console):
    console.ask("PUT", "/queues/q1", {"arguments": CLASSIC})
    response = console.respond(encode_request("DELETE", "/queues/q1"))
    assert response == bytes.fromhex(
        "005373 c00c06 404040 a103323030 40 5301"  # properties: subject 200, correlation-id 1
        "005374 c11502 a10d687474703a726573706f6e7365 a103312e31"  # http:response: 1.1
        "005377 c11102 a10d6d6573736167655f636f756e74 44"  # message_count: 0
    )


# --- other refusals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/queues",
        "/queue/q",
        "/queues/q/",
        "/queues/q/messages/",
        "/queues/q/consumers",
        "/exchanges",
        "/exchanges/e/x",
        "/bindings/a/b",
        "/auth",
        "/headgate",
        "/headgate/",
        "/management",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_an_unknown_resource_is_not_found(console, method, path):
    assert console.ask(method, path).status == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/queues/q"),
        ("put", "/queues/q"),
        ("", "/queues/q"),
        ("GET", "/queues/q/messages"),
        ("GET", "/exchanges/e"),
        ("PUT", "/bindings"),
        ("GET", "/bindings/src=a;dstq=b;key=;args="),
        ("GET", "/auth/tokens"),
        ("DELETE", "/headgate/queues"),
    ],
)
def test_a_method_that_the_resource_does_not_have(console, method, path):
    answer = console.ask(method, path)
    assert answer.status == 405
    assert "only" in answer.body


def test_a_request_without_a_method(console):
    assert console.ask(None, "/queues/q").status == 400


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/queues/q"), ("DELETE", "/queues/q"), ("DELETE", "/queues/q/messages")]
)
def test_a_body_where_there_is_none(console, method, path):
    console.ask("PUT", "/queues/q", {})
    assert console.ask(method, path, {}).status == 400
    assert console.ask("GET", "/queues/q").status == 200


def test_a_token_is_refused_on_the_request_only(console):
    assert console.ask("PUT", "/auth/tokens", b"token").status == 403
    assert console.ask("PUT", "/auth/tokens", "token").status == 400
    assert console.ask("PUT", "/queues/q", {}).status == 201


def test_the_statuses_are_total():
    assert set(STATUSES) == set(errors.EngineError.__subclasses__())


def test_a_request_that_waits_for_other_nodes_is_left_alone_until_it_can_go_on():
    calls: list[Callable[[], None]] = []
    woken: list[bool] = []
    request = RequestInProgress(lambda: woken.append(request.asleep))

    def walk() -> Walk[bytes]:
        yield calls.append
        return b"response"

    request.walk = walk()
    assert [request.step(), request.step(), request.asleep] == [False, False, True]
    (call,) = calls
    call()
    assert woken == [False]
    assert request.step()
    assert request.response == b"response"
