"""The flows of the soak over AMQP 0.9.1, with pika: each in a thread of its own."""

import time
from collections.abc import Callable

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.soak.flowing10 import OPEN_MAX
from tests.soak.plan import Flow, body, number_of

PREFETCH = 100
ACK_EVERY = 10
"""How many messages are acknowledged with one method, as many consumers do."""
POLL_S = 0.5

Stopped = Callable[[], bool]


def connection(host: str, port: int) -> pika.BlockingConnection:
    """A connection as guest."""
    return pika.BlockingConnection(pika.ConnectionParameters(host, port, heartbeat=60))


def publish(host: str, port: int, flow: Flow, rate: float, stopped: Stopped) -> None:
    """Publish until the soak stops. A message that is not confirmed raises, and ends the soak."""
    with connection(host, port) as connected:
        channel = connected.channel()
        if not flow.presettled:
            channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=2 if flow.durable else 1)
        due = time.monotonic()
        while not stopped():
            if flow.book.open < OPEN_MAX:
                for number in flow.book.issue(flow.burst):
                    channel.basic_publish(flow.exchange, flow.name, body(number, flow.sizes), properties)
                    flow.book.confirmed += 1
            due = max(due + flow.burst / flow.per_second / rate, time.monotonic())
            connected.sleep(max(0.0, due - time.monotonic()))


def consume(host: str, port: int, flow: Flow, stopped: Stopped) -> None:
    """Consume until the soak stops."""
    with connection(host, port) as connected:
        channel = connected.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        arguments = {"x-stream-offset": "first"} if flow.stream else None
        unacked: list[int] = []
        tag = 0
        for method, _, content in channel.consume(flow.queue, inactivity_timeout=POLL_S, arguments=arguments):
            if method is not None:
                number = number_of(content)
                flow.book.deliver(number, again=method.redelivered and not flow.stream)
                if not _put_off(channel, flow, number, method):
                    unacked.append(number)
                    tag = method.delivery_tag
            if unacked and (method is None or len(unacked) >= ACK_EVERY):
                channel.basic_ack(tag, multiple=True)
                for number in unacked:
                    flow.book.settle(number)
                unacked.clear()
            if stopped():
                break
        channel.cancel()


def _put_off(channel: BlockingChannel, flow: Flow, number: int, method: pika.spec.Basic.Deliver) -> bool:
    """Give one message of ten back, or reject it, where the flow says so."""
    if number % 10:
        return False
    if flow.settles == "release" and not method.redelivered:
        channel.basic_nack(method.delivery_tag, requeue=True)
        return True
    if flow.settles == "reject":
        assert flow.dead is not None
        flow.dead.book.expect(number)
        channel.basic_reject(method.delivery_tag, requeue=False)
        flow.book.settle(number)
        return True
    return False
