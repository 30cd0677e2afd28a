"""Reads everything that a queue holds, as a consumer that takes all messages and gives all of them back."""

from core.clock import Now
from core.engine.broker import Broker
from core.interface import ConsumeOptions, Delivered, Mailbox, StreamOptions, StreamPosition

EVERYTHING = 10**9
"""A queue grant for all messages."""
TURNS_MAX = 10_000


def read_all(broker: Broker, queue: str, now: Now) -> list[tuple[bytes, bool]]:
    """Each entry in order, and whether it is flagged as redelivered. All of them go back to the queue."""
    mailbox = Mailbox(lambda: None)
    options = ConsumeOptions(stream=StreamOptions(position=StreamPosition.FIRST))
    consumer = broker.consume(queue, mailbox, read_all, options, None)
    broker.grant(consumer, EVERYTHING, False)
    found: list[tuple[bytes, bool]] = []
    for _ in range(TURNS_MAX):
        more = broker.turn(now)
        actions = mailbox.take()
        for action in actions:
            if isinstance(action, Delivered):
                found += [(entry, not action.first_acquirer) for entry in action.entries]
        if not actions and not more:
            broker.cancel(consumer)
            return found
    raise AssertionError(f"{queue} never stops delivering")
