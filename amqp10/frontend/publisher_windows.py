"""Link credit of publishers: what limits each link, which links share a fair rate, and which share bytes.

With ``amqp10.flow = "adaptive"``, links to one target share its fair rate (:mod:`amqp10.flow.fair_rate`). A link to the
anonymous terminus has one of its own, since its messages have many targets; the queues that it used last hold it up
when they are full (:mod:`amqp10.frontend.recent_queues`). The bytes that may be under way are bounded for each link,
each connection and the broker. With ``"fixed"`` there are no such windows, and a link that asks for more link credit
gets it within these bounds (:mod:`amqp10.flow.wanted_link_credit`).

Consumers get their batches by their rate of settling with ``"adaptive"`` (:mod:`amqp10.flow.grant_size`); the time of
the present turn is here, too.

Rate limits (:mod:`amqp10.frontend.publish_rates`) hold for both.
"""

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from itertools import count
from weakref import WeakValueDictionary

from amqp10.flow.byte_budget import ByteBudget
from amqp10.flow.fair_rate import FairRate, PublisherWindow
from amqp10.flow.grant_size import GrantSize
from amqp10.flow.link_credit import ReceiverCredit
from amqp10.flow.wanted_link_credit import WantedLinkCredit
from amqp10.frontend.flow_self import earlier
from amqp10.frontend.incoming import PublisherLink
from amqp10.frontend.publish_rates import BrokerRates, ConnectionRates
from amqp10.frontend.recent_queues import RecentQueues
from amqp10.protocol.events import SenderFlowReceived
from amqp10.protocol.receiver_link import ReceiverLink
from core.access.checked_engine import CheckedEngine
from core.config.amqp10 import Amqp10Settings
from core.interface import Mailbox, RightsChanged, Target
from core.publish_limit import PublishLimit, PublishRates


class PublisherWindows:
    """The fair rates, the byte budget and the rate limits of one broker, and the time of the present turn."""

    __slots__ = ("_budget", "_fair_rates", "_settings", "now", "of_connections", "rates")

    def __init__(self, settings: Amqp10Settings) -> None:
        self.now = 0.0
        """Monotonic seconds. The front end whose turn it is sets it, so that no link reads a clock."""
        self._settings = settings
        self._budget = ByteBudget(settings.unconfirmed_bytes_max)
        self.rates = BrokerRates()
        self.of_connections = PublishRates(
            settings.connection_publish_rate or None, settings.connection_publish_rate_bytes or None
        )
        """The rates of each connection."""
        self._fair_rates: WeakValueDictionary[tuple[str, Target], FairRate] = WeakValueDictionary()
        """By virtual host and target, while there is a link to the target."""

    def of_connection(self, mailbox: Mailbox, wake: Callable[[], None]) -> "ConnectionWindows":
        """What limits the links of a new connection with this mailbox; ``wake`` asks for a turn of it."""
        return ConnectionWindows(self, mailbox, wake)

    @property
    def adaptive(self) -> bool:
        """Whether links have windows."""
        return self._settings.flow == "adaptive"

    def share(self) -> ByteBudget:
        """The byte budget of a new connection."""
        settings = self._settings
        return ByteBudget(settings.connection_unconfirmed_bytes_max, self._budget, settings.link_unconfirmed_bytes_max)

    @property
    def ordinary_link_credit(self) -> int:
        """The fixed link credit of publishers that do not ask for more."""
        return self._settings.max_link_credit

    def wanted(self, budget: ByteBudget) -> WantedLinkCredit:
        """Link credit beyond the fixed one, of a link on a connection with this budget."""
        settings = self._settings
        return WantedLinkCredit(
            ordinary=settings.max_link_credit, unconfirmed_limit=settings.unconfirmed_limit, budget=budget
        )

    def grant_size(self) -> GrantSize | None:
        """The size of a new consumer's batches; None with fixed flow control."""
        settings = self._settings
        if settings.flow == "fixed":
            return None
        return GrantSize(
            least=settings.queue_grant_min,
            most=settings.queue_grant_max,
            bytes_max=settings.unsent_bytes_max,
            clock=self.time,
        )

    def fair_rate(self, virtual_host: str, target: Target | None) -> FairRate:
        """The fair rate of a target on a virtual host; None is the anonymous terminus."""
        if target is None:
            return FairRate()
        rate = self._fair_rates.get((virtual_host, target))
        if rate is None:
            rate = self._fair_rates[virtual_host, target] = FairRate()
        return rate

    @property
    def bytes_held(self) -> int:
        """Bytes that all links may have under way."""
        return self._budget.held

    def time(self) -> float:
        """The time of the present turn."""
        return self.now


class ConnectionWindows:
    """What limits the link credit of one connection's links."""

    __slots__ = (
        "_alarms", "_budget", "_budget_of_wanted", "_mailbox", "_of_broker", "_order", "_own", "_wake", "rates",
        "timed",
    )  # fmt: skip

    def __init__(self, of_broker: PublisherWindows, mailbox: Mailbox, wake: Callable[[], None]) -> None:
        self._of_broker = of_broker
        self._own = PublishLimit("connection", of_broker.of_connections) if any(of_broker.of_connections) else None
        self._budget = of_broker.share() if of_broker.adaptive else None
        self._budget_of_wanted: ByteBudget | None = None
        """With fixed link credit, that of links that want more; None until there is one, as on most connections."""
        self._mailbox = mailbox
        self._wake = wake
        self._alarms: list[tuple[float, int, FairRate]] = []
        """A heap of the times at which fair rates need a turn, which links of this connection have asked for."""
        self._order = count()
        self.rates: ConnectionRates | None = None
        """The rate limits of the links; None until one of them has a limit, which few connections have."""
        self.timed = self._budget is not None
        """Whether :meth:`begin_turn` has to be called: something limits a link by the time."""

    def begin_turn(self, monotonic: float) -> None:
        """A turn of the connection begins at this time."""
        self._of_broker.now = monotonic

    @property
    def deadline(self) -> float | None:
        """When :meth:`tick` has something to do; None if nothing waits for a time."""
        of_rates = None if self.rates is None else self.rates.deadline
        return earlier(of_rates, self._alarms[0][0] if self._alarms else None)

    def tick(self, monotonic: float, *, can_send: bool) -> None:
        """Fair rates that need a turn get it, and links whose time has come may ask for tokens; see
        :meth:`ConnectionRates.tick`."""
        self.begin_turn(monotonic)
        while self._alarms and self._alarms[0][0] <= monotonic:
            heappop(self._alarms)[2].turn(monotonic)
        if self.rates is not None:
            self.rates.tick(can_send=can_send)

    def link_credit_rule(self, user: PublisherLink, engine: CheckedEngine, now: float) -> ReceiverCredit:
        """The rule at the attach, which is now: a window's where there are windows, else the configured one. Both keep
        to the policy of the target, and to the rates that limit the link."""
        self.begin_turn(now)
        credit = user.link_credit_rule()
        if user.publisher.home is not None:
            return credit
        if self._budget is not None:
            self._join(credit, user.link, self._budget, engine.rights.virtual_host, user.publisher.fixed_target)
            if user.publisher.fixed_target is None:
                user.recent = RecentQueues(engine, user.publisher)
        elif (user.link_credit_wanted or 0) > self._of_broker.ordinary_link_credit:
            if self._budget_of_wanted is None:
                self._budget_of_wanted = self._of_broker.share()
            credit.want(self._of_broker.wanted(self._budget_of_wanted))
        limits = engine.publish_limits(user.publisher.fixed_target)
        user.limits = limits if self._own is None else (*limits, self._own)
        user.limits_changed = changed = self._limits_changed
        for limit in user.limits:
            limit.watch(changed)
        self.limit(user, credit)
        return credit

    def grant_size(self) -> GrantSize | None:
        """The size of a new consumer's batches; None with fixed flow control."""
        return self._of_broker.grant_size()

    def limit(self, user: PublisherLink, credit: ReceiverCredit) -> None:
        """Put the rates in force that limit a link now, and the weight of its user."""
        if credit.window is not None:
            credit.window.weight = max((limit.weight for limit in user.limits), default=1)
        if self.rates is None:
            if not any(any(limit.rates) for limit in user.limits):
                return
            self.rates = ConnectionRates(self._of_broker.rates, self._wake, self._of_broker.time)
        self.timed |= self.rates.limit(user.link, credit, user.limits)

    def _join(
        self, credit: ReceiverCredit, link: ReceiverLink, budget: ByteBudget, virtual_host: str, target: Target | None
    ) -> None:
        """Give a link to a target of a virtual host a window, which its link credit follows."""
        windows = self._of_broker
        rate = windows.fair_rate(virtual_host, target)
        call, alarm = partial(self._called, link), partial(self._alarm, rate)
        window = PublisherWindow(rate, windows.now, call, budget, alarm, credit.maximum)
        credit.follow(window, windows.time)

    def _alarm(self, rate: FairRate, time: float) -> None:
        """A fair rate needs a turn at this time, maybe in a turn of another connection."""
        heappush(self._alarms, (time, next(self._order), rate))
        self._wake()

    def _limits_changed(self) -> None:
        """A rate is another one: the links have to be checked again."""
        self._mailbox.put(RightsChanged())

    def _called(self, link: ReceiverLink) -> None:
        """In a turn of another connection, the link has got link credit."""
        link.channel.refill_later(link)
        self._wake()


def sender_flow_received(event: SenderFlowReceived) -> None:
    """A publisher may have given back link credit without sending, so that it needs a flow to go on. In a drain it was
    asked to."""
    if not event.link.credit.drain:
        event.link.channel.refill_later(event.link)
