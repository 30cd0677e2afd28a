"""The texts on the screen of ``headgate top``, made from the rows of the HTTP API by plain functions.

Names come from clients. A terminal would obey control characters in them, so characters that are not printable are
replaced.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from amqp10.top.admin import Row, list_of_rows

NOTHING = "-"
NAME_LENGTH_MAX = 48
MANAGEMENT = "/management"
"""The address of the management node. Links to it carry requests, and are not shown."""


class Order(StrEnum):
    """An order of the links; the value is the key to press."""

    BLOCKED = "b"
    LINK_CREDIT = "c"
    UNSETTLED_AGE = "u"
    RATE = "r"

    @property
    def words(self) -> str:
        """The name of the order on the screen."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRow:
    """A link of AMQP 1.0, with the fields of its connection, its stall and its edge of the flow map."""

    identity: str
    session: str
    connection: str
    client: str
    direction: str
    address: str
    link_credit: int
    unsettled: int
    """Deliveries that are not settled yet, or that wait to be sent."""
    unsettled_age_s: float | None
    session_window: int | None
    """Transfer frames that the session may still send in the direction of the link."""
    window: int | None
    """With adaptive flow control, the messages that a publisher may have under way."""
    round_trip_ms: float | None
    share: int | None
    """Messages a second that its target lets a publisher send; None while nothing limits that."""
    limited_by: str
    rate: float
    """Messages a second."""
    blocked_s: float
    """How long the current stall has lasted; 0 without a stall."""
    reason: str | None
    culprit: str | None

    def cells(self) -> tuple[str, ...]:
        """The cells of the table, in the order of :data:`LINK_COLUMNS`."""
        return (
            printable(self.client),
            self.identity,
            self.direction,
            printable(self.address),
            self.reason or NOTHING,
            printable(self.culprit or NOTHING),
            seconds(self.blocked_s or None),
            str(self.link_credit),
            str(self.unsettled),
            seconds(self.unsettled_age_s),
            f"{self.rate:.1f}",
            *(NOTHING if value is None else str(value) for value in (self.session_window, self.window)),
            NOTHING if self.round_trip_ms is None else f"{self.round_trip_ms:.1f}ms",
            NOTHING if self.share is None else str(self.share),
            self.limited_by or NOTHING,
        )


LINK_COLUMNS = (
    "client",
    "link",
    "dir",
    "address",
    "waits for",
    "has to change",
    "blocked",
    "link credit",
    "unsettled",
    "oldest",
    "msg/s",
    "session window",
    "window",
    "round trip",
    "share/s",
    "limited by",
)
SESSION_COLUMNS = ("session", "links", "window in", "window out", "unsettled in", "unsettled out")
CONNECTION_COLUMNS = ("client", "connection", "peer", "user", "protocol", "state", "links", "waiting")


def link_rows(
    links: Iterable[Row], connections: Iterable[Row], stalls: Iterable[Row], flow_map: Row, sessions: Iterable[Row]
) -> list[LinkRow]:
    """Each link, except those to the management node, with its client, its stall, its rate and its windows."""
    windows = {text(row, "identity"): row for row in sessions}
    clients = {text(row, "identity"): _client(row) for row in connections}
    stalled = {text(row, "identity"): row for row in stalls}
    rates = {text(edge, "identity"): number(edge, "rate") for edge in list_of_rows(flow_map, "edges")}
    rows = []
    for link in links:
        if text(link, "address") == MANAGEMENT:
            continue
        identity, connection = text(link, "identity"), text(link, "connection")
        stall = stalled.get(identity, {})
        window_of_session = "incoming_window" if text(link, "direction") == "in" else "remote_incoming_window"
        rows.append(
            LinkRow(
                identity=identity,
                session=text(link, "session"),
                connection=connection,
                client=_far_client(link) or clients.get(connection, connection),
                direction=text(link, "direction"),
                address=text(link, "address"),
                link_credit=int(number(link, "link_credit")),
                unsettled=int(number(link, "unconfirmed") + number(link, "unsettled") + number(link, "waiting")),
                unsettled_age_s=_known(link, "oldest_unsettled_seconds"),
                session_window=_whole(windows.get(text(link, "session"), {}), window_of_session),
                window=_whole(link, "window"),
                round_trip_ms=_known(link, "round_trip_ms"),
                share=_whole(link, "share_per_second"),
                limited_by=text(link, "limited_by"),
                rate=rates.get(identity, 0.0),
                blocked_s=number(stall, "seconds"),
                reason=text(stall, "reason") or None,
                culprit=text(stall, "culprit") or None,
            )
        )
    return rows


def sorted_links(rows: Iterable[LinkRow], order: Order) -> list[LinkRow]:
    """The links, the worst first. Equal links are ordered by blocked time and identity, so lines keep their places."""

    def rank(row: LinkRow) -> tuple[float, float, str]:
        match order:
            case Order.BLOCKED:
                first = -row.blocked_s
            case Order.LINK_CREDIT:
                first = float(row.link_credit)
            case Order.UNSETTLED_AGE:
                first = -(row.unsettled_age_s or 0.0)
            case Order.RATE:
                first = -row.rate
        return first, -row.blocked_s, row.identity

    return sorted(rows, key=rank)


def session_cells(row: Row) -> tuple[str, ...]:
    """The cells of a session, in the order of :data:`SESSION_COLUMNS`."""
    keys = ("identity", "links", "incoming_window", "remote_incoming_window", "unsettled_in", "unsettled_out")
    return tuple(printable(text(row, key) or NOTHING) for key in keys)


def connection_cells(row: Row, waiting: Mapping[str, int]) -> tuple[str, ...]:
    """The cells of a connection, in the order of :data:`CONNECTION_COLUMNS`. ``waiting`` has the stalls of each
    connection."""
    identity = text(row, "identity")
    shown = (
        _client(row),
        identity,
        text(row, "peer"),
        text(row, "user"),
        text(row, "protocol"),
        text(row, "state") or text(row, "phase"),
        text(row, "links") or text(row, "channels"),
        str(waiting.get(identity, 0)),
    )
    return tuple(printable(cell or NOTHING) for cell in shown)


def headline(overview: Row) -> str:
    """Two lines with rates, totals, reasons of waiting and alarms."""
    rates, blocked = overview.get("rates"), overview.get("links_blocked")
    rates = rates if isinstance(rates, dict) else {}
    blocked = blocked if isinstance(blocked, dict) else {}
    waiting = ", ".join(f"{count} {reason}" for reason, count in sorted(blocked.items())) or "none"
    alarms = overview.get("alarms")
    names = ", ".join(map(str, alarms)) if isinstance(alarms, list) and alarms else "none"
    flow = "  ".join(f"{name} {number(rates, name):.1f}/s" for name in ("in", "out", "confirmed", "settled"))
    ready, unsettled = int(number(overview, "ready")), int(number(overview, "unacked"))
    lines = (f"{flow}  ready {ready}  unsettled {unsettled}", f"waiting: {waiting}   alarms: {names}")
    return "\n".join(printable(line, length_max=None) for line in lines)


def why_text(answer: Row) -> str:
    """The text of an answer of ``why``: the sentence, the advice, and the edges of the chain."""
    lines = [text(answer, "sentence"), ""]
    if answer.get("advice"):
        lines += [f"What to do: {text(answer, 'advice')}", ""]
    for step in list_of_rows(answer, "chain"):
        mark = "X" if step.get("verdict") == "blocking" else "?" if step.get("verdict") == "unknown" else "o"
        lines.append(f" {mark} {text(step, 'edge')}  {text(step, 'says')}")
    return "\n".join(printable(line, length_max=None) for line in lines)


def printable(name: str, *, length_max: int | None = NAME_LENGTH_MAX) -> str:
    """The name with characters that are not printable replaced, cut to a length."""
    clean = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in name)
    return clean if length_max is None or len(clean) <= length_max else clean[: length_max - 1] + "…"


def seconds(value: float | None) -> str:
    """A duration as a short text, such as 2.5s or 3m05s."""
    if value is None:
        return NOTHING
    if value < 60:
        return f"{value:.1f}s"
    minutes, rest = divmod(int(value), 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


def text(row: Row, key: str) -> str:
    """The value as text; empty if the row has none."""
    value = row.get(key)
    return "" if value is None else str(value)


def number(row: Row, key: str) -> float:
    """The value as a number; 0 if the row has none."""
    return _known(row, key) or 0.0


def count_by(rows: Sequence[Row], key: str) -> dict[str, int]:
    """The number of rows with each value."""
    counts: dict[str, int] = {}
    for row in rows:
        value = text(row, key)
        counts[value] = counts.get(value, 0) + 1
    return counts


def _known(row: Row, key: str) -> float | None:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) else None


def _whole(row: Row, key: str) -> int | None:
    value = _known(row, key)
    return None if value is None else int(value)


def _far_client(link: Row) -> str:
    """The client of another node, with the name of that; "" for a link of a client of this node."""
    client = link.get("client")
    if not isinstance(client, dict):
        return ""
    return f"{text(client, 'container_id') or text(client, 'peer')}@{text(client, 'node')}"


def _client(row: Row) -> str:
    return text(row, "container_id") or text(row, "identity")
