"""Which member of etcd leads: requests go there while it is known.

Each other member hands what it is asked to the leader, and learns of the result from it: one hop more there, and one
back. A member is asked for its *status*, which names the leader by a number; the one whose own number that is leads.
What a member says may be old, so of two that say so the one of the later term is believed. Nothing depends on it.
"""

from collections.abc import Callable
from functools import partial
from math import inf

from core.cluster.etcd import STATUS, Etcd
from core.cluster.etcd_messages import MESSAGES, Message

LOOK_S = 10.0
"""How often a node asks which member leads."""
SOON_S = 1.0
"""The shortest time between two rounds: etcd has elected another leader."""
ASK_S = 0.5
"""How long a member may take for its status, which it says without the others."""


class EngineLeader:
    """One node's look at which member of etcd leads."""

    def __init__(self, etcd: Etcd, clock: Callable[[], float]) -> None:
        """``clock``: the node's monotonic clock, in seconds."""
        self._etcd, self._clock = etcd, clock
        self._looked_at = -inf
        self._looked_in = 0
        """The term of etcd in the last round."""
        self._awaited = 0
        """How many answers of this round are to come."""
        self._found = (0, "")
        """The latest term of which a member has said in this round that it leads, and its address."""

    def step(self) -> None:
        """Ask all members from time to time, and soon after an election."""
        now, term = self._clock(), self._etcd.term
        if self._awaited or now < self._looked_at + (LOOK_S if term == self._looked_in else SOON_S):
            return
        self._looked_at, self._looked_in = now, term
        self._found = (0, "")
        self._awaited = len(self._etcd.endpoints)
        for member, endpoint in enumerate(self._etcd.endpoints):
            request, answered = MESSAGES["StatusRequest"](), partial(self._answered, endpoint)
            self._etcd.ask(STATUS, request, answered, self._heard, timeout_s=ASK_S, member=member)

    def _answered(self, endpoint: str, status: Message) -> None:
        if status.leader == status.header.member_id:
            self._found = max(self._found, (status.header.raft_term, endpoint))
        self._heard()

    def _heard(self) -> None:
        self._awaited -= 1
        if not self._awaited and self._found[1]:
            self._etcd.ask_first(self._found[1])
