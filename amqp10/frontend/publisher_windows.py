"""Link credit of publishers with ``amqp10.flow = "adaptive"``: which links share a fair rate, and which share bytes.

Links to one target share its fair rate (:mod:`amqp10.flow.fair_rate`). A link to the anonymous terminus has one of its
own, since its messages have many targets. The bytes that may be under way are bounded for each link, each connection
and the broker. With ``"fixed"`` there is no object of this module.
"""

from collections.abc import Callable
from functools import partial
from weakref import WeakValueDictionary

from amqp10.flow.fair_rate import ByteBudget, FairRate, PublisherWindow
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.frontend.incoming import PublisherLink
from amqp10.protocol.events import SenderFlowReceived
from amqp10.protocol.receiver_link import ReceiverLink
from core.config.amqp10 import Amqp10Settings
from core.interface import Target


class PublisherWindows:
    """The fair rates and the byte budget of one broker, and the time of the present turn."""

    __slots__ = ("_budget", "_rates", "_settings", "now")

    def __init__(self, settings: Amqp10Settings) -> None:
        self.now = 0.0
        """Monotonic seconds. The front end whose turn it is sets it, so that no link reads a clock."""
        self._settings = settings
        self._budget = ByteBudget(settings.unconfirmed_bytes_max)
        self._rates: WeakValueDictionary[tuple[str, Target], FairRate] = WeakValueDictionary()
        """By virtual host and target, while there is a link to the target."""

    def of_connection(self, wake: Callable[[], None]) -> "ConnectionWindows":
        """The windows of a new connection; ``wake`` asks for a turn of it."""
        settings = self._settings
        share = ByteBudget(settings.connection_unconfirmed_bytes_max, self._budget, settings.link_unconfirmed_bytes_max)
        return ConnectionWindows(self, share, wake)

    def fair_rate(self, virtual_host: str, target: Target | None) -> FairRate:
        """The fair rate of a target on a virtual host; None is the anonymous terminus."""
        if target is None:
            return FairRate()
        rate = self._rates.get((virtual_host, target))
        if rate is None:
            rate = self._rates[virtual_host, target] = FairRate()
        return rate

    @property
    def bytes_held(self) -> int:
        """Bytes that all links may have under way."""
        return self._budget.held

    def time(self) -> float:
        """The time of the present turn."""
        return self.now


class ConnectionWindows:
    """The windows of one connection's links."""

    __slots__ = ("_budget", "_of_broker", "_wake")

    def __init__(self, of_broker: PublisherWindows, budget: ByteBudget, wake: Callable[[], None]) -> None:
        self._of_broker = of_broker
        self._budget = budget
        self._wake = wake

    def begin_turn(self, monotonic: float) -> None:
        """A turn of the connection begins at this time."""
        self._of_broker.now = monotonic

    def join(self, credit: ReceiverCredit, link: ReceiverLink, virtual_host: str, target: Target | None) -> None:
        """Give a link to a target of a virtual host a window, which its link credit follows."""
        windows = self._of_broker
        call = partial(self._called, link)
        window = PublisherWindow(windows.fair_rate(virtual_host, target), windows.now, call, self._budget)
        credit.follow(window, windows.time)

    def _called(self, link: ReceiverLink) -> None:
        """In a turn of another connection, the link has got link credit."""
        link.channel.refill_later(link)
        self._wake()


def link_credit_rule(user: PublisherLink, virtual_host: str, windows: ConnectionWindows | None) -> ReceiverCredit:
    """The rule at the attach: a window's where there are windows, else the configured one. Both keep to the policy of
    the target."""
    credit = user.link_credit_rule()
    if windows is not None:
        windows.join(credit, user.link, virtual_host, user.publisher.fixed_target)
    return credit


def sender_flow_received(event: SenderFlowReceived) -> None:
    """A publisher may have given back link credit without sending, so that it needs a flow to go on."""
    if event.link.credit.window is not None:
        event.link.channel.refill_later(event.link)
