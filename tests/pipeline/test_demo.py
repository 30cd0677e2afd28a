"""What ``make pipeline-demo`` accepts as right. The demonstration itself is a make target."""

from pipeline.demo import faults_of
from pipeline.report.figures import Row

OLDER: Row = {
    "connection": "c1", "link": None, "protocol": "amqp-0-9-1", "container_id": "load", "address": None, "share": 0.9,
    "bottleneck": "queue", "culprit": "two-senders-1-quorum", "evidence": "e",
}  # fmt: skip
CLASSIC: Row = OLDER | {
    "link": "c2/0/0", "protocol": "amqp-1.0", "address": "/queues/two-senders-1-classic", "bottleneck": None,
}  # fmt: skip
QUORUM: Row = CLASSIC | {"link": "c2/1/0", "address": "/queues/two-senders-1-quorum", "bottleneck": "store-slow"}


def test_the_right_verdicts():
    alone = OLDER | {"connection": "c3", "bottleneck": "channel", "culprit": "c3/1"}
    assert faults_of([OLDER, alone, CLASSIC, QUORUM]) == []


def test_each_wrong_verdict_is_told():
    wrong = OLDER | {"bottleneck": "message store", "culprit": "message store"}
    [fault] = faults_of([wrong, CLASSIC])
    assert fault == "the quorum queue should be the bottleneck of one AMQP 0.9.1 connection, not of 0"
    [fault] = faults_of([OLDER, CLASSIC | {"bottleneck": "queue-full"}])
    assert fault.startswith("there should be no bottleneck: AMQP 1.0, link c2/0/0")
    assert len(faults_of([])) == 2
