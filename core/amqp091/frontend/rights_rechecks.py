"""A change of a user's rights takes hold on open channels: those with a consumer that is not allowed any more are
closed. Publishes are checked as they come."""

from collections.abc import Callable, Iterable, Iterator

from core.access.checked_engine import CheckedEngine
from core.amqp091.errors import ChannelFault
from core.amqp091.frontend.channel import Channel
from core.amqp091.frontend.replies import channel_fault
from core.errors import EngineError


def rights_rechecks(
    engine: CheckedEngine, channels: Iterable[Channel], fail: Callable[[Channel, ChannelFault], None]
) -> Iterator[None]:
    """Check the consumers of the channels, one at each step; ``fail`` closes a channel. A consumer that waits for a
    leader is checked when it goes on."""
    for channel in channels:
        channel.publishing.forget_options()
        for consumption in list(channel.consuming.by_tag.values()):
            if consumption.consumer is not None and not channel.released:
                try:
                    engine.check_source(consumption.consumer.queue_name)
                except EngineError as error:
                    fail(channel, channel_fault(error))
            yield
