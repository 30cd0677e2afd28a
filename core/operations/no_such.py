"""Why a request is for no operation. Front ends know these before the first request, when no operation is loaded."""

from collections.abc import Sequence


class NoSuchPath(Exception):
    """No operation has this path."""


class NoSuchMethod(Exception):
    """Operations have this path, but none with this method. ``allowed`` are the methods that there are."""

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(allowed)
        self.allowed = allowed
