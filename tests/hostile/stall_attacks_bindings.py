"""Attacks on the event loop with AMQP 0.9.1: bindings that are made, and removed with their exchange or queue."""

from core.amqp091.methods import ExchangeBind, ExchangeDeclare, ExchangeDelete, QueueDeclare, QueueDelete, QueueUnbind
from tests.kit.amqp091_peer import method_frame
from tests.kit.stall_field import Attack, Field, bind, check, declare, exchange, settle_up


def bindings(field: Field) -> None:
    """3,500 bindings are made and removed with their exchange, made again and removed with their queue, then one by
    one."""
    client = field.client091()
    count = field.n(3500)
    for way in ("exchange", "queue", "unbind"):
        exchange(client, "b", "direct")
        declare(client, "q")
        client.send(b"".join(method_frame(1, bind("q", "b", str(number))) for number in range(count)))
        settle_up(client, queue="q")
        field.http("GET", "/api/bindings")
        if way == "exchange":
            client.call(ExchangeDelete(exchange="b"))
        elif way == "queue":
            client.call(QueueDelete(queue="q"))
        else:
            client.tell(*(QueueUnbind(queue="q", exchange="b", routing_key=str(number)) for number in range(count)))
            settle_up(client, queue="q")


def many_bindings_go(field: Field) -> None:
    """50,000 bindings are removed with their queue, and 50,000 with their exchange; then 5,000 durable ones each. The
    queue or exchange is declared again at once."""
    client = field.client091()
    for count, durable in ((field.n(50_000), False), (field.n(5_000), True)):
        for going in (QueueDelete(queue="q"), ExchangeDelete(exchange="b"), None):
            client.call(ExchangeDeclare(exchange="b", type="direct", durable=durable))
            client.call(QueueDeclare(queue="q", durable=durable))
            left = field.http("GET", "/api/headgate/bindings").count(b'"name":"b/')
            check(left == 0, f"{left} bindings are left")
            if going is not None:
                client.send(b"".join(method_frame(1, bind("q", "b", str(number))) for number in range(count)))
                settle_up(client, queue="q")
                client.call(going)
        client.call(QueueDelete(queue="q"))
        client.call(ExchangeDelete(exchange="b"))


def auto_delete_chain(field: Field) -> None:
    """900 auto-delete exchanges, bound one to the next. Removing the last binding deletes them all."""
    client = field.client091()
    count = field.n(900)
    for number in range(count):
        client.tell(ExchangeDeclare(exchange=f"e{number}", type="fanout", auto_delete=True, no_wait=True))
    declare(client, "q")
    for number in range(count - 1):
        client.tell(ExchangeBind(destination=f"e{number + 1}", source=f"e{number}", no_wait=True))
    client.tell(bind("q", f"e{count - 1}"))
    settle_up(client, queue="q")
    client.call(QueueDelete(queue="q"))


ATTACKS = [
    Attack("3,500 bindings", bindings),
    Attack("50,000 bindings go", many_bindings_go),
    Attack("auto-delete exchanges", auto_delete_chain),
]
