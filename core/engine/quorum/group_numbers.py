"""Which groups of a cluster there are, which size each should have, and in which one a queue is; and what an identity
says of where its queue is.

The groups that every node keeps come first, then as many that should have 3 members, then those with 5. A cluster has
at most seven nodes, so every larger size is that of all nodes. The identity of a queue says for good which group it is
in: so all nodes agree on that without asking.
"""

from typing import NamedTuple

NUMBER_DIGITS = 15
"""Hexadecimal digits of the identity that make the number: 60 bits, so that two of a million queues have the same
number in one of two million clusters."""
SIZES = (3, 5)
"""Sizes of groups that not every node keeps. An even one would survive no more losses than the odd one below it."""
EVERY_NODE = 0
"""The size of a group that every node keeps."""
OF_A_SIZE_MAX = 16
"""The most groups of one of these sizes. A transaction of etcd compares at most 128 keys, and a change of the members
compares one of each group: 64 and twice 16."""
SIZE_MARK = "-"
"""Between an identity and its size."""
HOME_MARK = "@"
"""Between an identity and the node on which a classic queue lives. A name of a node has no such character."""


class GroupNumbers(NamedTuple):
    """The numbers of all groups, from 1."""

    everywhere: int
    """How many groups every node keeps."""

    @property
    def of_each(self) -> int:
        """How many groups there are of each of :data:`SIZES`."""
        return min(self.everywhere, OF_A_SIZE_MAX)

    @property
    def all(self) -> range:
        """All numbers."""
        return range(1, self.everywhere + len(SIZES) * self.of_each + 1)

    @property
    def sized(self) -> range:
        """The groups that not every node keeps."""
        return range(self.everywhere + 1, self.all.stop)

    def of_size(self, size: int) -> range:
        """The groups of one of :data:`SIZES`, or of EVERY_NODE."""
        if size == EVERY_NODE:
            return range(1, self.everywhere + 1)
        first = self.everywhere + SIZES.index(size) * self.of_each + 1
        return range(first, first + self.of_each)

    def size_of(self, number: int) -> int:
        """How many members a group should have."""
        return EVERY_NODE if number <= self.everywhere else SIZES[(number - self.everywhere - 1) // self.of_each]

    def of(self, identity: str) -> int:
        """The group of a queue."""
        numbers = self.of_size(size_in(identity))
        return numbers[number_in_log(identity) % len(numbers)]


def number_in_log(identity: str) -> int:
    """Return the number of a queue in the log of its group."""
    return int(identity[:NUMBER_DIGITS], 16)


def size_in(identity: str) -> int:
    """Return the size of the group that an identity names. Raises ValueError for a size that there is not."""
    _, mark, size = identity.partition(HOME_MARK)[0].partition(SIZE_MARK)
    if not mark:
        return EVERY_NODE
    return SIZES[SIZES.index(int(size))]


def with_size(identity: str, size: int) -> str:
    """Return an identity whose group has this size."""
    return identity if size == EVERY_NODE else f"{identity}{SIZE_MARK}{size}"


def with_home(identity: str, node: str) -> str:
    """Return an identity that says for good on which node its queue lives."""
    return f"{identity}{HOME_MARK}{node}"


def home_in(identity: str) -> str:
    """Return the node on which a queue lives; "" where the identity names none."""
    return identity.partition(HOME_MARK)[2]


def without_home(identity: str) -> str:
    """Return what an identity was before it said on which node its queue lives."""
    return identity.partition(HOME_MARK)[0]
