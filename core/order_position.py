"""How far one node of a cluster is in the order of definitions that all nodes have in common.

A node that asks another one for something says with it how far it is itself. One that is behind makes the changes that
it has not made yet, and then does what it was asked for: so a client that declares a queue at one node, and uses it
there at once, finds it at the node that leads it.
"""

from collections.abc import Callable


class OrderPosition:
    """The position of this node. A broker alone has no order, and stays at 0."""

    __slots__ = ("_waiting", "made", "read_upto")

    def __init__(self) -> None:
        self.made = 0
        """The number of the last change that this node has made; -1 before it has read what there is."""
        self.read_upto: Callable[[int], None] = lambda number: None
        """Have this node read the changes up to this number now, and not with its next look. It may not find them."""
        self._waiting: dict[Callable[[], None], None] = {}

    def wait(self, number: int, then: Callable[[], None]) -> None:
        """Read the changes up to this number. Each time when this node has made some, ``then`` is called, until
        :meth:`forget`."""
        self._waiting[then] = None
        self.read_upto(number)

    def forget(self, then: Callable[[], None]) -> None:
        """Do not call ``then`` any more."""
        self._waiting.pop(then, None)

    def reached(self, number: int) -> None:
        """This node has made the changes up to this number."""
        if number == self.made:
            return
        self.made = number
        for then in list(self._waiting):
            then()
