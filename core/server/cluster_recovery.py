"""Beginning a new cluster with the copies in one node's data folder: the step on the disk, and what a start does then.

The whole step of the operator is one file, which is there or not: it is written under another name, synced and renamed.
Without it the folder is as before. With it, the start of the broker begins the new cluster, and does so again after a
crash, until the file is removed at the end. Until then the folder has everything that it had before.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from core.cluster.recovery import NewCluster
from core.engine.quorum.batches import OrderEnd
from core.engine.quorum.groups import QuorumGroups
from core.errors import Invalid
from core.server.cluster_copies import FolderCopies, GroupCopyFound
from core.store.folder import sync_folder

RECOVERY_FILE = "cluster-recovery"
"""The file in the data folder that says that its node begins a new cluster with its copies."""
ETCD_BEFORE = "etcd-before-"
"""The name of the folder to which the data of the earlier etcd are moved begins so, and goes on with the first digits
of the new identity: so a start knows whether it has moved them."""
SHOWN_DIGITS = 8
"""Of the new identity, in names of folders and of the new cluster of etcd."""


class RecoveryPlan(NamedTuple):
    """What a node would begin a new cluster with, and what would be lost."""

    taken: Sequence[GroupCopyFound]
    """The groups that are taken over: the new cluster goes on behind their last batches."""
    unusable: Sequence[GroupCopyFound]
    """Those whose copies cannot be used."""
    elsewhere: Sequence[GroupCopyFound]
    """Those that this node does not keep."""

    @property
    def lost(self) -> list[GroupCopyFound]:
        """The groups with queues that would begin without their messages."""
        return [one for one in (*self.unusable, *self.elsewhere) if one.queues]

    def recovery(self, identity: str) -> NewCluster:
        """What the file says. ``identity``: that of the new cluster."""
        ends = {one.number: one.end for one in self.taken}
        return NewCluster(identity, ends, frozenset(one.number for one in self.unusable))


def planned(copies: FolderCopies, node: str) -> RecoveryPlan:
    """What ``node`` would begin a new cluster with; "" for one that keeps every group."""
    elsewhere = [one for one in copies.groups if node and one.members and node not in one.members]
    kept = [one for one in copies.groups if one not in elsewhere]
    return RecoveryPlan([one for one in kept if not one.trouble], [one for one in kept if one.trouble], elsewhere)


def write_recovery(folder: Path, recovery: NewCluster, after: Callable[[str], None] = lambda step: None) -> None:
    """Have the next start of the folder's broker begin the new cluster. The caller keeps the folder locked. ``after``
    is called after each step, with its name. Raises OSError; the file is there then or not."""
    new = folder / f"{RECOVERY_FILE}.new"
    try:
        with new.open("wb") as file:
            _let_owner_read(folder, file.fileno())
            file.write(recovery.encoded())
            after("written")
            file.flush()
            os.fsync(file.fileno())
        after("synced")
        new.rename(folder / RECOVERY_FILE)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise
    after("renamed")
    sync_folder(folder)
    after("done")


def _let_owner_read(folder: Path, descriptor: int) -> None:
    """Give a new file to the owner of the folder: the administrator gives the command, and another user runs the
    broker."""
    os.fchmod(descriptor, 0o600)
    owner = folder.stat()
    if owner.st_uid != os.geteuid():
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def read_recovery(folder: Path) -> NewCluster | None:
    """What the folder says of a new cluster that its node begins; None if it begins none. Raises Invalid."""
    path = folder / RECOVERY_FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}; it must belong to the user of the broker") from None
    found = NewCluster.decoded(data)
    if found is None:
        raise Invalid(
            f"{path} is not what headgate cluster recover writes, or is of a newer version; remove it, and give that "
            "command again"
        )
    return found


# --- the start ---------------------------------------------------------------------------------------------------


def check_recovered(folder: Path, recovery: NewCluster, groups: QuorumGroups) -> None:
    """Raises Invalid if a group has less than the command has found. Groups that are given up become empty."""
    for number, end in recovery.ends.items():
        group = groups.all.get(number)
        if group is None:
            raise Invalid(
                f"cluster.groups has {groups.numbers.everywhere} groups, and {folder / RECOVERY_FILE} names group "
                f"{number}; set cluster.groups as it was"
            )
        if group.shared.must_copy or group.shared.ends_at < end:
            has = "cannot be used" if group.shared.must_copy else f"ends at batch {group.shared.ends_at}"
            raise Invalid(
                f"the copy of group {number} in {folder} {has}, and headgate cluster recover has found {end} batches "
                f"in it; remove {folder / RECOVERY_FILE}, and give that command again, at this node or at another one"
            )
    for number in recovery.lost:
        group = groups.all.get(number)
        if group is not None and group.shared.must_copy:
            group.queues.begin_copy()
            group.shared.begin_after(OrderEnd(), synced=False)


def move_etcd(folder: Path, etcd: str, recovery: NewCluster) -> None:
    """Move the data of the earlier etcd away, once. ``etcd``: the name of its folder. Raises Invalid if that cannot be
    done."""
    kept = folder / f"{ETCD_BEFORE}{recovery.identity[:SHOWN_DIGITS]}"
    if kept.exists():
        return
    try:
        try:
            (folder / etcd).rename(kept)
        except FileNotFoundError:
            kept.mkdir(mode=0o700)
        sync_folder(folder)
    except OSError as error:
        raise Invalid(f"{folder / etcd} cannot be moved to {kept}: {error.strerror}") from None


def end_recovery(folder: Path) -> None:
    """The new cluster has everything: remove what says that it is to be begun. Raises OSError."""
    sync_folder(folder)  # the identity comes first
    (folder / RECOVERY_FILE).unlink(missing_ok=True)
    for moved in folder.glob(f"{ETCD_BEFORE}*"):
        with suppress(OSError):  # it has data, which are kept for people
            moved.rmdir()
    sync_folder(folder)
