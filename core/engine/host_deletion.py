"""The deletion of a virtual host: its queues, a few at each step, its exchanges and bindings, then what is recorded.

This is loaded with the first deletion.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import TypeVar

from core.declaring import Recording
from core.engine.broker import OPERATOR, Broker
from core.engine.routing.topology import BUILT_IN_EXCHANGES
from core.errors import EngineError, PreconditionFailed

DELETED_AT_ONCE = 20
"""The most queues that one step of a deletion stages: they are recorded together, in about 2 ms."""
STEP_WORK = 1_000
"""The most work of one step of a deletion, in the same units: one removal that is recorded by itself."""
RECORDED_S = 0.002
"""The wait until deletions are recorded: two syncs."""
RETRY_S = 0.1
"""The wait before a deletion goes on where nothing could be deleted: a connection is not closed yet, or the disk is
full."""

ThingT = TypeVar("ThingT")


def deletion(
    host: Broker, forget_rights: Callable[[str], Iterator[float]], remove: Callable[[], None]
) -> Iterator[float]:
    """Delete what a virtual host has, some of it at each step; yields how long to wait (seconds), 0 where the next step
    may follow soon. ``forget_rights`` takes it from all users, ``remove`` removes what is recorded of it and raises
    PreconditionFailed while that cannot be done."""
    for wait in chain(_emptied(host), forget_rights(host.virtual_host)):
        yield wait
        yield 0.0  # the first wait began before the step did; in this one the clients have their turn
    while True:
        try:
            remove()
            return
        except PreconditionFailed:
            yield RETRY_S


def _emptied(host: Broker) -> Iterator[float]:
    """Delete queues, then exchanges, then the bindings between exchanges that every virtual host has. Yields as
    :func:`deletion`."""
    queues, topology = host.shown.queues, host.shown.topology
    while names := list(islice(queues, DELETED_AT_ONCE)):
        recordings: list[Recording[int]] = []
        _some(host, names, lambda name: recordings.append(host.begin_deleting_here(name, OPERATOR)))  # noqa: B023 - at once
        yield 0.0  # the next turn begins to record what is staged
        while not all(recording.done for recording in recordings):
            yield RECORDED_S
        if all(name in queues for name in names):
            yield RETRY_S
    while names := list(islice((one for one in topology.exchanges if one not in BUILT_IN_EXCHANGES), DELETED_AT_ONCE)):
        _some(host, names, host.delete_exchange)
        yield RETRY_S if all(name in topology.exchanges for name in names) else 0.0
    while bindings := topology.all_bindings()[:DELETED_AT_ONCE]:
        _some(host, bindings, lambda binding: host.unbind(binding, OPERATOR))
        yield RETRY_S if topology.going else 0.0


def _some(host: Broker, things: Sequence[ThingT], delete: Callable[[ThingT], object]) -> None:
    """Delete the first of these things, within the work of a turn. What cannot be deleted now is passed over: it is
    exclusive to a connection that is not closed yet, or the disk is full."""
    until = host.work.spent + STEP_WORK
    for thing in things:
        if host.work.spent >= until:
            return
        with suppress(EngineError):
            delete(thing)
