"""How one link looks for the node that leads its queue, over the changes of leaders. It makes no waits itself."""

from dataclasses import dataclass
from math import inf

LASTED_S = 1.0
"""A link that was usable for so long had found its leader; what ends it then is another change of leaders."""
FIRST_DELAY_S, LONGEST_DELAY_S = 0.02, 1.0
"""The delay before the second attempt, and the longest one; it doubles. Another node leads 0.1 to 0.2 s after the end
of a process, and 2 s after the loss of a machine (docs/cluster.md)."""
GIVE_UP_S = 30.0
"""A link whose leader is lost for longer ends. A change of leaders takes 5 s at most, with the slowest times of etcd
that docs/cluster.md has; while no node leads at all, links attach and wait."""


@dataclass(slots=True)
class Journey:
    """The attempts of one link to be attached where its queue is led."""

    stays: bool = False
    """The leader has refused the link, so it is used where it is attached next."""
    refused: bool = False
    """The leader has refused it once, and is tried once more."""
    _attempts: int = 0
    _since: float = -inf
    _usable_at: float = inf

    def arrived(self, now: float) -> None:
        """The link can be used from now on (monotonic seconds)."""
        self._usable_at = now
        self.stays = self.refused = False

    def again(self, now: float) -> float | None:
        """The leader of the link is lost. Returns after how many seconds it is to be attached again; None for never."""
        if self._attempts == 0 or now - self._usable_at >= LASTED_S:
            self._attempts, self._since = 0, now
        self._usable_at = inf
        if now - self._since > GIVE_UP_S:
            return None
        delay = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** (self._attempts - 1)) if self._attempts else 0.0
        self._attempts += 1
        return delay
