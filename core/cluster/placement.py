"""Which members of a cluster keep the groups that not every node keeps: one rule, without chance, for each list.

Members of a group stay as long as they are in the list. Where some are missing, those come in that keep the fewest
groups. A node that joins comes in when it has joined, and one that leaves is replaced when it has left.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

from core.cluster.member_list import MemberList, MemberState
from core.engine.quorum.group_numbers import SIZES, GroupNumbers


def placed(listed: MemberList, numbers: GroupNumbers) -> MemberList:
    """Return the list with the members of each group that should have some. Groups of a size are used once there are
    more members than that."""
    ready = [one.name for one in listed.members if one.state is MemberState.MEMBER]
    staying = {
        number: [name for name in members if listed.find(name) is not None]
        for number, members in listed.groups.items()
        if number in numbers.sized
    }
    keeps = Counter(name for members in staying.values() for name in members)
    groups: dict[int, list[str]] = {}
    for size in SIZES:
        used = len(listed.counted) > size or any(number in staying for number in numbers.of_size(size))
        for number in numbers.of_size(size) if used else ():
            members = groups[number] = staying.get(number, [])
            others = [name for name in ready if name not in members]
            while others and len(members) < min(size, len(listed.counted)):
                new = min(others, key=lambda name: (keeps[name], _turn(number, name)))
                others.remove(new)
                members.append(new)
                keeps[new] += 1
    return listed._replace(groups=_with_leaders_spread(groups))


def _turn(number: int, name: str) -> bytes:
    """Return the place of a node among those that keep equally many groups. It is another one in each group, so that no
    two nodes keep the same ones: when one leaves, all others take over something."""
    return blake2b(b"%d %s" % (number, name.encode()), digest_size=8).digest()


def _with_leaders_spread(groups: Mapping[int, Sequence[str]]) -> Mapping[int, tuple[str, ...]]:
    """Return the groups with the member first that should lead: one that is first in the fewest groups before."""
    firsts: Counter[str] = Counter()
    found = {}
    for number, members in groups.items():
        first = min(members, key=lambda name: (firsts[name], members.index(name)))
        firsts[first] += 1
        found[number] = (first, *(name for name in members if name != first))
    return found
