"""Makes the HTTP API and its live stream from their sources."""

from itertools import chain

from structlog.typing import FilteringBoundLogger

from core.admin.api.application import Api
from core.admin.api.headgate import HeadgateApi
from core.admin.api.live import LiveFeed
from core.admin.api.rabbitmq import RabbitmqReads
from core.admin.api.rabbitmq_health import HealthChecks
from core.admin.api.rabbitmq_writes import RabbitmqWrites
from core.admin.api.sources import ApiSources


def live_feed(sources: ApiSources) -> LiveFeed:
    """Return the live stream over these sources."""
    return LiveFeed(
        overview=sources.overview.read,
        stalls=lambda: sources.stalls().values(),
        clock=sources.clock,
        clients_max=sources.constants.live_clients_max,
        events_max=sources.constants.queued_events_max,
    )


def make_api(sources: ApiSources, live: LiveFeed, *, body_max: int, log: FilteringBoundLogger) -> Api:
    """Return the application over these sources."""
    parts = (HeadgateApi(sources, live), RabbitmqReads(sources), RabbitmqWrites(sources), HealthChecks(sources))
    operations = list(chain.from_iterable(part.operations() for part in parts))
    return Api(operations, version=sources.constants.version, body_max=body_max, log=log)
