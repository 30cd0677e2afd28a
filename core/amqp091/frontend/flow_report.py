"""What a connection of AMQP 0.9.1 tells of its flow: its channels as links without link credit, and its stages.

A channel is a link for each direction in which messages go, from the first message or consumer on. The stages are those
that the connection's publishes pass: reader, channels, and the queues that hold a channel up. They are looked at after
each turn, while flow events are recorded; whether one became blocked is seen from its counters, which only grow.
"""

from collections.abc import Iterable
from functools import partial

from core.credit_flow.flow import CreditFlow
from core.flow_facts import ConnectionRecorder, Settled, StageRecorder, StageStanding
from core.interface import Disposal, Outcome
from core.message import Return

STAGES_MAX = 256
"""Stages of one connection that are looked at: its channels and some queues. What comes beyond them is not told."""

ANSWERS = {
    Outcome.ACCEPTED: Settled.ACCEPTED,
    Outcome.REJECTED: Settled.REJECTED,
    Outcome.RELEASED: Settled.RELEASED,
}


def settled_as(disposal: Disposal | Return) -> Settled:
    """What a consumer did, in the words of flow events."""
    if isinstance(disposal, Return):
        return Settled.MODIFIED if disposal.delivery_failed else Settled.RELEASED
    return Settled.ACCEPTED if disposal is Disposal.ACCEPTED else Settled.REJECTED


class StageReports:
    """The stages of one connection."""

    __slots__ = ("_changes", "_reader", "_recorder", "_recorders")

    def __init__(self, recorder: ConnectionRecorder, reader: CreditFlow) -> None:
        self._recorder = recorder
        self._reader = reader
        self._recorders: dict[CreditFlow, StageRecorder] = {}
        self._changes: dict[CreditFlow, int] = {}
        """How often each stage had changed when it was looked at last."""

    def observe(self, channels: Iterable[CreditFlow]) -> None:
        """See what has changed since the last time. ``channels`` are those that there are."""
        self._enter("reader", self._reader)
        for channel in channels:
            self._enter("channel", channel)
            for queue in channel.blocked_by:
                self._enter("queue", queue)
        for stage, recorder in self._recorders.items():
            changes = stage.blocks + stage.unblocks
            if changes != self._changes[stage]:
                self._changes[stage] = changes
                recorder.changed()

    def _enter(self, kind: str, stage: CreditFlow) -> None:
        if stage in self._recorders:
            return
        if len(self._recorders) >= STAGES_MAX:
            self._forget_ended()
        if len(self._recorders) < STAGES_MAX:
            self._recorders[stage] = self._recorder.stage(kind, stage.name, partial(_standing, stage))
            self._changes[stage] = 0 if stage.blocked else stage.blocks + stage.unblocks

    def _forget_ended(self) -> None:
        for stage in [stage for stage in self._recorders if stage.ended]:
            del self._recorders[stage], self._changes[stage]


def _standing(stage: CreditFlow) -> StageStanding:
    return StageStanding(stage.blocks, stage.blocked, ", ".join(party.name for party in stage.blocked_by))
