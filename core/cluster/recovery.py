"""What a data folder says that begins a new cluster with the copies of an earlier one.

An operator chooses the node when a majority of etcd's data is lost. ``headgate cluster recover`` writes one file into
its data folder, and the next start of its broker begins the cluster, see :mod:`core.cluster.beginning`. The file stays
until the definitions are in the new etcd; so a start that was interrupted is done again.
"""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from core.cluster.member_list import MemberList, MemberState

VERSION = 1
"""That of the file."""


class NewCluster(NamedTuple):
    """The plan of a node that begins a new cluster with its copies."""

    identity: str
    """The identity of the new cluster, 32 hexadecimal digits."""
    ends: Mapping[int, int]
    """For each group, the number of the last batch that the command has found in the copy. A start that finds less is
    refused."""
    lost: frozenset[int] = frozenset()
    """The groups whose copies cannot be used: they begin without messages, because the operator wants that."""

    def encoded(self) -> bytes:
        """The content of the file."""
        ends = {str(group): end for group, end in sorted(self.ends.items())}
        facts = {"version": VERSION, "identity": self.identity, "ends": ends, "lost": sorted(self.lost)}
        return (json.dumps(facts) + "\n").encode("ascii")

    @classmethod
    def decoded(cls, data: bytes) -> "NewCluster | None":
        """The plan in the content of a file; None if it is none."""
        try:
            found = json.loads(data)
            version, identity = found["version"], str(found["identity"])
            ends = {int(group): int(end) for group, end in found["ends"].items()}
            lost = frozenset(map(int, found["lost"]))
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        known = version == VERSION and re.fullmatch("[0-9a-f]{32}", identity) is not None
        return cls(identity, ends, lost) if known else None


def members_anew(listed: MemberList) -> MemberList:
    """The first list of the new cluster: the nodes that the earlier one had. None of them joins or leaves: those that
    come back with empty folders are members that have lost their disks."""
    members = tuple(one._replace(state=MemberState.MEMBER) for one in listed.members)
    return listed._replace(version=listed.version + 1, members=members, gone=())
