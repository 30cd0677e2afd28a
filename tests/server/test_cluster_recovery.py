"""The data folder of a node that begins a new cluster: what its copies have, and that the step is done or not."""

import hashlib
import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
import structlog

from core.cluster.member_list import ListedMember, MemberList, MemberState
from core.cluster.recovery import NewCluster, members_anew
from core.config.cluster import ClusterSettings
from core.config.store import StoreSettings
from core.engine.quorum.annotations import PlainAnnotations
from core.engine.quorum.batches import COPY_BEGUN, OrderEnd, encoded
from core.engine.quorum.commands import CountersRecord, QueueKey, encode
from core.engine.quorum.groups import QuorumGroups
from core.errors import Invalid
from core.server.cluster_copies import found_copies, numbers_of, used
from core.server.cluster_recovery import (
    RECOVERY_FILE,
    check_recovered,
    end_recovery,
    move_etcd,
    planned,
    read_recovery,
    write_recovery,
)
from core.server.data import OpenData
from core.store.errors import StoreRefused
from tests.kit.broker_process import ROOT
from tests.kit.engine import NOW
from tests.kit.storage import work

CLUSTER = ClusterSettings(node="a", members=("a", "b", "c"), etcd=("h:1",), groups=3)
NEW = NewCluster("ab" * 16, {2: 3}, frozenset({4}))
STEPS = ("written", "synced", "renamed", "done")
_IDENTITIES = count(1)


def opened(folder: Path) -> OpenData:
    return OpenData(
        folder,
        StoreSettings(),
        clock=lambda: NOW,
        log=structlog.get_logger(),
        annotations=PlainAnnotations(),
        new_identity=lambda: f"{next(_IDENTITIES):032x}",
        cluster=CLUSTER,
    )


def groups_of(data: OpenData) -> QuorumGroups:
    assert data.storage.groups is not None
    return data.storage.groups


def append(data: OpenData, group: int, payload: bytes) -> None:
    log = groups_of(data).all[group].queues.log
    log.append((payload,), len(payload), 1, prompt=True)
    work(data.storage, NOW.monotonic)


def filled(folder: Path, batches: int = 3, group: int = 2) -> None:
    """A folder with batches in one group, as a broker that was killed leaves it."""
    data = opened(folder)
    end = OrderEnd()
    for number in range(batches):
        batch = encoded(group, 5, end, [encode(QueueKey(9), CountersRecord(number))])
        append(data, group, batch.data)
        end = batch.end
    data.close()


def files(folder: Path) -> dict[str, str]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_the_copies_end_where_the_next_start_goes_on_and_reading_them_changes_nothing(tmp_path: Path):
    filled(tmp_path)
    (log,) = [one for one in (tmp_path / "quorum/groups/2").glob("*.log") if one.stat().st_size]
    with log.open("ab") as file:
        file.write(b"torn by a power cut")
    before = files(tmp_path)
    found = found_copies(tmp_path)
    assert files(tmp_path) == before
    assert [(one.number, one.end, one.epoch) for one in used(found.groups).values()] == [(2, 3, 5)]
    assert [one.trouble for one in found.groups] == [""] * 9
    data = opened(tmp_path)
    assert [group.shared.ends_at for group in groups_of(data).in_order] == [one.end for one in found.groups]
    data.close()


def test_copies_that_cannot_be_used_are_named(tmp_path: Path):
    filled(tmp_path)
    data = opened(tmp_path)
    append(data, 1, COPY_BEGUN)
    data.close()
    (log,) = [one for one in (tmp_path / "quorum/groups/2").glob("*.log") if one.stat().st_size]
    content = bytearray(log.read_bytes())
    content[60] ^= 0xFF
    log.write_bytes(content)
    found = found_copies(tmp_path)
    troubles = {one.number: one.trouble for one in found.groups if one.trouble}
    assert "its copy of another node was not complete" in troubles[1]
    assert "this copy is damaged" in troubles[2]
    plan = planned(found, "a")
    assert [one.number for one in plan.unusable] == [1, 2]
    assert plan.lost == [], "no queue is in them"
    assert plan.recovery("ab" * 16).lost == {1, 2}


def test_a_folder_without_copies_is_refused(tmp_path: Path):
    with pytest.raises(StoreRefused, match="it is not the data folder of a node of a cluster"):
        found_copies(tmp_path)
    filled(tmp_path)
    (tmp_path / "quorum/groups/9").rename(tmp_path / "nine")
    with pytest.raises(StoreRefused, match=r"has the folders of 8 groups, 1 to 8, and no value of cluster.groups"):
        found_copies(tmp_path)


def test_how_many_groups_of_all_nodes_there_are_follows_from_their_number():
    for everywhere in range(1, 65):
        numbers = ClusterSettings(node="a", members=("a", "b", "c"), etcd=("h:1",), groups=everywhere).groups
        found = numbers_of(everywhere + 2 * min(everywhere, 16))
        assert found is not None
        assert found.everywhere == numbers
    assert numbers_of(4) is None


def test_the_file_is_read_as_it_was_written(tmp_path: Path):
    assert read_recovery(tmp_path) is None
    write_recovery(tmp_path, NEW)
    assert read_recovery(tmp_path) == NEW
    assert (tmp_path / RECOVERY_FILE).stat().st_mode & 0o777 == 0o600
    (tmp_path / RECOVERY_FILE).write_text('{"version": 2}')
    with pytest.raises(Invalid, match="is not what headgate cluster recover writes, or is of a newer version"):
        read_recovery(tmp_path)


KILLED = """
import os, pathlib, signal, sys
from core.cluster.recovery import NewCluster
from core.server.cluster_recovery import write_recovery
def after(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
write_recovery(pathlib.Path(sys.argv[1]), NewCluster("ab" * 16, {2: 3}, frozenset({4})), after)
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_command_that_is_killed_has_done_all_or_nothing(tmp_path: Path, step: str):
    filled(tmp_path)
    before = files(tmp_path)
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), step], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    found = read_recovery(tmp_path)
    assert found == (NEW if step in ("renamed", "done") else None)
    rest = {name: digest for name, digest in files(tmp_path).items() if not name.startswith(RECOVERY_FILE)}
    assert rest == before
    data = opened(tmp_path)
    assert groups_of(data).all[2].shared.ends_at == 3, "a start takes no notice of what is left"
    data.close()
    write_recovery(tmp_path, NEW)
    assert read_recovery(tmp_path) == NEW
    assert not (tmp_path / f"{RECOVERY_FILE}.new").exists()


@pytest.mark.parametrize("step", STEPS)
def test_a_disk_that_fails_leaves_the_folder_as_before_or_done(tmp_path: Path, step: str):
    def after(done: str) -> None:
        if done == step:
            raise OSError(28, os.strerror(28), str(tmp_path))

    with pytest.raises(OSError, match="No space left"):
        write_recovery(tmp_path, NEW, after)
    assert read_recovery(tmp_path) == (NEW if step in ("renamed", "done") else None)
    assert not (tmp_path / f"{RECOVERY_FILE}.new").exists()


def test_a_start_that_finds_less_than_the_command_is_refused(tmp_path: Path):
    filled(tmp_path)
    data = opened(tmp_path)
    check_recovered(tmp_path, NewCluster("ab" * 16, {1: 0, 2: 3}), groups_of(data))
    with pytest.raises(Invalid, match=r"group 2 in .* ends at batch 3, and .* has found 4 batches"):
        check_recovered(tmp_path, NewCluster("ab" * 16, {2: 4}), groups_of(data))
    with pytest.raises(Invalid, match=r"cluster.groups has 3 groups, and .* names group 10; set cluster.groups as"):
        check_recovered(tmp_path, NewCluster("ab" * 16, {10: 1}), groups_of(data))
    data.close()


def test_a_group_that_is_given_up_begins_empty(tmp_path: Path):
    filled(tmp_path)
    data = opened(tmp_path)
    append(data, 2, COPY_BEGUN)
    data.close()
    data = opened(tmp_path)
    group = groups_of(data).all[2]
    assert group.shared.must_copy
    with pytest.raises(Invalid, match=r"the copy of group 2 in .* cannot be used"):
        check_recovered(tmp_path, NewCluster("ab" * 16, {2: 3}), groups_of(data))
    check_recovered(tmp_path, NewCluster("ab" * 16, {}, frozenset({2})), groups_of(data))
    assert not group.shared.must_copy
    assert group.shared.ends_at == 0
    data.close()


def test_the_data_of_the_earlier_etcd_are_moved_once(tmp_path: Path):
    (tmp_path / "etcd").mkdir()
    (tmp_path / "etcd" / "old").touch()
    move_etcd(tmp_path, "etcd", NEW)
    (tmp_path / "etcd").mkdir()
    (tmp_path / "etcd" / "new").touch()
    move_etcd(tmp_path, "etcd", NEW)
    assert (tmp_path / "etcd" / "new").exists()
    assert (tmp_path / "etcd-before-abababab" / "old").exists()
    write_recovery(tmp_path, NEW)
    end_recovery(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["etcd", "etcd-before-abababab"]


def test_without_data_of_an_earlier_etcd_nothing_is_left_of_the_move(tmp_path: Path):
    move_etcd(tmp_path, "etcd", NEW)
    (tmp_path / "etcd").mkdir()
    move_etcd(tmp_path, "etcd", NEW)
    end_recovery(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["etcd"]


def test_the_new_list_has_the_same_nodes_and_none_of_them_joins_or_leaves():
    listed = MemberList.first(["a", "b"], [], []).joined_by(ListedMember("c")).with_state("b", MemberState.LEAVING)
    anew = members_anew(listed)
    assert anew.names == ["a", "b", "c"]
    assert {one.state for one in anew.members} == {MemberState.MEMBER}
    assert anew.version == listed.version + 1
