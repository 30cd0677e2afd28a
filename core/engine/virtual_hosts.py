"""The virtual hosts of a broker: found, made, limited and deleted, and the turn that all of them share.

Each has an engine of its own for its names (:class:`core.engine.broker.Broker`), over one machinery. The default one
always exists. Whether a user may use one, the rights decide (:mod:`core.access`).

A deletion takes as many turns as it needs, a few queues in each. It is recorded first, so that a start after a crash
goes on with it, and nothing can be made in a virtual host that is being deleted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from typing import NamedTuple, Self

from core.clock import Now
from core.engine.broker import Broker
from core.engine.queue.sums import QueueSums
from core.engine.storage import HostKeeper, Storage
from core.errors import Forbidden, Invalid, LimitReached, NotFound, StillGoing
from core.interface import Snapshot
from core.publish_limit import PublishRates
from core.virtual_hosts import VIRTUAL_HOST, shown_name

HOSTS_MAX = 1_000
"""The most virtual hosts beside the default one. Each takes about 7 KiB of memory."""
NAME_BYTES_MAX = 255
"""What 0.9.1 can carry in a short string [0-9-1 4.2.5.3]."""
NAMES_WORK_PER_TURN = 2_000
"""The most work that one turn spends on the names of the virtual hosts beside the default one, in units of
:mod:`core.work`. The others come in the next turn."""
NEXT_S = 0.001
"""The least wait before the next step of a deletion. So it is not due within the same turn of the server, which takes
several of the engine: a step waits for the disk, and all clients for the turn."""
LIMIT_MAX = 10**9
DELETING = "deleting"


class HostLimits(NamedTuple):
    """The limits of one virtual host; None where there is none. They have RabbitMQ's names, with a hyphen."""

    max_connections: int | None = None
    max_queues: int | None = None
    max_links: int | None = None
    publish_rate: int | None = None
    publish_rate_bytes: int | None = None

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Self:
        """Return the limits that are kept in settings."""
        found = {name: settings.get(name.replace("_", "-")) for name in cls._fields}
        return cls(**{name: value for name, value in found.items() if isinstance(value, int)})

    def shown(self) -> dict[str, int]:
        """The limits that are set, by name."""
        return {name: value for name, value in zip(LIMITS, self, strict=True) if value is not None}


LIMITS = tuple(name.replace("_", "-") for name in HostLimits._fields)
"""The names of the limits."""


class HostsInMemory:
    """The :class:`core.engine.storage.HostKeeper` of a broker without a data folder."""

    def __init__(self) -> None:
        self.found: Mapping[str, Storage] = {}
        self.settings: dict[str, Mapping[str, object]] = {}

    def add(self, name: str) -> None:
        """A virtual host in memory needs no storage."""

    def remove(self, name: str) -> None:
        """Forget the settings of a virtual host."""
        self.settings.pop(name, None)

    def set_settings(self, name: str, settings: Mapping[str, object]) -> None:
        """Keep the settings of a virtual host."""
        self.settings[name] = settings


class VirtualHosts:
    """All virtual hosts of one broker; the server's engine."""

    def __init__(self, first: Broker, *, keeper: HostKeeper | None = None) -> None:
        """``first`` is the default virtual host. Without ``keeper`` the others are in memory only."""
        self.default = first
        self._keeper: HostKeeper = HostsInMemory() if keeper is None else keeper
        self._others: dict[str, Broker] = {}
        self._steps: dict[str, Iterator[float]] = {}
        """The steps of each deletion; each returns after how many seconds the next one is due."""
        self._due: dict[str, float] = {}
        self.turn, self.deadline = first.turn, first.deadline
        """See :class:`core.server.pump.Turning`. Where there is one virtual host, these are its own."""
        self._next = 0
        """The virtual host beside the default one that comes first in the next turn."""
        self.forget_rights: Callable[[str], Iterator[float]] = lambda name: iter(())
        """Called when a virtual host is deleted: takes it from all users, one at each step; yields seconds to wait."""
        self.closing: Callable[[str], None] = lambda name: None
        """Called when a deletion begins: closes the connections that use the virtual host."""
        for name, storage in self._keeper.found.items():
            self._others[name] = first.beside(storage=storage, virtual_host=name)
        for name in self._keeper.settings:
            if self.find(name) is not None:
                self._put_limits(name)
        self._choose_turn()

    def resume(self) -> None:
        """Go on with deletions that the last stop has interrupted."""
        for name in self._others:
            if self._settings_of(name).get(DELETING):
                self._begin_deleting(name)

    # --- which there are ---------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The names of the virtual hosts, the default one first; those that are being deleted left out."""
        return [VIRTUAL_HOST, *(name for name in self._others if name not in self._steps)]

    def find(self, name: str) -> Broker | None:
        """Return the engine of a virtual host; None for one that there is not, or that is being deleted."""
        if name == VIRTUAL_HOST:
            return self.default
        return None if name in self._steps else self._others.get(name)

    def named(self, name: str) -> Broker:
        """Return the engine of a virtual host. Raises NotFound."""
        found = self.find(name)
        if found is None:
            raise NotFound(f"there is no virtual host {name[:NAME_BYTES_MAX]!r}; headgate vhosts list shows them")
        return found

    @property
    def all(self) -> Sequence[Broker]:
        """The engines of all virtual hosts, also of those that are being deleted."""
        return [self.default, *self._others.values()]

    # --- making, limiting, deleting ----------------------------------------------------------------------------

    def add(self, name: str) -> bool:
        """Make a virtual host. Returns whether there was none. Raises Invalid, StillGoing, LimitReached,
        PreconditionFailed."""
        if name in self._steps:
            raise StillGoing(f"virtual host '{name}' is being deleted; make it again in a moment")
        if self.find(name) is not None:
            return False
        if not name or len(name.encode()) > NAME_BYTES_MAX or not name.isprintable():
            raise Invalid(f"a virtual host's name must have 1 to {NAME_BYTES_MAX} bytes of printable characters")
        if len(self._others) >= HOSTS_MAX:
            raise LimitReached(f"there are {HOSTS_MAX} virtual hosts, and no more are possible; delete some")
        self._others[name] = self.default.beside(storage=self._keeper.add(name), virtual_host=name)
        self._choose_turn()
        return True

    def limits(self, name: str) -> HostLimits:
        """The limits of a virtual host. Raises NotFound."""
        self.named(name)
        return HostLimits.of(self._settings_of(name))

    def set_limits(self, name: str, limits: HostLimits) -> None:
        """Replace the limits of a virtual host; what is there already stays. Raises NotFound, Invalid,
        PreconditionFailed."""
        self.named(name)
        if 0 in (limits.publish_rate, limits.publish_rate_bytes):
            raise Invalid("a publish-rate must be 1 or more; a negative one removes the limit")
        if self._settings_of(name) != limits.shown():
            self._keeper.set_settings(name, limits.shown())
            self._put_limits(name)

    def check_connections(self, name: str) -> None:
        """Raises LimitReached if a virtual host has as many connections as it may have."""
        host = self.named(name)
        limit = self.limits(name).max_connections
        if limit is not None and host.connections >= limit:
            raise LimitReached(
                f"connection refused: virtual host '{name}' has {host.connections} connections, and its limit "
                f"max-connections is {limit}"
            )

    def delete(self, name: str) -> None:
        """Begin to delete a virtual host with its queues and messages; its connections are closed. Raises Forbidden,
        NotFound, PreconditionFailed."""
        if name == VIRTUAL_HOST:
            raise Forbidden(f"the default virtual host '{VIRTUAL_HOST}' cannot be deleted")
        self.named(name)
        self._keeper.set_settings(name, {DELETING: True})
        self._begin_deleting(name)

    def deleting(self, name: str) -> bool:
        """Whether a virtual host is being deleted."""
        return name in self._steps

    # --- the engine of the server ------------------------------------------------------------------------------

    def _choose_turn(self) -> None:
        first = self.default
        if self._others:
            self.turn, self.deadline = self._turn_of_all, self._deadline_of_all
        else:
            self.turn, self.deadline = first.turn, first.deadline

    def _turn_of_all(self, now: Now) -> bool:
        work_left = self._see_to_others(now)
        return self.default.turn(now) or work_left

    def _deadline_of_all(self) -> float:
        due = min(self._due.values(), default=inf)
        return min(self.default.deadline(), due, *(host.names_deadline for host in self._others.values()))

    def _see_to_others(self, now: Now) -> bool:
        work, hosts = self.default.work, list(self._others.values())
        until = work.spent + NAMES_WORK_PER_TURN
        work_left = False
        begin = self._next % len(hosts)
        for place, host in enumerate(hosts[begin:] + hosts[:begin], start=begin + 1):
            work_left |= host.see_to_names(now)
            if self._due and self._due.get(host.virtual_host, inf) <= now.monotonic:
                self._go_on_deleting(host.virtual_host, now)
            if work.spent >= until:
                self._next = place
                return True
        return work_left

    # --- all of them together ----------------------------------------------------------------------------------

    @property
    def unsettled(self) -> int:
        """How many messages consumers hold unsettled, in all virtual hosts."""
        return sum(host.unsettled for host in self.all)

    def conclude(self) -> None:
        """See :meth:`core.engine.broker.Broker.conclude`."""
        for host in self.all:
            host.conclude()

    def snapshot(self, kind: str, identity: str | None = None) -> list[Snapshot]:
        """See :meth:`core.engine.snapshots.Snapshots.take`, for kinds that belong to no virtual host."""
        return self.default.snapshot(kind, identity)

    @property
    def queue_sums(self) -> QueueSums:
        """See :attr:`core.engine.broker.Broker.queue_sums`; the sums are over all virtual hosts."""
        return self.default.queue_sums

    def queue_figures(self, most: int | None = None) -> Iterator[Snapshot]:
        """The figures of the queues of all virtual hosts, as :meth:`core.engine.snapshots.Snapshots.queue_figures`
        with ``vhost``; of ``most`` queues only, if that is given."""
        left = most
        for host in list(self.all):
            for row in host.queue_figures(left):
                if left is not None:
                    left -= 1
                yield {**row, "vhost": host.virtual_host}

    def idle_consumers(self) -> Iterator[tuple[str, bool]]:
        """See :meth:`core.engine.snapshots.Snapshots.idle_consumers`, with the names as they are shown together."""
        for host in list(self.all):
            for name, idle in host.idle_consumers():
                yield shown_name(host.virtual_host, name), idle

    # --- inside ------------------------------------------------------------------------------------------------

    def _settings_of(self, name: str) -> Mapping[str, object]:
        return self._keeper.settings.get(name, {})

    def _put_limits(self, name: str) -> None:
        host = self.default if name == VIRTUAL_HOST else self._others[name]
        limits = HostLimits.of(self._settings_of(name))
        host.shown.topology.queues_max, host.links.most = limits.max_queues, limits.max_links
        host.limits.of_host.set(PublishRates(limits.publish_rate, limits.publish_rate_bytes))

    def _begin_deleting(self, name: str) -> None:
        from core.engine.host_deletion import deletion  # here and not above: most brokers need no memory for it

        self.closing(name)
        if (shared := self._others[name].shared) is not None:
            shared.recorder.leaving = True
        self._steps[name] = deletion(self._others[name], self.forget_rights, partial(self._keeper.remove, name))
        self._due[name] = -inf

    def _go_on_deleting(self, name: str, now: Now) -> None:
        """Take a step of a deletion."""
        wait = next(self._steps[name], None)
        if wait is None:
            self.default.machinery.leave(self._others[name].shown)
            del self._steps[name], self._due[name], self._others[name]
            self._choose_turn()
        else:
            self._due[name] = now.monotonic + max(wait, NEXT_S)
