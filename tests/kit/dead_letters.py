"""A converter for tests of the engine: an entry is a plain body, with its deaths written behind it."""

import json
from collections.abc import Mapping, Sequence

from core.interface import Death, DeathReason, Snapshot
from core.message import Attributes, Origin
from core.taken_numbers import PublishingId, publishing_id

MARK = b"|"


class PlainConverter:
    """Entries are ``body|[[queue, reason, ttl], …]``, the newest death first. See :class:`core.interface.Converter`."""

    def routing_headers(self, entry: bytes, origin: Origin) -> Mapping[str, object]:
        deaths = _deaths(entry)
        return {"x-first-death-queue": deaths[-1][0]} if deaths else {}

    def render(self, entry: bytes, attributes: Attributes, wanted: Origin) -> bytes:
        return entry

    def annotated(self, entry: bytes, origin: Origin, annotations: Mapping[object, object]) -> bytes:
        added = "".join(f"+{key}={value}" for key, value in annotations.items())
        return body(entry) + added.encode() + entry[len(body(entry)) :]

    def describe(self, entry: bytes, origin: Origin) -> Snapshot:
        deaths = [{"queue": queue, "reason": reason, "count": 1} for queue, reason, _ in _deaths(entry)]
        return {"message_id": None, "deaths": deaths, "body": body(entry)}

    def dead_lettered(self, entry: bytes, origin: Origin, death: Death) -> bytes:
        deaths = [[death.queue, death.reason.value, death.ttl_ms], *_deaths(entry)]
        return body(entry) + MARK + json.dumps(deaths).encode()

    def deaths(self, entry: bytes, origin: Origin) -> Sequence[tuple[str, DeathReason]]:
        return [(str(queue), DeathReason(reason)) for queue, reason, _ in _deaths(entry)]

    def filter_values(self, entries: Sequence[bytes], origin: Origin) -> Sequence[str | None] | None:
        return None

    def publishing_id(self, entry: bytes, origin: Origin) -> PublishingId | None:
        """An entry ``publisher#number`` has one."""
        publisher, found, number = body(entry).decode().partition("#")
        return publishing_id({"x-opt-publisher": publisher, "x-opt-publishing-id": int(number)}) if found else None


def body(entry: bytes) -> bytes:
    """The body as it was published."""
    return entry.split(MARK)[0]


def deaths(entry: bytes) -> list[str]:
    """Each death as ``queue:reason``, the newest first."""
    return [f"{queue}:{reason}" for queue, reason, _ in _deaths(entry)]


def _deaths(entry: bytes) -> list[list[object]]:
    _, _, told = entry.partition(MARK)
    return json.loads(told) if told else []
