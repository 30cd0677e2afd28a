"""The members of etcd, where the brokers start it: they follow the list of the members of the cluster.

One node does it for all: it has etcd take in those of the list that etcd does not know, first as *learners*, which get
everything and have no vote; gives them a vote when they have everything; and removes those of nodes that have gone. A
member is known by the name of its node, or by its address until it was started. etcd takes one change after another,
and refuses one with which it could lose its majority.

So a member that has lost its data is replaced by being removed: it is on the list, and taken in anew.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf
from typing import NamedTuple

from core.cluster.etcd import Etcd, EtcdAway, EtcdTlsFiles
from core.cluster.etcd_messages import MESSAGES, Message
from core.cluster.member_list import ListedMember, MemberList
from core.errors import PreconditionFailed, StillGoing

LOOK_S, SOON_S = 10.0, 1.0
"""How often a node looks at the members of etcd, and how often while they differ from the list."""
SEEN_TWICE = 2
"""A difference is seen so often in a row, with the same list, before anything is done: what a look shows may be older
than the list."""
ASK_S = 2.0
START_ASK_S = 1.0
"""How long each member may take before this node's own is started."""
FRESH_S = 1.0
"""For so long what etcd has said of its members counts."""
KEPT_S = 5.0
"""How long a result waits for who asked for it."""


class EngineMember(NamedTuple):
    """A member of etcd."""

    identity: int
    name: str
    """"" for one that was never started."""
    peers: tuple[str, ...]
    """Its addresses for the others, HOST:PORT."""
    is_learner: bool

    def is_of(self, listed: ListedMember) -> bool:
        """Whether it is that of a node's broker."""
        return self.name == listed.name if self.name else listed.peer in self.peers


def engine_members(response: Message) -> list[EngineMember]:
    """The members in an answer of etcd."""
    return [
        EngineMember(one.ID, one.name, tuple(url.partition("://")[2] for url in one.peerURLs), bool(one.isLearner))
        for one in response.members
    ]


def next_change(listed: MemberList, there: Sequence[EngineMember]) -> tuple[str, Message] | None:
    """The next request, as its method and message, that makes the members of etcd those of the list; None if they are.
    URLs in it have no scheme yet."""
    for gone in listed.gone:
        found = next((one for one in there if one.is_of(gone)), None)
        if found is not None and not any(found.is_of(one) for one in listed.members):
            return "Cluster/MemberRemove", MESSAGES["MemberRemoveRequest"](ID=found.identity)
    learner = next((one for one in there if one.is_learner), None)
    if learner is not None:
        return "Cluster/MemberPromote", MESSAGES["MemberPromoteRequest"](ID=learner.identity)
    for one in listed.members:
        if one.peer and not any(member.is_of(one) for member in there):
            return "Cluster/MemberAdd", MESSAGES["MemberAddRequest"](peerURLs=[one.peer], isLearner=True)
    return None


class EngineMembers:
    """One node's look at the members of etcd."""

    def __init__(
        self,
        etcd: Etcd,
        clock: Callable[[], float],
        *,
        scheme: str,
        log: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        """``scheme``: of the addresses of members, http or https."""
        self.members: list[EngineMember] = []
        """Those of the last look."""
        self._etcd, self._clock, self._scheme, self._log = etcd, clock, scheme, log
        self._look_at = -inf
        self._busy = False
        self._seen = 0
        """How often the difference was seen."""
        self._seen_version = -1
        self._asked: list[EngineMember] | None = None
        """The members as etcd has said for :meth:`check_votes`; None while it is asked."""
        self._asked_at = -inf
        self._replacing = ""
        """The node whose member is replaced, or was."""
        self._why: str | None = None
        """Why it was not; "" if it was, None while it is under way."""
        self._decided_at = -inf

    def step(self, listed: MemberList, *, mends: bool) -> None:
        """Make the members those of the list, one change after another. ``mends``: whether it is this node that does
        so."""
        now = self._clock()
        if not mends or self._busy or now < self._look_at:
            return
        self._look_at = now + LOOK_S
        self._busy = True
        request = MESSAGES["MemberListRequest"](linearizable=True)
        self._etcd.ask(
            "Cluster/MemberList", request, lambda answer: self._looked(listed, answer), self._rest, timeout_s=ASK_S
        )

    def _rest(self) -> None:
        self._busy = False

    def _looked(self, listed: MemberList, response: Message) -> None:
        self._busy = False
        self.members = engine_members(response)
        change = next_change(listed, self.members)
        if change is None or listed.version != self._seen_version:
            self._seen, self._seen_version = 0, listed.version
        if change is None:
            return
        self._look_at = self._clock() + SOON_S
        self._seen += 1
        if self._seen >= SEEN_TWICE:
            self._seen = 0
            self._ask(*change)

    def _ask(self, method: str, request: Message) -> None:
        if method == "Cluster/MemberAdd":
            request = MESSAGES["MemberAddRequest"](
                peerURLs=[f"{self._scheme}://{one}" for one in request.peerURLs], isLearner=True
            )
        self._busy = True

        def answered(_: Message) -> None:
            self._busy = False
            self._log("engine-members-changed", {"request": method, "member": str(request).strip()})

        # a learner that has not everything yet is refused its vote: it is asked for again
        self._etcd.ask(method, request, answered, self._rest, timeout_s=ASK_S)

    # --- votes

    def check_votes(self, listed: MemberList, names: Collection[str]) -> None:
        """Raises StillGoing until etcd has said who its members are, and PreconditionFailed if one of these nodes has
        no member with a vote that was started."""
        wanted = [one for one in listed.members if one.peer and one.name in names]
        if not wanted:
            return
        now = self._clock()
        if self._asked is None or now > self._asked_at + FRESH_S:
            self._ask_all(now)
            raise StillGoing("etcd is asked for its members")
        for one in wanted:
            if not any(there.name == one.name and not there.is_learner for there in self._asked):
                raise PreconditionFailed(
                    f"etcd of node {one.name} has no vote yet; wait for some seconds, or use --force"
                )

    def _ask_all(self, now: float) -> None:
        if self._asked is None and now < self._asked_at + 2 * ASK_S:
            return
        self._asked, self._asked_at = None, now

        def answered(members: list[EngineMember]) -> None:
            self._asked, self._asked_at = members, self._clock()

        request = MESSAGES["MemberListRequest"](linearizable=True)
        self._etcd.ask(
            "Cluster/MemberList", request, lambda response: answered(engine_members(response)), lambda: answered([]),
            timeout_s=ASK_S,
        )  # fmt: skip

    # --- for operators

    def replace(self, member: ListedMember, *, force: bool) -> None:
        """Have a node's member of etcd, which has lost its data, taken in anew. Raises StillGoing until it is removed,
        PreconditionFailed where brokers start no etcd, for a member that answers, unless ``force`` is set, and with
        etcd's reason if it refuses."""
        now = self._clock()
        if not member.peer:
            raise PreconditionFailed("the etcd of this cluster is run by its operator; replace its member with etcdctl")
        if self._replacing == member.name and self._why is not None and now < self._decided_at + KEPT_S:
            self._replacing = ""
            if self._why:
                raise PreconditionFailed(self._why)
            return
        if self._replacing and self._why is None:
            if self._replacing != member.name:
                raise PreconditionFailed(f"etcd of node {self._replacing} is being replaced; try again in a moment")
        else:
            self._replacing, self._why = member.name, None
            self._begin(member, force=force)
        raise StillGoing(f"etcd of node {member.name}: it is being replaced")

    def _begin(self, member: ListedMember, *, force: bool) -> None:
        if force or member.etcd not in self._etcd.endpoints:
            self._find(member)
            return

        def answered(_: Message) -> None:
            self._decide(f"etcd of node {member.name} answers: it need not be replaced")

        place = self._etcd.endpoints.index(member.etcd)
        self._etcd.ask(
            "Maintenance/Status", MESSAGES["StatusRequest"](), answered, lambda: self._find(member),
            timeout_s=ASK_S, member=place,
        )  # fmt: skip

    def _find(self, member: ListedMember) -> None:
        def answered(response: Message) -> None:
            found = next((one for one in engine_members(response) if one.is_of(member)), None)
            if found is None:
                self._decide("")
                return
            request = MESSAGES["MemberRemoveRequest"](ID=found.identity)
            self._etcd.ask("Cluster/MemberRemove", request, lambda _: self._decide(""), self._refused, timeout_s=ASK_S)

        request = MESSAGES["MemberListRequest"](linearizable=True)
        self._etcd.ask("Cluster/MemberList", request, answered, self._refused, timeout_s=ASK_S)

    def _refused(self) -> None:
        self._decide(f"etcd refuses: {self._etcd.trouble}")

    def _decide(self, why: str) -> None:
        self._why, self._decided_at = why, self._clock()
        self._look_at = -inf


def ask_members(endpoints: Sequence[str], tls: EtcdTlsFiles | None) -> list[EngineMember] | None:
    """The members of etcd, as those at these addresses say; None if none of them answers. Blocks for some seconds.

    Those that have no leader yet are asked what they know themselves."""
    etcd = Etcd(endpoints, lambda act: None, tls)
    try:
        for agreed in (True, False):
            try:
                request = MESSAGES["MemberListRequest"](linearizable=agreed)
                return engine_members(etcd.ask_now("Cluster/MemberList", request, timeout_s=START_ASK_S))
            except EtcdAway:
                continue
        return None
    finally:
        etcd.close()
