"""Makes on this node the changes of definitions on which the nodes of its cluster have agreed.

Changes of one virtual host that come together are one record on the disk, and the disk is not waited for: what is lost
there, the next start reads from the cluster again.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext

from core.access.records import RabbitHash, UserRecord
from core.access.users import Users
from core.cluster.definitions import encoded
from core.cluster.definitions_log import Numbered
from core.engine.routing.agreement import AgreedChange, AgreedRemoval, Agreement, ChangeKind
from core.engine.routing.shared_names import SharedNames
from core.engine.virtual_hosts import HostLimits, VirtualHosts
from core.errors import EngineError, NotFound, PreconditionFailed, StillGoing
from core.interface import Binding
from core.store.definition_record import DefinitionRecord
from core.virtual_hosts import VIRTUAL_HOST

MAKE_S = 0.008
"""How long changes are made before other tasks have a turn. One change takes 0.1 to 0.3 ms, and the record of those
that come together 2 to 4 ms more: within the 20 ms that a neighbour may be kept waiting."""
TOGETHER_MAX = 64
"""The most changes in one record: see :data:`core.engine.routing.staged.RECORDED_AT_ONCE`."""
COMPARED_AT_ONCE = 250
"""After so many comparisons other tasks have a turn: 5 to 8 ms."""
OF_HOSTS = frozenset({ChangeKind.HOST, ChangeKind.HOST_SETTINGS, ChangeKind.HOST_REMOVAL})
OF_USERS = frozenset({ChangeKind.USER, ChangeKind.USER_REMOVAL})


class Following:
    """The :class:`core.cluster.definitions_log.Follower` of a broker."""

    def __init__(
        self,
        hosts: VirtualHosts,
        agreement: Agreement,
        clock: Callable[[], float],
        log: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        """``clock``: monotonic seconds."""
        self.users: Users | None = None
        """Set before the first change is made."""
        self._hosts = hosts
        self._agreement = agreement
        self._clock = clock
        self._log = log
        self._record: DefinitionRecord | None = None
        self.offers_queues = agreement.shares is not None
        """Whether queues are offered to the others, and not only what has no messages. A queue of which there are
        copies is offered by a node that begins a new cluster with them: its identity says where its messages are."""

    @property
    def kept(self) -> bool:
        """See :class:`core.cluster.definitions_log.Follower`, also for the methods below."""
        return self._record is None or self._record.done

    def make(self, changes: "deque[Numbered]") -> list[int]:
        if not self.kept:
            return []
        host = changes[0].change.host
        made: list[int] = []
        with self._agreement.making():
            try:
                with self._together(host):
                    self._make_some(changes, host, made)
            except PreconditionFailed as error:  # they are made, and the next start reads them again
                self._log("definitions-not-kept", {"vhost": host, "why": str(error)})
        return made

    def _make_some(self, changes: "deque[Numbered]", host: str, made: list[int]) -> None:
        until = self._clock() + MAKE_S
        while changes and len(made) < TOGETHER_MAX and changes[0].change.host == host and self._clock() < until:
            try:
                self._make(changes[0].change)
            except (StillGoing, PreconditionFailed):
                return
            made.append(changes.popleft().number)

    def _together(self, host: str) -> AbstractContextManager[None]:
        names = None if not host or (found := self._hosts.find(host)) is None else found.shared
        return nullcontext() if names is None else names.recorder.together(self._recorded)

    def _recorded(self, record: DefinitionRecord) -> None:
        self._record = record

    def _make(self, change: AgreedChange) -> None:
        """Make one change. Raises StillGoing and PreconditionFailed for one that is to be tried again."""
        try:
            if change.kind in OF_USERS:
                self._make_user(change)
            elif change.kind in OF_HOSTS:
                self._make_host(change)
            elif self._hosts.deleting(change.host):
                return
            else:
                names = self._hosts.named(change.host).shared
                assert names is not None, "every virtual host has shared names"
                names.follow(change)
        except (StillGoing, PreconditionFailed):
            raise
        except NotFound:
            if "removal" not in change.kind.value:
                self._log(
                    "definition-not-made", {"definition": str(change), "why": "something that it names is missing"}
                )
        except EngineError as error:
            self._log("definition-not-made", {"definition": str(change), "why": str(error)})

    def _make_user(self, change: AgreedChange) -> None:
        assert self.users is not None, "the users are set before the start"
        record = None if change.value is None else UserRecord.parse(change.name, str(change.value))
        self.users.follow(change.name, record)

    def _make_host(self, change: AgreedChange) -> None:
        if change.kind is ChangeKind.HOST_REMOVAL:
            self._hosts.delete(change.name)
        elif change.kind is ChangeKind.HOST:
            self._hosts.add(change.name)
        else:
            assert isinstance(change.value, Mapping)
            self._hosts.set_limits(change.name, HostLimits.of(change.value))

    # --- the state

    def differences(self, state: Iterable[AgreedChange], *, removes: bool) -> Iterator[AgreedChange | None]:
        wanted: dict[Hashable, AgreedChange] = {}
        here: dict[Hashable, AgreedChange] = {}
        for changes, found in ((state, wanted), (self._present(), here)):
            for number, change in enumerate(changes):
                found[change.subject] = change
                if number % COMPARED_AT_ONCE == 0:
                    yield None
        if removes:
            for number, (subject, change) in enumerate(reversed(here.items())):
                if subject not in wanted:
                    yield _removing(change)
                elif number % COMPARED_AT_ONCE == 0:
                    yield None
        anew: set[tuple[ChangeKind, str, str]] = set()
        """Exchanges and queues that are made anew: their bindings go with the old ones."""
        for number, (subject, change) in enumerate(wanted.items()):
            mine = here.get(subject)
            if mine is None or encoded(mine) != encoded(change):
                anew.add((change.kind, change.host, change.name))
                yield change
            elif anew and isinstance(change.value, Binding) and not anew.isdisjoint(_ends(change.host, change.value)):
                yield change
            if number % COMPARED_AT_ONCE == 0:
                yield None

    def offers(self, state: Iterable[AgreedChange]) -> Iterator[AgreedChange | None]:
        there: set[Hashable] = set()
        for number, change in enumerate(state):
            there.add(change.subject)
            if number % COMPARED_AT_ONCE == 0:
                yield None
        for number, change in enumerate(self._present()):
            if change.subject not in there and self._can_be_offered(change):
                yield change
            elif number % COMPARED_AT_ONCE == 0:
                yield None

    def _can_be_offered(self, change: AgreedChange) -> bool:
        if isinstance(change.value, str) and isinstance(UserRecord.parse(change.name, change.value).secret, RabbitHash):
            why = "its password has a hash of RabbitMQ; set the password"
            self._log("definition-not-shared", {"definition": str(change), "why": why})
            return False
        return change.kind is not ChangeKind.QUEUE or self.offers_queues

    def _present(self) -> Iterator[AgreedChange]:
        """Everything that all nodes should have, in an order in which it can be made."""
        hosts = [host for host in self._hosts.all if not self._hosts.deleting(host.virtual_host)]
        for host in hosts:
            name = host.virtual_host
            if name != VIRTUAL_HOST:
                yield AgreedChange(ChangeKind.HOST, "", name)
            if self._hosts.find(name) is not None and (limits := self._hosts.limits(name).shown()):
                yield AgreedChange(ChangeKind.HOST_SETTINGS, "", name, limits)
        for host in hosts:
            if isinstance(host.shared, SharedNames):
                yield from host.shared.present()
        if self.users is not None:
            yield from (AgreedChange(ChangeKind.USER, "", one.name, one.render()) for one in self.users.records())


def _ends(host: str, binding: Binding) -> set[tuple[ChangeKind, str, str]]:
    kind = ChangeKind.QUEUE if binding.destination_is_queue else ChangeKind.EXCHANGE
    return {(ChangeKind.EXCHANGE, host, binding.source), (kind, host, binding.destination)}


def _removing(change: AgreedChange) -> AgreedChange:
    """The change that takes something away again."""
    host, name = change.host, change.name
    match change.kind:
        case ChangeKind.EXCHANGE:
            return AgreedChange(ChangeKind.REMOVAL, host, name, AgreedRemoval(exchanges=(name,)))
        case ChangeKind.QUEUE:
            return AgreedChange(ChangeKind.REMOVAL, host, name, AgreedRemoval(queues=(name,)))
        case ChangeKind.BINDING:
            assert isinstance(change.value, Binding)
            return AgreedChange(ChangeKind.REMOVAL, host, name, AgreedRemoval(bindings=(change.value,)))
        case ChangeKind.POLICY:
            return AgreedChange(ChangeKind.POLICY_REMOVAL, host, name)
        case ChangeKind.USER:
            return AgreedChange(ChangeKind.USER_REMOVAL, "", name)
        case ChangeKind.HOST:
            return AgreedChange(ChangeKind.HOST_REMOVAL, "", name)
        case _:
            return AgreedChange(ChangeKind.HOST_SETTINGS, "", name, {})
