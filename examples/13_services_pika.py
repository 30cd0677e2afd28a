"""Tutorial 13: services on AMQP 0.9.1 with pika: one connection, three channels; call, cast, multicast, broadcast.

To run it:

    python examples/13_services_pika.py
"""

import os
from collections.abc import Callable, Sequence
from itertools import count
from time import monotonic

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError

URL = os.environ.get("HEADGATE_URL", "amqp://guest:guest@127.0.0.1:5672")
ONE, MANY = "gear", "gear.groups"
"""The topic exchange for messages to one receiver, and the direct exchange for messages to many."""
PREFETCH = 10
SECONDS_MAX = 10

Handler = Callable[[str], str]


class Service:
    """A service of a type on a host. Other services reach it by a key: `repo`, or `repo.host2`."""

    def __init__(self, of_type: str, host: str, handler: Handler, *, url: str = URL) -> None:
        self.key, self.handler = f"{of_type}.{host}", handler
        self.handled: list[str] = []
        self._calls: dict[str, Callable[[str], None]] = {}
        self._ids = count(1)
        parameters = pika.URLParameters(url)
        parameters.client_properties = {"connection_name": self.key}
        self.connection = pika.BlockingConnection(parameters)
        self._publishing = self.connection.channel()
        self._publishing.confirm_delivery()
        self._publishing.exchange_declare(ONE, "topic", durable=True)
        self._publishing.exchange_declare(MANY, "direct", durable=True)
        self._consume(of_type, {ONE: [of_type]}, exclusive=False)
        self._consume(self.key, {ONE: [self.key], MANY: [f"{of_type}.*", "*.*"]}, exclusive=True)

    def _consume(self, queue: str, bindings: dict[str, list[str]], *, exclusive: bool) -> None:
        """Open a channel that consumes a queue. The queue is declared and bound if it does not exist."""
        channel = self.connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        channel.queue_declare(queue, auto_delete=True)
        for exchange, keys in bindings.items():
            for key in keys:
                channel.queue_bind(queue, exchange, key)
        channel.basic_consume(queue, self._received, exclusive=exclusive)

    # --- sending ---------------------------------------------------------------------------------------------------

    def call(self, key: str, text: str, then: Callable[[str], None]) -> None:
        """Send a request and go on: ``then`` gets the answer when it comes. Raises UnroutableError when no service has
        the key."""
        identity = f"{self.key}-{next(self._ids)}"
        properties = pika.BasicProperties(reply_to=self.key, correlation_id=identity, type="call")
        self._publishing.basic_publish(ONE, key, text.encode(), properties, mandatory=True)
        self._calls[identity] = then

    def cast(self, key: str, text: str) -> None:
        """Send a message without an answer."""
        self._publishing.basic_publish(ONE, key, text.encode(), pika.BasicProperties(type="cast"), mandatory=True)

    def multicast(self, of_type: str, text: str) -> None:
        """Send a message to every host of a type."""
        self._publishing.basic_publish(MANY, f"{of_type}.*", text.encode(), pika.BasicProperties(type="cast"))

    def broadcast(self, text: str) -> None:
        """Send a message to every host of every type."""
        self._publishing.basic_publish(MANY, "*.*", text.encode(), pika.BasicProperties(type="cast"))

    # --- receiving -------------------------------------------------------------------------------------------------

    def _received(
        self,
        channel: BlockingChannel,
        delivery: pika.spec.Basic.Deliver,
        properties: pika.BasicProperties,
        body: bytes,
    ) -> None:
        """Pass an answer to the call that waits for it. Handle any other message, answer it if it asks for that, and
        ack it."""
        if properties.type == "answer":
            self._calls.pop(properties.correlation_id)(body.decode())
        else:
            self.handled.append(body.decode())
            answer = self.handler(body.decode())
            if properties.type == "call":
                about = pika.BasicProperties(correlation_id=properties.correlation_id, type="answer")
                self._publishing.basic_publish(ONE, properties.reply_to, answer.encode(), about)
        channel.basic_ack(delivery.delivery_tag)


def run(services: Sequence[Service], done: Callable[[], bool]) -> None:
    """Let the services take turns until the condition holds. Each could be a process on a host of its own."""
    deadline = monotonic() + SECONDS_MAX
    while not done():
        if monotonic() > deadline:
            raise TimeoutError(f"not done within {SECONDS_MAX} s")
        for service in services:
            service.connection.process_data_events(time_limit=0)


def handled(services: Sequence[Service], text: str) -> list[str]:
    """The services that have handled a message."""
    return [service.key for service in services if text in service.handled]


def main() -> None:
    """Run three types of services on two hosts, with every kind of message between them."""
    hosts = [(of_type, host) for of_type in ("web", "ctrl", "repo") for host in ("host1", "host2")]
    services = [Service(of_type, host, lambda text: f"{text}: done") for of_type, host in hosts]
    web, repos = services[0], services[4:]
    answers: list[str] = []

    web.call("repo.host2", "save", answers.append)
    print("before the answer:", answers)
    run(services, lambda: len(answers) == 1)
    print("call repo.host2:", answers, handled(services, "save"))

    for number in range(6):
        web.call("repo", f"load {number}", answers.append)
    run(services, lambda: len(answers) == 7)
    print("six calls of repo:", [sum(text.startswith("load") for text in repo.handled) for repo in repos])

    web.cast("ctrl.host1", "count")
    run(services, lambda: bool(handled(services, "count")))
    print("cast ctrl.host1:", handled(services, "count"), len(answers), "answers")

    web.multicast("ctrl", "reload")
    run(services, lambda: len(handled(services, "reload")) == 2)
    print("multicast ctrl:", handled(services, "reload"))

    web.broadcast("hello")
    run(services, lambda: len(handled(services, "hello")) == len(services))
    print("broadcast:", handled(services, "hello"))

    try:
        web.call("repo.host3", "save again", answers.append)
    except UnroutableError as returned:
        print("returned:", returned.messages[0].method.routing_key, returned.messages[0].method.reply_text)
        services.append(Service("repo", "host3", lambda text: f"{text}: done at last"))
        web.call("repo.host3", "save again", answers.append)
    run(services, lambda: len(answers) == 8)
    print("sent again:", answers[-1])

    for service in services:
        service.connection.close()


if __name__ == "__main__":
    main()
