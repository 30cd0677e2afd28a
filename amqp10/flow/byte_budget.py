"""Bytes that the windows of publishers may have under way, for each link, each connection and the broker."""

from enum import StrEnum


class BudgetOf(StrEnum):
    """Whose bytes a budget bounds."""

    LINK = "link"
    CONNECTION = "connection"
    BROKER = "broker"


class ByteBudget:
    """Bytes that several windows may have together, granted or unconfirmed; a window's may be part of a larger one.

    A window may take half of what is free, so each newcomer finds something. Where nothing is free, each window gives
    back an eighth as it is used, the large ones most. A window has room for one message always.
    """

    __slots__ = ("_held", "_maximum", "_parent", "share")

    def __init__(self, maximum: int, parent: "ByteBudget | None" = None, share: int | None = None) -> None:
        self._maximum = maximum
        self._parent = parent
        self.share = maximum if share is None else share
        """The most that one window may have; without it, all."""
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes of all windows."""
        return self._held

    def room(self, held: int) -> int:
        """Bytes that a window may have, if it has ``held`` now."""
        free = self._maximum - self._held
        room = min(self.share, held + free // 2 if free > 0 else held * 7 // 8)
        return room if self._parent is None else min(room, self._parent.room(held))

    def tightest(self, held: int) -> BudgetOf:
        """Which budget leaves a window with ``held`` the least room."""
        free = self._maximum - self._held
        own = held + free // 2 if free > 0 else held * 7 // 8
        if self._parent is not None and self._parent.room(held) < min(self.share, own):
            return BudgetOf.BROKER
        return BudgetOf.LINK if self.share <= own else BudgetOf.CONNECTION

    def change(self, held: int) -> None:
        """A window takes so many bytes more, or fewer."""
        self._held += held
        if self._parent is not None:
            self._parent.change(held)
