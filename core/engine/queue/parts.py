"""Cuts messages that a queue takes on into the parts that it has to treat differently.

Messages that came together stay together, whatever their priorities and times-to-live, except where the queue has to
put them into different places: into sub-queues of different levels; on the disk, or in memory only; or straight to a
waiting consumer, because they expire at once.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

from core.clock import Now
from core.engine.options.in_force import QueueOptions
from core.engine.queue.expiry import expires_at
from core.message import Attributes, Expiries, Route, Routes, Run, RunPart, distinct


def parts(
    run: Run, start: int, stop: int, queue: str, options: QueueOptions, levels: int, *, by_durable: bool, now: Now
) -> list[tuple[int, RunPart]]:
    """Return the messages of a run from ``start`` (inclusive) to ``stop`` (exclusive) in parts, with the level of each.

    ``queue`` is the name of the queue, ``levels`` how many levels it has; ``by_durable``: messages that are durable go
    elsewhere than others.
    """
    if options.enqueued_annotation:
        run = _stamped(run, queue, now)
    attributes = run.attributes
    message_ttl_ms = options.message_ttl_ms
    if not isinstance(attributes, list):
        expiry = None
        if attributes.ttl_ms is not None or message_ttl_ms is not None:
            expiry = expires_at(attributes.ttl_ms, message_ttl_ms, now)
        level = 0 if levels == 1 else min(options.level_of(attributes.priority), levels - 1)
        return [(level, RunPart(run, start, stop, expiry))]
    attributes = attributes[start:stop]
    kinds = list(distinct(attributes))
    expiries = _expiries(attributes, {each.ttl_ms for each in kinds}, message_ttl_ms, now)
    places = {
        id(each): (
            0 if levels == 1 else min(options.level_of(each.priority), levels - 1),
            by_durable and each.durable,
            0 in (each.ttl_ms, message_ttl_ms),
        )
        for each in kinds
    }
    if len(set(places.values())) == 1:
        level, _, _ = next(iter(places.values()))
        return [(level, RunPart(run, start, stop, expiries))]
    whole = RunPart(run, start, stop, expiries)
    cut: list[tuple[int, RunPart]] = []
    low = 0
    for (level, _, _), alike in groupby([places[id(each)] for each in attributes]):
        high = low + len(list(alike))
        cut.append((level, whole.part(low, high)))
        low = high
    return cut


def _stamped(run: Run, queue: str, now: Now) -> Run:
    """Return the messages with a note in their routes of when they came into the queue of this name. The given run may
    come into other queues, too."""
    enqueued_ms = int(now.wall * 1000)
    if isinstance(run.routes, list):
        known = {route: _at(route, queue, enqueued_ms) for route in set(run.routes)}
        routes: Routes = [known[route] for route in run.routes]
    else:
        routes = _at(run.routes, queue, enqueued_ms)
    if run.stored_ids is None:  # the body is stored once also where only some of its queues note the time
        run.stored_ids = [None] * len(run.entries)
    return replace(run, routes=routes)


def _at(route: Route | None, queue: str, enqueued_ms: int) -> Route:
    return Route("", (queue,), enqueued_ms) if route is None else replace(route, enqueued_ms=enqueued_ms)


def _expiries(attributes: list[Attributes], ttls_ms: set[int | None], message_ttl_ms: int | None, now: Now) -> Expiries:
    by_ttl: Mapping[int | None, float | None] = {ttl_ms: expires_at(ttl_ms, message_ttl_ms, now) for ttl_ms in ttls_ms}
    if len(set(by_ttl.values())) == 1:
        return next(iter(by_ttl.values()))
    return [by_ttl[each.ttl_ms] for each in attributes]
