"""``headgate why``: what holds up a connection, a link or a queue, hop by hop; or what has waited most of all."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from amqp10.addresses import AddressError, parse_source
from amqp10.cli.exits import CommandError, Exit
from amqp10.cli.printing import print_json, print_rows
from amqp10.cli.remote import HTTP_NOT_FOUND, ask, ask_once, row_of, with_broker

if TYPE_CHECKING:
    from amqp10.blocking.requests import BlockingManagement

Kind = Literal["connection", "link", "address"]

KINDS: Mapping[Kind, str] = {"connection": "connections", "link": "links", "address": "addresses"}
NAMED: Mapping[Kind, str] = {"connection": "connection", "link": "link", "address": "queue"}
LISTED: Mapping[Kind, str] = {"connection": "connections", "link": "links", "address": "queues"}
"""The noun that lists the subjects of a kind. An address is the address of a queue."""

CONNECTION = re.compile(r"c\d+")
PART = re.compile(r"c\d+/\d+")
"""The identity of a session, or of a channel of AMQP 0.9.1."""
LINK = re.compile(r"c\d+/\d+/\d+")

NEAR_MAX = 3
HOP_WIDTH = 22
"""Characters for the name of a hop, a little more than the longest has."""


def explain(subject: str | None, *, kind: Kind | None, vhost: str | None, limit: int, json: bool, url: str) -> None:
    """Print what holds the subject up. Without ``kind``, the form of the subject decides. Without a subject, print what
    has waited most in the last minute."""
    if subject is None:
        _explain_worst(vhost, limit, json=json, url=url)
        return
    kind = kind_of(subject) if kind is None else kind
    answer = with_broker(url, lambda broker: _ask(broker, kind, subject, vhost))
    if json or not isinstance(answer, dict):
        print_json(answer)
        return
    for line in lines(answer):
        print(line)


def _explain_worst(vhost: str | None, limit: int, *, json: bool, url: str) -> None:
    answer = row_of(ask_once(url, "why.worst", limit=limit, vhost=vhost))
    if json:
        print_json(answer)
        return
    items = answer.get("items")
    rows = [_worst_row(item) for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    over = f"the last {_number(answer.get('over_seconds')):.0f} s"
    if not rows:
        print(f"Nothing has waited in {over}.")
        return
    print(f"{answer.get('waited')} have waited in {over}, {answer.get('waiting')} wait now. Those that waited most:")
    print_rows(rows, WORST_COLUMNS, as_json=False)
    print(f"More about one: headgate why {rows[0]['who']}")


WORST_COLUMNS = ("who", "client", "direction", "address", "waited", "for", "now", "root")


def _worst_row(item: Mapping[str, object]) -> Mapping[str, object]:
    minute, root = item.get("last_minute"), item.get("root")
    seconds = item.get("seconds")
    now = "gone" if item.get("present") is False else item.get("reason") if item.get("waits") is True else "goes on"
    return {
        "who": item.get("identity"),
        "client": item.get("container_id") or item.get("peer"),
        "direction": item.get("direction"),
        "address": item.get("address"),
        "waited": f"{_number(minute.get('share')):.0%}" if isinstance(minute, dict) else None,
        "for": ", ".join(_shares(minute)),
        "now": f"{now} {seconds:.1f} s" if isinstance(seconds, int | float) else now,
        "root": root.get("says") if isinstance(root, dict) else item.get("culprit"),
    }


def _shares(minute: object) -> Iterator[str]:
    """The reasons for which something has waited in the last minute, each with its share and the culprit."""
    found = minute.get("by_reason") if isinstance(minute, dict) else None
    for one in found if isinstance(found, list) else []:
        if isinstance(one, dict):
            yield f"{one.get('reason')} {_number(one.get('share')):.0%} ({one.get('culprit')})"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def kind_of(subject: str) -> Kind:
    """The kind of a subject of this form. Raises CommandError for a session or channel."""
    if CONNECTION.fullmatch(subject):
        return "connection"
    if LINK.fullmatch(subject):
        return "link"
    if PART.fullmatch(subject):
        connection = subject.partition("/")[0]
        raise CommandError(
            Exit.USAGE,
            f"{subject} is a session or a channel; ask about one of its links, or about its connection: headgate why"
            f" {connection} (a queue of that name: --kind address)",
        )
    return "address"


def _ask(broker: "BlockingManagement", kind: Kind, subject: str, vhost: str | None) -> object:
    from amqp10.client_core.errors import RequestRefused  # here and not above: help needs no client

    try:
        return ask(broker, "why", kind=KINDS[kind], identity=subject, vhost=vhost).body
    except RequestRefused as refused:
        if refused.status != HTTP_NOT_FOUND:
            raise
    near = _near(broker, kind, subject, vhost)
    hint = f"did you mean {' or '.join(near)}?" if near else f"they are listed by: headgate {LISTED[kind]} list"
    raise CommandError(Exit.NOT_FOUND, f"there is no {NAMED[kind]} {subject!r}; {hint}")


def _near(broker: "BlockingManagement", kind: Kind, subject: str, vhost: str | None) -> list[str]:
    """Similar names among the first thousand."""
    from difflib import get_close_matches  # here and not above: only a mistyped name needs it

    page = ask(broker, "rows.list", kind=LISTED[kind], vhost=vhost).body
    items = page.get("items") if isinstance(page, dict) else None
    rows = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    names = [str(row.get("name" if kind == "address" else "identity")) for row in rows]
    return get_close_matches(_bare(subject) if kind == "address" else subject, names, NEAR_MAX)


def _bare(address: str) -> str:
    """The name of the queue in an address."""
    try:
        return parse_source(address)
    except AddressError:
        return address


# --- the text of an answer ------------------------------------------------------------------------------------------


def lines(answer: Mapping[str, object]) -> Iterator[str]:
    """A line for each hop of the chain, with a mark at the hop that blocks, then the sentence and the advice."""
    if "protocol" in answer:
        yield f"connection {answer.get('connection')} ({answer['protocol']}) is {answer.get('state')}"
    chain = answer.get("chain")
    hops = [hop for hop in chain if isinstance(hop, dict)] if isinstance(chain, list) else []
    blocking = [hop for hop in hops if answer.get("waits") is True and hop.get("verdict") == "blocking"]
    named = next((hop for hop in blocking if hop.get("edge") == answer.get("edge")), None)
    for hop in hops:
        yield _line(hop, first=hop is (named or next(iter(blocking), None)))
    yield str(answer.get("sentence"))
    yield from _root_and_minute(answer)
    for side in ("links", "publishers", "consumers"):
        yield from _also(answer.get(side), str(answer.get("sentence")))
    if answer.get("advice"):
        yield f"What to do: {answer['advice']}"


def _root_and_minute(answer: Mapping[str, object]) -> Iterator[str]:
    """Who in the end has to do something, and for what it has waited in the last minute."""
    root, minute = answer.get("root"), answer.get("last_minute")
    if isinstance(root, dict):
        yield f"The root: {root.get('says')} (headgate why {root.get('identity')})."
    if isinstance(minute, dict):
        links = minute.get("links")
        many = isinstance(links, int) and links > 1
        who = f"{links} of its links have waited for {{}} of their time" if many else "it has waited for {} of the time"
        over, share = _number(minute.get("over_seconds")), _number(minute.get("share"))
        yield f"In the last {over:.0f} s {who.format(f'{share:.0%}')}: {', '.join(_shares(minute))}."


def _line(hop: Mapping[str, object], *, first: bool) -> str:
    """The line of one hop. ``first`` marks the hop that blocks."""
    numbers = hop.get("numbers")
    figures = " ".join(f"{key}={_plain(value)}" for key, value in numbers.items()) if isinstance(numbers, dict) else ""
    says = str(hop.get("says") or "")
    mark = ">" if first else " "
    return f"{mark} {hop.get('edge')!s:{HOP_WIDTH}} {hop.get('verdict')!s:9} {says or figures}".rstrip()


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _also(side: object, told: str) -> Iterator[str]:
    """Those who wait too, but for the one that has been told of."""
    who = side.get("who") if isinstance(side, dict) else None
    for one in who if isinstance(who, list) else []:
        if isinstance(one, dict) and str(one.get("sentence")) not in told:
            yield f"- {one.get('sentence')}"
