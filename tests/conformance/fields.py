"""The table of fields: what becomes of everything that a client may set, and the test that shows it.

``python -m tests.conformance.fields`` writes ``docs/protocol/fields.md`` from the marks on the tests. A test checks
that the page is fresh and that no field is missing.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from amqp10.wire.messaging import Coordinator, Error, Modified, Received, Rejected, Source, Target
from amqp10.wire.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer
from core.amqp091.methods import METHODS
from docs.amqp091_tables import SENT_BY_THE_BROKER, spelled
from tests.kit.fates import Row, rows

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "protocol" / "fields.md"
FILES = (
    "tests/conformance/test_fields.py",
    "tests/conformance/test_fields_of_frames.py",
    "tests/conformance/test_fields_091.py",
    "tests/conformance/test_holders.py",
)

COMPOSITES = (
    *(Open, Begin, Attach, Source, Target, Coordinator, Flow, Transfer, Disposition, Detach, End, Close),
    *(Received, Rejected, Modified, Error),
)
ANY_METHOD = "any method"
"""The place of fields that mean the same in every method of AMQP 0.9.1."""

INTRODUCTION = """\
# Fields

How the broker treats each field that a client may set, in both protocols. It *does* what a field says, *refuses* it,
or *ignores* it. It ignores a field only if the client can see this in the answer, or if the field is a hint or only
information. `python -m tests.conformance.fields` writes this page from the marks on the tests; a test checks that the
page is up to date and that every field has a row.

A refused attach is answered with null termini and a detach that has the condition; the session continues. What a field
with an impossible value or type costs is in [Errors](../errors.md). "In the answer" means the broker's own attach, open
or begin: it says what is in force and nothing else.
"""


def wanted() -> Mapping[str, Iterable[str]]:
    """Every field that a client may set, by its place."""
    fields = {
        type_.__name__.lower(): [field.name.replace("_", "-") for field in dataclasses.fields(type_)]
        for type_ in COMPOSITES
    }
    for method in METHODS.values():
        name = spelled(method)
        if name not in SENT_BY_THE_BROKER and not _is_answer_of_broker(name):
            fields[name] = [field.name.rstrip("_") for field in dataclasses.fields(method)]  # type: ignore[arg-type]
    return fields


CLIENTS_ANSWERS = frozenset(
    {"connection.start-ok", "connection.secure-ok", "connection.tune-ok", "connection.close-ok", "channel.close-ok"}
)


def _is_answer_of_broker(name: str) -> bool:
    return name not in CLIENTS_ANSWERS and name.endswith(("-ok", "-empty"))


def missing(table: Iterable[Row]) -> Iterator[str]:
    """Fields without a row."""
    told = {(row.place, name) for row in table for name in row.names}
    for place, fields in wanted().items():
        for field in fields:
            if (place, field) not in told and not ("." in place and (ANY_METHOD, field) in told):
                yield f"{place}: {field}"


def render(table: Iterable[Row]) -> str:
    """Write the text of the page."""
    by_place: dict[str, list[Row]] = {}
    for row in table:
        by_place.setdefault(row.place, []).append(row)
    lines = [INTRODUCTION, "## AMQP 1.0", ""]
    second = False
    for place, found in by_place.items():
        if not second and ("." in place or place == ANY_METHOD):
            second = True
            lines += ["## AMQP 0.9.1", ""]
        lines += [f"### {place}", "", "| field | | what | test |", "|---|---|---|---|"]
        lines += [_line(row) for row in found] + [""]
    return "\n".join(lines).rstrip() + "\n"


def _line(row: Row) -> str:
    return f"| {row.fields} | {row.fate} | {row.what} | `{row.function}` |"


def main() -> None:
    """Write the page."""
    PAGE.write_text(render(rows(ROOT, FILES)), encoding="utf-8")


if __name__ == "__main__":
    main()
