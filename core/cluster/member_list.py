"""The list of the members of a cluster, as a key of the engine has it, and the changes of it.

A configuration has the first list only. Each change makes a list of the next version, and replaces exactly the list
from which it was made: of two changes at once one is made, and the other one is checked anew.

A member that *joins* gets copies of the groups, leads none, and counts for no majority, until it says that it has them.
A member that *leaves* hands over what it leads; then it takes itself off the list. What is left of members that have
gone is their etcd, which is removed by the addresses that the list keeps.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

import cbor2

from core.errors import NotFound, PreconditionFailed

MEMBERS_MAX = 7
"""etcd's own advice: with more members each batch waits for more of them, and no further loss is survived."""
GONE_MAX = 16
"""Of so many members that have gone the list keeps the addresses."""


class MemberState(StrEnum):
    """What a member is. The values are in the engine."""

    MEMBER = "member"
    JOINING = "joining"
    LEAVING = "leaving"


class ListedMember(NamedTuple):
    """A member, with the addresses (HOST:PORT) of the etcd that its broker starts; "" if it starts none."""

    name: str
    state: MemberState = MemberState.MEMBER
    etcd: str = ""
    """For clients."""
    peer: str = ""
    """For the other members of etcd."""


class MemberList(NamedTuple):
    """The members, in the order in which they should lead."""

    version: int
    members: tuple[ListedMember, ...]
    gone: tuple[ListedMember, ...] = ()
    """Members that have gone, the last one last."""
    groups: Mapping[int, tuple[str, ...]] = MappingProxyType({})
    """The members of each group that not every node keeps, in the order in which they should lead it; see
    :func:`core.cluster.placement.placed`."""

    @classmethod
    def first(cls, names: Sequence[str], etcd: Sequence[str], peers: Sequence[str]) -> "MemberList":
        """The list of a configuration. ``peers`` is empty if brokers start no etcd."""
        if not peers:
            return cls(0, tuple(ListedMember(name) for name in names))
        rows = zip(names, etcd, peers, strict=True)
        return cls(0, tuple(ListedMember(name, MemberState.MEMBER, *addresses) for name, *addresses in rows))

    @classmethod
    def decoded(cls, data: bytes) -> "MemberList | None":
        """The list in a value; None if it is none."""
        try:
            version, members, gone, *more = cbor2.loads(data)
            groups = {int(number): tuple(map(str, names)) for number, names in more[0].items()} if more else {}
            return cls(int(version), tuple(map(_member, members)), tuple(map(_member, gone)), groups)
        except (cbor2.CBORDecodeError, AttributeError, TypeError, ValueError):
            return None

    def encoded(self) -> bytes:
        """The list as a value."""
        members, gone = ([_row(one) for one in some] for some in (self.members, self.gone))
        return cbor2.dumps(
            [self.version, members, gone, {number: list(names) for number, names in self.groups.items()}]
        )

    @property
    def names(self) -> list[str]:
        """All of them."""
        return [one.name for one in self.members]

    @property
    def counted(self) -> list[str]:
        """Those that count for majorities: all that do not join."""
        return [one.name for one in self.members if one.state is not MemberState.JOINING]

    def find(self, name: str) -> ListedMember | None:
        """The member with this name; None if there is none."""
        return next((one for one in self.members if one.name == name), None)

    def named(self, name: str) -> ListedMember:
        """The member with this name. Raises NotFound."""
        if (found := self.find(name)) is None:
            raise NotFound(f"there is no node {name!r} in the cluster; its nodes are {', '.join(self.names)}")
        return found

    def joined_by(self, new: ListedMember) -> "MemberList":
        """The list with a node that begins to join. Raises PreconditionFailed."""
        joining = next((one.name for one in self.members if one.state is MemberState.JOINING), None)
        uses = {address for one in self.members for address in (one.etcd, one.peer) if address}
        mine = {new.etcd, new.peer} - {""}
        if self.find(new.name) is not None:
            raise PreconditionFailed(f"the cluster has a node {new.name!r} already")
        if joining is not None:
            raise PreconditionFailed(
                f"node {joining} still joins; wait until headgate cluster status shows it as member"
            )
        if len(self.members) >= MEMBERS_MAX:
            raise PreconditionFailed(f"a cluster has at most {MEMBERS_MAX} nodes")
        if len(mine) != (2 if uses else 0):
            needs = "two addresses of its etcd" if uses else "no addresses of an etcd, because its operator runs it"
            raise PreconditionFailed(f"a node of this cluster has {needs}")
        if used := mine & uses:
            raise PreconditionFailed(f"{min(used)} is the address of another node's etcd")
        gone = tuple(one for one in self.gone if one.peer != new.peer)
        members = (*self.members, new._replace(state=MemberState.JOINING))
        return self._replace(version=self.version + 1, members=members, gone=gone)

    def with_state(self, name: str, state: MemberState) -> "MemberList":
        """The list with another state of a member. Raises NotFound."""
        self.named(name)
        changed = tuple(one._replace(state=state) if one.name == name else one for one in self.members)
        return self._replace(version=self.version + 1, members=changed)

    def without(self, name: str) -> "MemberList":
        """The list without a member. Raises NotFound, and PreconditionFailed for the last one."""
        gone = self.named(name)
        if self.counted in ([], [name]):
            raise PreconditionFailed(f"node {name} is the last one of the cluster; stop it instead")
        rest = tuple(one for one in self.members if one.name != name)
        return self._replace(version=self.version + 1, members=rest, gone=(*self.gone, gone)[-GONE_MAX:])


def check_copies(leaver: str, remaining: Sequence[str], up_to_date: Mapping[int, Collection[str]]) -> None:
    """Raises PreconditionFailed if a group would not have a majority of copies that are up to date when a node leaves.

    ``remaining``: the members that count then. ``up_to_date``: for each group, the nodes that are here and have
    everything that the engine has cut away."""
    wanted = len(remaining) // 2 + 1
    for group, nodes in up_to_date.items():
        there = [name for name in remaining if name in nodes]
        if len(there) < wanted:
            missing = [name for name in remaining if name not in nodes]
            raise PreconditionFailed(
                f"group {group} would have {len(there)} of {len(remaining)} copies up to date without node {leaver}, "
                f"and a majority is {wanted}; wait for {', '.join(missing)}, or use --force"
            )


def _row(member: ListedMember) -> list[str]:
    return [member.name, member.state.value, member.etcd, member.peer]


def _member(row: Sequence[str]) -> ListedMember:
    name, state, etcd, peer, *_ = map(str, row)
    return ListedMember(name, MemberState(state), etcd, peer)
