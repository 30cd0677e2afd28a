"""Attacks on the event loop by those who operate a broker: policies, definitions, lists, metrics, questions."""

import threading
import time
from collections.abc import Sequence
from urllib.parse import quote

from core.amqp091.methods import ConfirmSelect, ExchangeBind, ExchangeDeclare, QueueDeclare
from core.amqp091.properties import BasicProperties
from tests.kit.amqp091_peer import publish
from tests.kit.plain_clients import ATTACH, Refused, receiver
from tests.kit.stall_field import Attack, Field, bind, declare, fill, settle_up


def _at_once(field: Field, paths: Sequence[str], times: int) -> None:
    """Ask for all of these from some connections at the same time."""

    def ask() -> None:
        for _ in range(times):
            for path in paths:
                field.http("GET", path)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _queues(field: Field, count: int) -> None:
    client = field.client091()
    for number in range(count):
        client.tell(
            QueueDeclare(queue=f"q{number:05}", no_wait=True), bind(f"q{number:05}", "amq.topic", f"a.{number}")
        )
    settle_up(client, queue="q00000")


def policy_pattern(field: Field) -> None:
    """The pattern (a+)+$ for a queue of 40 a's and one more letter, in a policy and as a filter of a list."""
    client = field.client091()
    declare(client, "a" * 40 + "!")
    body = {"pattern": "(a+)+$", "definition": {"max-length": 10}, "priority": 0, "apply-to": "all"}
    field.http("PUT", "/api/policies/%2F/slow", body)
    declare(client, "a" * 200 + "!")
    field.http("GET", f"/api/queues?page=1&use_regex=true&name={quote('(a+)+$')}")
    field.http("GET", "/api/queues")


def policies(field: Field) -> None:
    """100 policies of which none but the last holds, 3,000 queues; each policy is set again and cleared."""
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
    """Every list over 5,000 queues and bindings, in pages, sorted and filtered, by four at once."""
    _queues(field, field.n(5000))
    kinds = ("queues", "bindings", "exchanges", "consumers", "connections", "channels")
    plain = [f"/api/{kind}" for kind in kinds]
    paged = [f"/api/{kind}?page=1&page_size=500&sort=name&sort_reverse=true&name=9" for kind in kinds]
    sorted_by = ["/api/queues?sort=messages", "/api/bindings?sort=destination", "/api/queues?columns=name,arguments.a"]
    own = [f"/api/headgate/{kind}" for kind in ("queues", "bindings", "status", "overview", "limits", "flow-map")]
    _at_once(field, [*plain, *paged, *sorted_by, *own, "/api/overview", "/api/definitions"], 1)


def definitions_import(field: Field) -> None:
    """10,000 entries of definitions, then what they made is told, and imported again."""
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
        field.http("GET", "/api/definitions")


def metrics(field: Field) -> None:
    """Scrapes over 5,000 queues, by four at once."""
    _queues(field, field.n(5000))
    _at_once(field, ["/metrics", "/metrics/links"], 3)


def why_chain(field: Field) -> None:
    """Why a queue at the end of 400 exchanges gets nothing; peeks and moves of 50,000 messages."""
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
    time.sleep(2.0)


def trace(field: Field) -> None:
    """Frames are looked at on a connection that is sent 100,000 messages."""
    publisher = field.client091()
    declare(publisher, "q")
    client = field.client10()
    client.send(receiver("/queues/q"))
    client.wait(ATTACH, 1)
    rows = field.http("GET", "/api/headgate/connections")[1].decode()
    identities = [part.split('"')[1] for part in rows.split('"identity":')[1:]]
    for identity in identities:
        field.http("GET", f"/api/headgate/frames/{quote(identity, safe='')}")
    fill(publisher, "q", field.n(100_000))
    for identity in identities:
        field.http("GET", f"/api/headgate/frames/{quote(identity, safe='')}")


def delete_over_http(field: Field) -> None:
    """A queue of 300,000 messages is purged, filled and deleted over HTTP."""
    client = field.client091()
    declare(client, "q")
    for path in ("/api/queues/%2F/q/contents", "/api/queues/%2F/q"):
        fill(client, "q", field.n(300_000))
        field.http("DELETE", path)


def unread_answers(field: Field) -> None:
    """Long lists of which nobody reads the answer, and connections that say nothing."""
    _queues(field, field.n(3000))
    for _ in range(20):
        client = field.client091()
        client.plain.close()
    _at_once(field, ["/api/queues?page=1&page_size=500"], 5)


def logins(field: Field) -> None:
    """300 connections come and go, with a wrong password and a right one."""
    for _ in range(field.n(300)):
        try:
            field.client091().close()
        except (Refused, OSError):
            return


def dead_letters_kept(field: Field) -> None:
    """20,000 messages of a quorum queue are rejected at least once into a queue that is full."""
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
    time.sleep(2.0)


ATTACKS = [
    Attack("pattern (a+)+$", policy_pattern),
    Attack("100 policies, 3,000 queues", policies),
    Attack("lists over 5,000 queues", lists),
    Attack("definitions of 10,000 entries", definitions_import),
    Attack("metrics over 5,000 queues", metrics),
    Attack("why over a chain, a move of 50,000", why_chain),
    Attack("frames are looked at", trace),
    Attack("purge and delete over HTTP", delete_over_http),
    Attack("answers that nobody reads", unread_answers),
    Attack("300 logins", logins),
    Attack("dead letters kept, 20,000", dead_letters_kept),
]
