"""The limits on publishing to the queues and exchanges of one virtual host, while a link publishes under them."""

from collections.abc import Mapping
from weakref import WeakValueDictionary

from core.engine.options.policies import Policies
from core.engine.queue.kinds import AnyQueue
from core.engine.routing.edges import Node
from core.interface import QueueTarget, Target
from core.publish_limit import NO_RATES, PublishLimit, PublishRates


class PublishLimits:
    """The limit of a virtual host, and those of its queues and exchanges, whose rates the policies say."""

    __slots__ = ("_limits", "_policies", "_queues", "of_host")

    def __init__(self, virtual_host: str, policies: Policies, queues: Mapping[str, AnyQueue]) -> None:
        self.of_host = PublishLimit(f"virtual host {virtual_host}")
        self._policies = policies
        self._queues = queues
        self._limits: WeakValueDictionary[Node, PublishLimit] = WeakValueDictionary()

    def of(self, target: Target | None) -> tuple[PublishLimit, ...]:
        """The limits for a publisher to this target; None is the anonymous terminus, which has no limit of its own."""
        if target is None:
            return (self.of_host,)
        is_queue = isinstance(target, QueueTarget)
        node = Node(is_queue, target.queue if isinstance(target, QueueTarget) else target.exchange)
        limit = self._limits.get(node)
        if limit is None:
            kind = "queue" if is_queue else "exchange"
            limit = self._limits[node] = PublishLimit(f"{kind} {node.name}")
        limit.set(self._rates_of(node))
        return (limit, self.of_host)

    def renew(self, name: str, *, is_queue: bool) -> None:
        """The policy in force for a queue or an exchange may be another one."""
        node = Node(is_queue, name)
        limit = self._limits.get(node)
        if limit is not None:
            limit.set(self._rates_of(node))

    def _rates_of(self, node: Node) -> PublishRates:
        if not node.is_queue:
            return self._policies.exchange_rates(node.name)
        queue = self._queues.get(node.name)
        return NO_RATES if queue is None else queue.options.publish_rates
