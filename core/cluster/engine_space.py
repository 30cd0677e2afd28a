"""How much of its quota etcd has used, and what a node does before and after it is used up.

Etcd refuses everything that takes space when its file is as large as its quota, until an operator, or this module, has
made room and ended its alarm. What was deleted takes space until etcd was told to forget earlier states, and its file
becomes smaller only when a member is defragmented, which holds that member up.

While more than :data:`PRESSED` of the quota is used, publishers wait, and no batch is kept for a member that is away:
what they would publish would end in etcd's refusal, and then nothing could be cut either.
"""

from collections.abc import Callable, Mapping
from math import inf

from core.cluster.etcd import Etcd
from core.cluster.etcd_messages import DEACTIVATE, MESSAGES, NOSPACE, Message, range_of

LOOK_S = 10.0
"""How often a node asks how much is used."""
PRESSED, RELIEVED = 0.8, 0.7
"""Publishers wait from the former share of the quota on, until the latter."""
ASK_S = 2.0
DEFRAGMENT_S = 60.0
"""How long a member may take for it: 8 GiB at 150 MB/s."""
AGAIN_S, AGAIN_MAX_S = LOOK_S, 600.0
"""How long a node that has made room, and finds that it did not help, waits until it tries again: the former at first,
then twice as long each time, up to the latter. Each try holds up every member of etcd, one after another."""
GB = 1e9


class EngineSpace:
    """One node's look at the space of etcd."""

    def __init__(
        self,
        etcd: Etcd,
        key: bytes,
        clock: Callable[[], float],
        *,
        quota: int,
        changed: Callable[[str], None],
        log: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        """``key``: any that there is. ``quota``: that of etcd, in bytes. ``changed`` is called with why publishers have
        to wait, and with an empty text when they need not."""
        self.used = 0
        """Bytes of the quota that are in use, as one member has said last."""
        self.why = ""
        """Why publishers wait."""
        self._etcd, self._key = etcd, key
        self._clock = clock
        self._quota = quota
        self._changed, self._log = changed, log
        self._look_at = -inf
        self._looking = self._mending = False
        self._refused = False
        """Whether etcd has refused something for lack of space."""
        self._mend_at = -inf
        """No room is made before this time."""
        self._again_s = AGAIN_S
        """How long the next pause is, if it did not help to make room."""

    @property
    def pressed(self) -> bool:
        """Whether so much is used that publishers wait."""
        return bool(self.why)

    @property
    def busy(self) -> bool:
        """Whether an answer is awaited."""
        return self._looking or self._mending

    def refused(self) -> None:
        """Etcd has refused something because it has no space."""
        if not self._refused:
            self._refused = True
            self._look_at = self._clock()
            self._tell("etcd has used up its quota, and refuses everything that takes space")

    def step(self, *, mends: bool) -> None:
        """Look from time to time. ``mends``: whether it is this node that makes room; another one only looks."""
        now = self._clock()
        if now < self._look_at or self.busy:
            return
        self._look_at = now + LOOK_S
        self._looking = True

        def answered(status: Message) -> None:
            self._looking = False
            self._looked(status, mends=mends)

        def unanswered() -> None:
            self._looking = False

        self._etcd.ask("Maintenance/Status", MESSAGES["StatusRequest"](), answered, unanswered, timeout_s=ASK_S)

    def _looked(self, status: Message, *, mends: bool) -> None:
        self.used = status.dbSizeInUse
        share = self.used / self._quota
        if any("NOSPACE" in error for error in status.errors):
            self._refused = True
        elif self._refused and not self._mending:
            self._refused = False
        if self._refused:
            self._tell("etcd has used up its quota, and refuses everything that takes space")
        elif share >= PRESSED or (share >= RELIEVED and self.why):
            self._tell(f"etcd uses {self.used / GB:.1f} of its {self._quota / GB:.1f} GB (cluster.engine_quota)")
        else:
            self._tell("")
        if not (self._refused or status.dbSize >= PRESSED * self._quota):
            self._mend_at, self._again_s = -inf, AGAIN_S
        elif mends and self._clock() >= self._mend_at:
            self._make_room()

    def _tell(self, why: str) -> None:
        if bool(why) != bool(self.why):
            self._changed(why)
        self.why = why

    def _make_room(self) -> None:
        """Have etcd forget earlier states, defragment each member, one after another, and end its alarm."""
        self._mending = True
        self._log("engine-space", {"why": self.why or "much of its file is free", "used": self.used})
        self._etcd.ask("KV/Range", range_of(self._key), self._compact, self._give_up, timeout_s=ASK_S)

    def _compact(self, response: Message) -> None:
        request = MESSAGES["CompactionRequest"](revision=response.header.revision, physical=True)
        done = self._defragment_from(0)
        self._etcd.ask("KV/Compact", request, lambda _: done(), done, timeout_s=DEFRAGMENT_S)

    def _defragment_from(self, member: int) -> Callable[[], None]:
        """What defragments the members from this one on. One that does not answer is left out."""

        def defragment() -> None:
            if member >= len(self._etcd.endpoints):
                request = MESSAGES["AlarmRequest"]()
                self._etcd.ask("Maintenance/Alarm", request, self._end_alarms, self._mended, timeout_s=ASK_S)
                return
            then = self._defragment_from(member + 1)
            request = MESSAGES["DefragmentRequest"]()
            self._etcd.ask(
                "Maintenance/Defragment", request, lambda _: then(), then, timeout_s=DEFRAGMENT_S, member=member
            )

        return defragment

    def _end_alarms(self, response: Message) -> None:
        """End the alarms in this answer, of which each member may have one, one after another."""
        alarms = [one for one in response.alarms if one.alarm == NOSPACE]

        def next_one() -> None:
            if not alarms:
                self._mended()
                return
            request = MESSAGES["AlarmRequest"](action=DEACTIVATE, memberID=alarms.pop().memberID, alarm=NOSPACE)
            self._etcd.ask("Maintenance/Alarm", request, lambda _: next_one(), next_one, timeout_s=ASK_S)

        next_one()

    def _mended(self) -> None:
        self._mending = False
        now = self._look_at = self._clock()
        self._mend_at = now + self._again_s
        self._again_s = min(2 * self._again_s, AGAIN_MAX_S)
        self._log("engine-space-made", {"refused": self._refused})

    def _give_up(self) -> None:
        self._mending = False
