"""Makes the HTTP API and its live stream over a control plane."""

from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from core.admin.api import rabbitmq, rabbitmq_health, rabbitmq_hosts, rabbitmq_messages, rabbitmq_users, rabbitmq_writes
from core.admin.api.application import Api
from core.admin.api.live import LiveFeed, live_operation
from core.clock import Now
from core.config.admin import AdminSettings
from core.control_plane import BrokerControl
from core.observe.overview import Overview


def live_feed(
    control: BrokerControl, overview: Overview, settings: AdminSettings, *, clock: Callable[[], Now]
) -> LiveFeed:
    """Return the live stream of a broker."""
    return LiveFeed(
        overview=overview.read,
        stalls=lambda: control.stalls.current.values(),
        clock=clock,
        clients_max=settings.live_clients_max,
        per_user_max=settings.live_clients_per_user_max,
    )


def make_api(control: BrokerControl, live: LiveFeed, *, body_max: int, log: FilteringBoundLogger) -> Api:
    """Return the application over a control plane."""
    rabbit = (rabbitmq, rabbitmq_writes, rabbitmq_messages, rabbitmq_users, rabbitmq_hosts, rabbitmq_health)
    own = [live_operation(live), *(one for module in rabbit for one in module.OPERATIONS)]
    return Api(control, own, body_max=body_max, log=log)
