"""The last rows of a log, kept in memory so that an operator can read them over a connection."""

from collections import deque
from collections.abc import Mapping
from itertools import count


class RecentRows:
    """A bounded number of rows, each with a number that counts from 1 at the start. Any thread may add one."""

    def __init__(self, rows_max: int) -> None:
        self._rows: deque[Mapping[str, object]] = deque(maxlen=rows_max)
        self._numbers = count(1)

    def add(self, row: Mapping[str, object]) -> None:
        """Keep a row, of JSON's types only. The oldest one goes when there are too many."""
        self._rows.append({"number": next(self._numbers), **row})

    def newest(self, n: int) -> list[Mapping[str, object]]:
        """Return up to ``n`` rows, the newest first."""
        rows = self._rows.copy()  # at once, as another thread may add one meanwhile
        return [rows.pop() for _ in range(min(n, len(rows)))]
