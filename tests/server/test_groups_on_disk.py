"""The data folder of a node in a cluster: what is refused, and that copies are found again."""

from itertools import count
from pathlib import Path

import pytest
import structlog

from core.config.cluster import ClusterSettings
from core.config.settings import Settings
from core.config.store import StoreSettings
from core.engine.broker import Broker
from core.engine.quorum.annotations import PlainAnnotations
from core.engine.quorum.batches import OrderEnd, encoded
from core.engine.quorum.commands import CountersRecord, QueueKey, encode
from core.server.data import OpenData
from core.store.errors import StoreRefused
from tests.kit.engine import NOW, Peer, queue
from tests.kit.storage import work

CLUSTER = ClusterSettings(node="a", members=("a", "b", "c"), etcd=("h:1",), groups=3)
_IDENTITIES = count(1)


def opened(folder: Path, cluster: ClusterSettings | None) -> OpenData:
    return OpenData(
        folder,
        StoreSettings(),
        clock=lambda: NOW,
        log=structlog.get_logger(),
        annotations=PlainAnnotations(),
        new_identity=lambda: f"{next(_IDENTITIES):032x}",
        cluster=cluster,
    )


def test_a_node_has_its_groups_and_finds_its_copies_again(tmp_path):
    data = opened(tmp_path, CLUSTER)
    groups = data.storage.groups
    assert groups is not None
    assert [group.number for group in groups.in_order] == [*range(1, 10)], "3 of all nodes, and as many of each size"
    assert not any(group.queues.leads for group in groups.in_order), "nothing is known of the engine"
    batch = encoded(2, 1, OrderEnd(), [encode(QueueKey(9), CountersRecord(5))])
    log = groups.all[2].queues.log
    log.append((batch.data,), len(batch.data), 1, prompt=True)
    work(data.storage, NOW.monotonic)
    data.close()
    again = opened(tmp_path, CLUSTER)
    groups = again.storage.groups
    assert groups is not None
    assert [group.shared.ends_at for group in groups.in_order][:3] == [0, 1, 0]
    assert groups.all[2].queues.next_sequence(9) == 5
    again.close()


def test_the_folder_of_a_node_is_refused_without_its_cluster(tmp_path):
    opened(tmp_path, CLUSTER).close()
    with pytest.raises(StoreRefused, match=r"of a node in a cluster; start the broker with the \[cluster\]"):
        opened(tmp_path, None)


def publish(folder: Path, name: str, kind: str) -> None:
    """Publish a message to a queue of a broker alone."""
    data = opened(folder, None)
    broker = Broker(Settings(), storage=data.storage, new_identity=lambda: f"{next(_IDENTITIES):032x}")
    peer = Peer(broker)
    broker.declare_queue(queue(name, **{"x-queue-type": kind}), None)
    peer.publish(name, [b"message"])
    while broker.turn(NOW) | work(data.storage, NOW.monotonic):
        pass
    data.close()


def test_a_folder_with_quorum_queues_of_one_broker_is_refused(tmp_path):
    publish(tmp_path, "q", "quorum")
    with pytest.raises(StoreRefused, match=r"1 quorum queues from a time without \[cluster\]"):
        opened(tmp_path, CLUSTER)


def test_a_folder_with_messages_of_streams_of_one_broker_is_refused_and_stays_as_it_is(tmp_path):
    publish(tmp_path, "s", "stream")
    with pytest.raises(StoreRefused, match="streams with messages from a time when they had no copies"):
        opened(tmp_path, CLUSTER)
    alone = opened(tmp_path, None)
    assert [one.declaration.name for one in alone.storage.found.queues] == ["s"]
    assert len(list(tmp_path.glob("streams/*/*.seg"))) == 1
    alone.close()


def test_the_stream_of_flow_events_stays_with_its_node(tmp_path):
    publish(tmp_path, "$flow", "stream")
    node = opened(tmp_path, CLUSTER)
    assert node.storage.groups is not None
    assert [one.declaration.name for one in node.storage.found.queues] == ["$flow"]
    node.close()
