"""What puts the changes of definitions in order, as :class:`core.cluster.definitions_log.DefinitionsLog` sees it: etcd
(``etcd_definitions.py``), or the first of several processes on one port (``core/server/order_client.py``)."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from core.cluster.definitions import StateReading
from core.engine.routing.agreement import AgreedChange

KEPT = 1_000
"""Changes that are kept for nodes that are behind: minutes, where declarations come by the second."""
READ_MAX = 100
"""The most changes in one answer; each takes 20 µs to decode."""
PAGE = 200
"""The most keys of the state in one answer: 4 ms to decode."""
PUT_S = 1.0
"""How long a request may take, as for a batch of messages."""
EVERYWHERE = 2**64 - 1
"""More than any number of a change."""


class ChangesRead(NamedTuple):
    """What a node learns of the order."""

    latest: int
    """The number of the last change that there is."""
    changes: Sequence[tuple[int, bytes]]
    """The next ones after the last that it knows, each with its number and encoded; at most :data:`READ_MAX`."""


class DefinitionsEngine(Protocol):
    """An engine. A method that asks returns at once; one of the two functions that it gets is called later."""

    name: str
    """What it is called in errors."""
    advice: str
    """What the client is told to do when it does not answer."""

    @property
    def trouble(self) -> str:
        """Why the last request had no answer; empty if it had one."""

    @property
    def everywhere(self) -> int:
        """The number up to which all nodes that are here have made the changes; :data:`EVERYWHERE` where clients need
        not wait for that."""

    def tell_made(self, number: int) -> None:
        """This node has made the changes up to a number, and its disk has them."""

    def put(
        self,
        number: int,
        change: AgreedChange,
        known: int,
        answered: Callable[[ChangesRead | None], None],
        unanswered: Callable[[], None],
    ) -> None:
        """Put a change if its number is the next one. The answer is None if it is there now, or what there is after the
        change ``known`` if another one came first. Raises :class:`core.cluster.definitions.TooLarge`."""

    def read(self, known: int, answered: Callable[[ChangesRead], None], unanswered: Callable[[], None]) -> None:
        """Read what there is after the change ``known``."""

    def read_state(self, answered: Callable[[int, StateReading], None], unanswered: Callable[[], None]) -> None:
        """Read what all changes add up to, and the number of the last of these."""
