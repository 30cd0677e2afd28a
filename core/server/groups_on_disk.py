"""Opens the groups of a node in a cluster: this node's copies of their logs."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from core.cluster.beats import node_number
from core.config.cluster import ClusterSettings
from core.config.store import StoreSettings
from core.engine.quorum.annotations import AnnotationCodec
from core.engine.quorum.group_numbers import GroupNumbers
from core.engine.quorum.groups import QuorumGroup, QuorumGroups
from core.engine.quorum.queues import QuorumQueues
from core.engine.quorum.shared_log import SharedLog
from core.store.command_log import GROUPS, LocalCommandLog
from core.store.disk import Disk
from core.store.errors import StoreRefused
from core.store.lane import Lane
from core.store.store import QUORUM, STREAMS
from core.store.stream_log import SEGMENT_SUFFIX

NODES_FILE = "nodes-definitions"
"""What the data folder of one of several processes on one port has: see :mod:`core.server.nodes_task`."""


def check_no_node(folder: Path) -> None:
    """Raises StoreRefused for the data folder of one of several processes on one port, because this broker is alone."""
    if (folder / NODES_FILE).exists():
        raise StoreRefused(
            f"{folder} is the data folder of one of several nodes, and has only the messages of its queues; start them "
            f"together: headgate serve --nodes, with the data folder {folder.parent}"
        )


def check_alone(folder: Path) -> None:
    """Raises StoreRefused for the data folder of a node of a cluster, because this broker is in none."""
    if (folder / QUORUM / GROUPS).exists():
        raise StoreRefused(
            f"{folder} is the data folder of a node in a cluster; start the broker with the [cluster] that it had"
        )


def open_groups(
    disk: Disk,
    lane: Lane,
    cluster: ClusterSettings,
    settings: StoreSettings,
    annotations: AnnotationCodec,
    alone: QuorumQueues,
    copied: Iterable[int],
) -> QuorumGroups:
    """Rebuild the queues of all groups from this node's copies. ``alone``: the quorum queues that no group has.
    ``copied``: the numbers of the queues of which all nodes have copies.

    Blocks. Raises StoreRefused, StoreDamaged, StoreFailure and OSError.
    """
    if alone.numbers:
        raise StoreRefused(
            f"there are {len(alone.numbers)} quorum queues from a time without [cluster]; start without it, move their "
            "messages away or consume them, and delete these queues first"
        )
    if any(name.endswith(SEGMENT_SUFFIX) for number in copied for name in disk.names(f"{STREAMS}/{number}")):
        raise StoreRefused(
            "there are streams with messages from a time when they had no copies on other nodes; start without "
            "[cluster], or with the version before, have consumers read them, and delete these streams first"
        )
    groups = QuorumGroups()
    groups.numbers = GroupNumbers(cluster.groups)
    found = {}
    for number in groups.numbers.all:
        copy = LocalCommandLog(
            disk,
            lane,
            file_bytes_max=settings.command_log_file_size_limit,
            salvage=settings.salvage,
            group=number,
        )
        shared = SharedLog(copy, node=node_number(cluster.node), group=number, notify=partial(groups.touch, number))
        queues = QuorumQueues(
            copy,
            garbage_fraction=settings.garbage_fraction,
            look_bytes=settings.command_log_file_size_limit // 4,
            annotations=annotations,
            shared=shared,
        )
        queues.recover()
        found[number] = QuorumGroup(number, shared, queues)
    groups.all = found
    return groups
