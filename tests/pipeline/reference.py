"""The expected content of a table, computed record by record in plain Python."""

from collections.abc import Iterable, Mapping

Key = tuple[object, ...]


def link_seconds(events: Iterable[Mapping[str, object]]) -> dict[Key, tuple[object, ...]]:
    """The table ``link_seconds``: (node, connection, link, direction, second) to its six figures, in the table's
    order."""
    found: dict[Key, list[int]] = {}
    link_credits: dict[Key, list[int]] = {}
    for event in events:
        if event["kind"] != "activity":
            continue
        second = int(event["at"].timestamp() // 1)  # type: ignore[attr-defined]
        key = (event["node"], event["connection"], event["link"], event["direction"], second)
        sums = found.setdefault(key, [0, 0, 0, 0])
        refused = sum(int(str(event[name] or 0)) for name in ("rejected", "released", "modified"))
        for at, n in enumerate((event["transfers"], event["accepted"], refused, event["granted"])):
            sums[at] += int(str(n or 0))
        if event["link_credit"] is not None:
            link_credits.setdefault(key, []).append(int(str(event["link_credit"])))
    return {key: (*sums, *_bounds(link_credits.get(key))) for key, sums in found.items()}


def _bounds(values: list[int] | None) -> tuple[int | None, int | None]:
    return (min(values), max(values)) if values else (None, None)
