"""A real etcd whose quota is used up: publishers wait, and it is made to have room again."""

import queue
import time
from collections.abc import Callable, Mapping

import pytest

from core.cluster.engine_space import LOOK_S, EngineSpace
from core.cluster.etcd import Etcd
from core.cluster.etcd_log import NO_SPACE
from core.cluster.etcd_messages import Message, putting, transaction
from tests.kit.etcd_cluster import etcd_cluster

QUOTA = 16 << 20
VALUE = bytes(1 << 20)
KEY = b"key"
WAIT_S = 30.0


class Node:
    """The space of etcd as one node sees it; its clock is moved on by each look."""

    def __init__(self, endpoints, quota: int = QUOTA) -> None:
        self._answers: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.etcd = Etcd(endpoints, self._answers.put)
        self.told: list[str] = []
        self.log: list[str] = []
        self.now = 0.0
        self.space = EngineSpace(self.etcd, KEY, lambda: self.now, quota=quota, changed=self.told.append, log=self._say)

    def _say(self, event: str, facts: Mapping[str, object]) -> None:
        self.log.append(event)

    def put(self, key: bytes = KEY) -> bool:
        """Put a value. Returns whether etcd has taken it."""
        done: list[bool] = []

        def answered(response: Message) -> None:
            self.etcd.cluster = response.header.cluster_id  # as a node that has joined its cluster has it
            done.append(True)

        request = transaction([], [putting(key, VALUE)], [])
        self.etcd.ask("KV/Txn", request, answered, lambda: done.append(False), timeout_s=5.0)
        self.until(lambda: bool(done))
        return done[0]

    def until(self, there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not there():
            assert time.monotonic() < deadline, (self.told, self.log, self.etcd.trouble)
            try:
                self._answers.get(timeout=0.05)()
            except queue.Empty:
                continue

    def look(self, *, mends: bool) -> None:
        """Look once, and do what follows from it."""
        self.now += LOOK_S
        before = self.etcd.requests
        self.space.step(mends=mends)
        assert self.etcd.requests > before
        self.until(lambda: not self.space.busy)


@pytest.mark.slow
def test_an_etcd_that_has_used_up_its_quota_is_mended():
    with etcd_cluster(options=("--quota-backend-bytes", str(QUOTA))) as cluster:
        use_up_and_mend(Node(cluster.endpoints))


def use_up_and_mend(node: Node) -> None:
    try:
        while node.put():
            assert node.told == []
        assert NO_SPACE in node.etcd.trouble
        node.space.refused()
        node.space.refused()
        assert len(node.told) == 1
        assert "used up its quota" in node.told[0]
        node.look(mends=False)
        assert node.space.pressed
        assert node.log == [], "another node makes room"
        assert not node.put()
        node.look(mends=True)
        assert node.log == ["engine-space", "engine-space-made"]
        node.look(mends=True)
        assert node.told[1:] == [""]
        assert not node.space.pressed
        assert node.put()
        assert node.space.used < QUOTA // 2
    finally:
        node.etcd.close()


@pytest.mark.slow
def test_publishers_wait_before_the_quota_is_used_up():
    """The quota of this etcd is its own default: one that answers late may have taken a value of which it did not say
    so, and may not be full of values that are put again."""
    with etcd_cluster() as cluster:
        fill_until_told(Node(cluster.endpoints, quota=5 << 20))


def fill_until_told(node: Node) -> None:
    try:
        deadline = time.monotonic() + WAIT_S
        for number in range(5):
            while not node.put(b"%d" % number):  # an etcd that has just started may have no leader yet
                assert time.monotonic() < deadline, node.etcd.trouble
        while not node.told:  # etcd counts what it has written to its file, which it does some time later
            assert time.monotonic() < deadline
            node.look(mends=False)
        assert len(node.told) == 1
        assert "cluster.engine_quota" in node.told[0]
    finally:
        node.etcd.close()
