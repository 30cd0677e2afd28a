"""The regular look at the sessions and consuming links of one connection: which of them wait for their client."""

from collections.abc import Collection, Iterator

from amqp10.frontend.outgoing import ConsumerLink
from amqp10.frontend.reasons import BlockWatches
from amqp10.frontend.session_watches import SessionWatches
from amqp10.protocol.connection import Connection
from core.clock import Now
from core.interface import Engine
from core.observe.stalls import SLICE


def looks(
    consumers: Collection[ConsumerLink],
    sessions: SessionWatches,
    blocks: BlockWatches,
    connection: Connection,
    engine: Engine,
    now: Now,
) -> Iterator[int]:
    """Check which sessions and consuming links wait for their client; yields between some, with the number of links
    looked at."""
    for session in connection.sessions:
        sessions.look(session, now)
        yield 0
    all_now = list(consumers)
    for start in range(0, len(all_now), SLICE):
        some = [user for user in all_now[start : start + SLICE] if user in consumers]
        for user in some:
            reason = user.waits_for_client(backlog_bytes=connection.backlog_bytes, ready=engine.ready_messages)
            blocks.looked(user, reason, delivery_count=user.link.credit.delivery_count, now=now)
        yield len(some)
