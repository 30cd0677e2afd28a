"""The first node's order of changes behind a network that delays and loses, for simulations."""

from collections.abc import Callable
from pathlib import Path

from core.cluster.definitions import StateReading, encoded, operations
from core.cluster.definitions_engine import EVERYWHERE, KEPT, READ_MAX, ChangesRead
from core.cluster.keys import ClusterKeys
from core.engine.routing.agreement import AgreedChange
from core.store.order_database import OrderDatabase
from tests.cluster.network import Network

KEYS = ClusterKeys("simulated")


def order_in_memory() -> OrderDatabase:
    """An order that is in memory."""
    return OrderDatabase(Path(":memory:"), kept=KEPT, identity="simulated")


class SimulatedOrder:
    """What one node has of the order, as :class:`core.cluster.definitions_engine.DefinitionsEngine`."""

    name, advice = "the first node", "Try again"

    def __init__(self, node: int, order: OrderDatabase, network: Network) -> None:
        self.trouble, self.everywhere = "", EVERYWHERE
        self.over = False
        """The process of the node has ended: it hears nothing more."""
        self._node, self._order, self._network = node, order, network

    def tell_made(self, number: int) -> None:
        """Nothing waits for it."""

    def put(
        self,
        number: int,
        change: AgreedChange,
        known: int,
        answered: Callable[[ChangesRead | None], None],
        unanswered: Callable[[], None],
    ) -> None:
        """See :class:`core.cluster.definitions_engine.DefinitionsEngine`, also for the methods below."""
        data, changed = encoded(change), operations(KEYS, change)

        def carry_out() -> ChangesRead | None:
            return None if self._order.put(number, data, changed) else self._changes(known)

        self._ask(carry_out, answered, unanswered)

    def read(self, known: int, answered: Callable[[ChangesRead], None], unanswered: Callable[[], None]) -> None:
        self._ask(lambda: self._changes(known), answered, unanswered)

    def read_state(self, answered: Callable[[int, StateReading], None], unanswered: Callable[[], None]) -> None:
        def take(found: tuple) -> None:
            state = StateReading(KEYS)
            state.take(found[1])
            answered(found[0], state)

        self._ask(self._order.state, take, unanswered)

    def _changes(self, known: int) -> ChangesRead:
        return ChangesRead(self._order.latest, self._order.changes(known, READ_MAX))

    def _ask(self, carry_out: Callable, answered: Callable, unanswered: Callable) -> None:
        def come_back(answer: object) -> None:
            if not self.over:
                self.trouble = ""
                answered(answer)

        def give_up() -> None:
            if not self.over:
                self.trouble = "no answer in time"
                unanswered()

        self._network.ask(self._node, carry_out, come_back, give_up)
