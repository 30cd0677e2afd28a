"""What the commands of a host have done: plain numbers, which others read. Sans-IO; the caller gives times."""

from dataclasses import dataclass


@dataclass(slots=True)
class CommandCounts:
    """One command at one host, since the start of its service."""

    requests: int = 0
    """Requests whose execution began."""
    errors: int = 0
    """Requests that ended with an error."""
    retried: int = 0
    """Further calls of the handler after it raised."""
    seconds: float = 0.0
    """From the beginning of a request to the end of its handler, retries included, over all requests that ended."""
    longest_s: float = 0.0
    last_error: str = ""
    _logged_at: float | None = None
    _unlogged: int = 0

    def begun(self) -> None:
        """A request is being executed."""
        self.requests += 1

    def ended(self, seconds: float) -> None:
        """The handler has returned."""
        self.seconds += seconds
        self.longest_s = max(self.longest_s, seconds)

    def failed(self, seconds: float, error: str) -> None:
        """The handler has raised, and is not called again."""
        self.ended(seconds)
        self.errors += 1
        self.last_error = error

    def may_log(self, now: float, every_s: float) -> int | None:
        """How many failures were not logged since the last one that was; None if that is less than ``every_s`` ago."""
        if self._logged_at is not None and now - self._logged_at < every_s:
            self._unlogged += 1
            return None
        self._logged_at, unlogged, self._unlogged = now, self._unlogged, 0
        return unlogged
