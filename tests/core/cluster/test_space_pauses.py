"""A node that makes room in etcd, and finds that it did not help, waits longer each time until it tries again."""

from itertools import pairwise

import pytest

from core.cluster.engine_space import AGAIN_MAX_S, AGAIN_S, LOOK_S, EngineSpace
from core.cluster.etcd_messages import MESSAGES, NOSPACE

QUOTA = 1000
STATUS, ALARM = "Maintenance/Status", "Maintenance/Alarm"


class FullEtcd:
    """One member, which answers at once, and whose alarm does not end."""

    endpoints = ("1",)

    def __init__(self):
        self.alarmed = True
        self.size = 0
        self.asked = []

    def ask(self, method, request, answered, unanswered, *, timeout_s, member=None):
        self.asked.append(method)
        answered(self._answer(method))

    def _answer(self, method):
        if method == STATUS:
            errors = ["etcdserver: mvcc: database space exceeded: NOSPACE"] if self.alarmed else []
            return MESSAGES["StatusResponse"](dbSize=self.size, dbSizeInUse=self.size, errors=errors)
        if method == ALARM:
            alarms = [MESSAGES["AlarmMember"](memberID=1, alarm=NOSPACE)] if self.alarmed else []
            return MESSAGES["AlarmResponse"](alarms=alarms)
        return MESSAGES["RangeResponse"]()  # has a header, and of the others nothing is read


class Node:
    def __init__(self):
        self.etcd = FullEtcd()
        self.now = 0.0
        self.space = EngineSpace(
            self.etcd, b"key", lambda: self.now, quota=QUOTA, changed=lambda why: None, log=lambda event, facts: None
        )

    def tries(self, seconds):
        """At which times the node makes room, when it has a turn every second."""
        times, end = [], self.now + seconds
        while self.now < end:
            before = self.etcd.asked.count("Maintenance/Defragment")
            self.space.step(mends=True)
            if self.etcd.asked.count("Maintenance/Defragment") > before:
                times.append(self.now)
            self.now += 1.0
        return times


@pytest.fixture
def node():
    return Node()


def pauses(times):
    return [after - before for before, after in pairwise(times)]


def test_the_pause_doubles_up_to_its_bound(node):
    found = pauses(node.tries(6 * AGAIN_MAX_S))
    for number, pause in enumerate(found):
        least = min(AGAIN_S * 2**number, AGAIN_MAX_S)
        assert least <= pause < least + LOOK_S
    assert found[-1] == pytest.approx(AGAIN_MAX_S, abs=LOOK_S)


def test_a_file_that_stays_large_without_an_alarm_is_not_defragmented_again_at_once(node):
    node.etcd.alarmed, node.etcd.size = False, QUOTA
    assert AGAIN_S <= pauses(node.tries(4 * AGAIN_S))[0] < AGAIN_S + LOOK_S


def test_room_that_was_made_ends_the_pauses(node):
    node.tries(AGAIN_MAX_S)
    node.etcd.alarmed = False
    assert node.tries(AGAIN_MAX_S) == []
    assert not node.space.pressed
    node.etcd.alarmed = True
    node.space.refused()
    again = node.tries(3 * AGAIN_S)
    assert AGAIN_S <= pauses(again)[0] < AGAIN_S + LOOK_S
    assert again[0] == 2 * AGAIN_MAX_S


def test_the_node_goes_on_looking_in_a_pause(node):
    node.tries(AGAIN_MAX_S)
    before = node.etcd.asked.count(STATUS)
    node.tries(10 * LOOK_S)
    assert node.etcd.asked.count(STATUS) - before >= 10
