"""Attacks on the event loop by operators: policies, definitions, lists, metrics, questions."""

import json
import socket
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from urllib.parse import quote

from core.amqp091.methods import BasicPublish, ConfirmSelect, ExchangeBind, ExchangeDeclare, QueueDeclare
from core.amqp091.properties import BasicProperties
from tests.kit.amqp091_peer import opening, publish
from tests.kit.plain_clients import ATTACH, PATIENCE_S, TRANSFER, WIDE, grant, receiver
from tests.kit.plain_management import Request
from tests.kit.stall_field import Attack, Field, NoEffect, bind, check, declare, fill, settle_up

OPEN_OK = (10).to_bytes(2) + (41).to_bytes(2)
"""The class and number of the method connection.open-ok."""


def _at_once(field: Field, paths: Sequence[str], times: int) -> None:
    """Ask for all of these, over several connections at the same time."""

    refused: list[NoEffect] = []

    def ask() -> None:
        try:
            for _ in range(times):
                for path in paths:
                    field.http("GET", path)
        except NoEffect as error:
            refused.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in refused:
        raise error


def _queues(field: Field, count: int) -> None:
    client = field.client091()
    for number in range(count):
        client.tell(
            QueueDeclare(queue=f"q{number:05}", no_wait=True), bind(f"q{number:05}", "amq.topic", f"a.{number}")
        )
    settle_up(client, queue=f"q{count - 1:05}")


def policy_pattern(field: Field) -> None:
    """The pattern (a+)+$ against queue names of many a's and another character, in a policy and as the filter of a
    list."""
    client = field.client091()
    declare(client, "a" * 40 + "!")
    body = {"pattern": "(a+)+$", "definition": {"max-length": 10}, "priority": 0, "apply-to": "all"}
    field.http("PUT", "/api/policies/%2F/slow", body)
    declare(client, "a" * 200 + "!")
    field.http("GET", f"/api/queues?page=1&use_regex=true&name={quote('(a+)+$')}")
    field.http("GET", "/api/queues")


def policies(field: Field) -> None:
    """100 policies of which only the last matches, and 3,000 queues. Each policy is set again and cleared."""
    _queues(field, field.n(3000))
    count = field.n(99)
    for _ in range(2):
        for number in range(count):
            body = {"pattern": f"^(q|x)*y{number}$", "definition": {"max-length": 1000 + number}, "priority": number}
            field.http("PUT", f"/api/policies/%2F/p{number}", {**body, "apply-to": "all"})
    field.http("PUT", "/api/policies/%2F/all", {"pattern": "", "definition": {"max-length": 9}, "apply-to": "all"})
    for number in range(count):
        field.http("DELETE", f"/api/policies/%2F/p{number}")
    field.http("DELETE", "/api/policies/%2F/all")


def lists(field: Field) -> None:
    """Every list over 5,000 queues and bindings, in pages, sorted and filtered, by four clients at once."""
    _queues(field, field.n(5000))
    kinds = ("queues", "bindings", "exchanges", "consumers", "connections", "channels")
    plain = [f"/api/{kind}" for kind in kinds]
    paged = [f"/api/{kind}?page=1&page_size=500&sort=name&sort_reverse=true&name=9" for kind in kinds]
    sorted_by = ["/api/queues?sort=messages", "/api/bindings?sort=destination", "/api/queues?columns=name,arguments.a"]
    own = [f"/api/headgate/{kind}" for kind in ("queues", "bindings", "status", "overview", "limits", "flow-map")]
    _at_once(field, [*plain, *paged, *sorted_by, *own, "/api/overview", "/api/definitions"], 1)


def definitions_import(field: Field) -> None:
    """10,000 entries of definitions are imported, exported, and imported again."""
    count = field.n(5000)
    queues = [
        {"name": f"i{number}", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
        for number in range(count)
    ]
    made = [
        {
            "source": "amq.topic",
            "vhost": "/",
            "destination": f"i{number}",
            "destination_type": "queue",
            "routing_key": f"a.{number}",
            "arguments": {},
        }
        for number in range(count)
    ]
    for _ in range(2):
        field.http("POST", "/api/definitions", {"queues": queues, "bindings": made})
        told = field.http("GET", "/api/definitions")
    check(told.count(b'"routing_key"') == count, "not all bindings are there")
    check(told.count(b'"name":"i') == count, "not all queues are there")


def virtual_host_goes(field: Field) -> None:
    """Two virtual hosts with 1,000 durable queues each, of which each is bound twice, are deleted at once."""
    count, hosts = field.n(1000), ("one", "other")
    keys = ("a", "b")
    for host in hosts:
        field.http("PUT", f"/api/vhosts/{host}", {})
        queues = [{"name": f"v{number}", "durable": True} for number in range(count)]
        bound = {"source": "amq.topic", "destination_type": "queue"}
        bindings = [{**bound, "destination": one["name"], "routing_key": key} for one in queues for key in keys]
        field.http("POST", f"/api/definitions/{host}", {"queues": queues, "bindings": bindings})
        there = field.http("GET", f"/api/bindings/{host}").count(b'"source":"amq.topic"')
        check(there == len(keys) * count, f"{there} bindings are there")
    for host in hosts:
        field.http("DELETE", f"/api/vhosts/{host}")
    until = time.monotonic() + PATIENCE_S
    for host in hosts:
        while not _is_made(field, host):  # its name is free at the end
            check(time.monotonic() < until, "the deletion has no end")
            time.sleep(0.05)


def _is_made(field: Field, host: str) -> bool:
    try:
        field.http("PUT", f"/api/vhosts/{host}", {})
    except NoEffect as error:
        if "is being deleted" in str(error):
            return False
        raise
    return True


def metrics(field: Field) -> None:
    """Scrapes over 5,000 queues, by four clients at once."""
    _queues(field, field.n(5000))
    _at_once(field, ["/metrics", "/metrics/links"], 3)


def why_chain(field: Field) -> None:
    """Why a queue at the end of 400 exchanges gets no messages; then peeks and moves of 50,000 messages."""
    client = field.client091()
    count = field.n(400)
    for number in range(count):
        client.tell(ExchangeDeclare(exchange=f"e{number}", type="fanout", no_wait=True))
    for number in range(count - 1):
        client.tell(ExchangeBind(destination=f"e{number + 1}", source=f"e{number}", no_wait=True))
    declare(client, "q")
    client.tell(bind("q", f"e{count - 1}"))
    settle_up(client, queue="q")
    fill(client, "q", field.n(50_000))
    declare(client, "r")
    for path in ("why/addresses/q", "queues/q/peek?count=100"):
        field.http("GET", f"/api/headgate/{path}")
    field.http("POST", "/api/headgate/queues/q/move", {"to": "r"})
    _wait_until_ready(field, "r", field.n(50_000))


def trace(field: Field) -> None:
    """The frames of a connection are traced while it gets 100,000 messages."""
    publisher = field.client091()
    declare(publisher, "q")
    client = field.client10()
    client.send(receiver("/queues/q") + grant(WIDE))
    client.wait(ATTACH, 1)
    rows = json.loads(field.http("GET", "/api/headgate/connections"))["items"]
    frames = [f"/headgate/connections/{quote(row['identity'], safe='')}/frames" for row in rows]
    manager = field.management()
    count = field.n(100_000)
    answers = manager.ask(("PUT", path, None) for path in frames)
    for part in range(10):
        fill(publisher, "q", count // 10)
        answers += manager.ask(("GET", f"{path}?after={part}", None) for path in frames)
    client.wait(TRANSFER, count // 10 * 10)
    check(answers == {204: len(frames), 200: 10 * len(frames)}, f"the answers were {dict(answers)}")


def delete_over_http(field: Field) -> None:
    """A queue of 300,000 messages is purged, filled again and deleted over HTTP."""
    client = field.client091()
    declare(client, "q")
    for path in ("/api/queues/%2F/q/contents", "/api/queues/%2F/q"):
        fill(client, "q", field.n(300_000))
        field.http("DELETE", path)
    check(b'"name":"q"' not in field.http("GET", "/api/queues"), "the queue is still there")


def unread_answers(field: Field) -> None:
    """24 clients ask for 3,000 queues and do not read the answer. Four other clients, on the connections that are left,
    read theirs. Each of the four needs two of the 32 connections, because the one of its last request may still be open
    when its next request comes."""
    _queues(field, field.n(3000))
    request = b"GET /api/queues HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    unread = []
    for _ in range(24):
        asking = socket.socket()
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asking.connect(("127.0.0.1", field.admin_port))
        asking.sendall(request)
        unread.append(asking)
    _at_once(field, ["/api/queues?page=1&page_size=500"], 5)
    for asking in unread:
        asking.settimeout(PATIENCE_S)
        check(asking.recv(100).startswith(b"HTTP/1.1 200"), "an answer that was not read is none")
        asking.close()


def logins(field: Field) -> None:
    """300 connections come and go. Each second one has a wrong password; 25 come at the same time, and some are put
    off."""
    wrong = field.n(300) // 2
    refused = 0
    for start in range(0, wrong, 25):
        with ExitStack() as open_ones:
            tries = [open_ones.enter_context(_wrong_password(field)) for _ in range(min(25, wrong - start))]
            for _ in tries:
                field.client091().close()
            refused += sum(_is_refused(plain) for plain in tries)
    check(refused == wrong, f"only {refused} wrong passwords were refused")


def _wrong_password(field: Field) -> socket.socket:
    plain = socket.create_connection((field.host, field.port), timeout=PATIENCE_S)
    plain.sendall(opening(response=b"\0guest\0wrong"))
    return plain


def _is_refused(plain: socket.socket) -> bool:
    seen = b""
    while data := plain.recv(65536):
        seen += data
    return OPEN_OK not in seen


def live(field: Field) -> None:
    """Eight clients watch the live stream while messages come to 5,000 queues."""
    _queues(field, field.n(5000))
    watching = [socket.create_connection(("127.0.0.1", field.admin_port), timeout=PATIENCE_S) for _ in range(8)]
    for one in watching:
        one.sendall(b"GET /api/headgate/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    client = field.client091()
    for number in range(field.n(5000)):
        client.send(publish(1, b"x", method=BasicPublish(exchange="", routing_key=f"q{number:05}")))
    time.sleep(4.0)
    for one in watching:
        told = b""
        while told.count(b"event: overview") < 3:  # the first figures, and those of later events
            data = one.recv(65536)
            check(bool(data), "the live stream has ended")
            told += data
        one.close()


def dead_letters_kept(field: Field) -> None:
    """20,000 messages of a quorum queue are rejected, with at-least-once, into a queue that is full."""
    client = field.client091()
    arguments = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "full",
        "x-dead-letter-strategy": "at-least-once",
        "x-overflow": "reject-publish",
        "x-message-ttl": 500,
    }
    client.call(QueueDeclare(queue="k", durable=True, arguments=arguments))  # type: ignore[arg-type]
    declare(client, "full", max_length=10, overflow="reject-publish")
    client.call(ConfirmSelect())
    client.send(publish(1, b"x", properties=BasicProperties(delivery_mode=2)))
    fill(client, "k", field.n(20_000), properties=BasicProperties(delivery_mode=2))
    _wait_until_ready(field, "full", 10)
    time.sleep(2.0)


def _wait_until_ready(field: Field, queue: str, count: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while json.loads(field.http("GET", f"/api/queues/%2F/{queue}"))["messages_ready"] < count:
        check(time.monotonic() < until, f"queue {queue} does not get {count} messages")
        time.sleep(0.1)


def _managed(field: Field, requests: Iterable[Request], status: int) -> None:
    """Send requests. Raises NoEffect when an answer has another status."""
    answers = field.management().ask(requests)
    check(answers.keys() == {status}, f"{status} was expected, and the answers were {dict(answers)}")


def _binding(number: int) -> dict[str, object]:
    key = f"b.{number}"
    return {"source": "amq.direct", "destination_queue": "q", "binding_key": key, "arguments": {}}


def management_topology(field: Field) -> None:
    """Over AMQP 1.0: 3,500 queues and bindings are declared, listed ten times, and the queues deleted one by one."""
    count = field.n(3500)
    queue = {"durable": False, "exclusive": False, "auto_delete": False, "arguments": {}}
    _managed(field, (("PUT", f"/queues/m{number}", queue) for number in range(count)), 201)
    _managed(field, [("PUT", "/queues/q", queue)], 201)
    _managed(field, (("POST", "/bindings", _binding(number)) for number in range(count)), 204)
    _managed(field, [("GET", "/bindings?src=amq.direct&dstq=q", None)] * 10, 200)
    _managed(field, (("GET", f"/bindings?src=amq.direct&dstq=q&key=b.{number}", None) for number in range(100)), 200)
    _managed(field, (("DELETE", f"/queues/m{number}", None) for number in range(count)), 200)
    _managed(field, [("DELETE", "/queues/q", None)], 200)


def management_pages(field: Field) -> None:
    """Over AMQP 1.0: pages of all kinds of rows over 5,000 queues and bindings, then 10,000 requests in a row."""
    _queues(field, field.n(5000))
    kinds = ("queues", "bindings", "exchanges", "consumers", "connections", "channels", "stages", "policies")
    _managed(
        field, [("GET", f"/headgate/{kind}{page}", None) for kind in kinds for page in ("", "?after=q02")] * 2, 200
    )
    _managed(field, (("GET", f"/headgate/queues/q{number % 100:05}", None) for number in range(field.n(10_000))), 200)
    _managed(field, [("GET", "/headgate/addresses/q00001/why", None)] * 10, 200)


def management_purge(field: Field) -> None:
    """Over AMQP 1.0: a queue of 300,000 messages is purged, filled again and deleted."""
    client = field.client091()
    declare(client, "q")
    for path in ("/queues/q/messages", "/queues/q"):
        fill(client, "q", field.n(300_000))
        _managed(field, [("DELETE", path, None)], 200)


ATTACKS = [
    Attack("pattern (a+)+$", policy_pattern),
    Attack("100 policies, 3,000 queues", policies),
    Attack("lists over 5,000 queues", lists),
    Attack("definitions of 10,000 entries", definitions_import),
    Attack("virtual hosts of 1,000 queues go", virtual_host_goes),
    Attack("metrics over 5,000 queues", metrics),
    Attack("why over a chain, a move of 50,000", why_chain),
    Attack("frames are looked at", trace),
    Attack("purge and delete over HTTP", delete_over_http),
    Attack("answers that nobody reads", unread_answers),
    Attack("300 logins", logins),
    Attack("dead letters kept, 20,000", dead_letters_kept),
    Attack("the live stream over 5,000 queues", live),
    Attack("management of 3,500 queues and bindings", management_topology),
    Attack("management, pages and 10,000 requests", management_pages),
    Attack("management, purge and delete", management_purge),
]
