"""``why`` looks at rows that others write: whatever fields they have, lack or mix up, it answers and never raises."""

from collections.abc import Iterator, Mapping

from hypothesis import given
from hypothesis import strategies as st

from core.interface import FlowReason, Snapshot
from core.observe.advice import HopKind
from core.observe.why import why
from core.observe.why_chain import Verdict
from core.rows import WHY_KINDS
from core.slices import run_at_once

NAMES = st.sampled_from(["c1", "c1/0", "c1/0/0", "c1/0/1", "c1/1", "q", "memory", "classic", "quorum", ""])
WORDS = st.sampled_from(
    ["in", "out", "flow", "running", "blocked", "blocking", "classic", "quorum", "stream", *(map(str, FlowReason))]
)
NUMBERS = st.integers(-1, 300) | st.floats() | st.integers(2**40, 2**70)
LEAVES = NAMES | WORDS | NUMBERS | st.none() | st.booleans() | st.text(max_size=3)
VALUES = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(NAMES, LEAVES, max_size=2)

FIELDS_BY_SORT: Mapping[str, st.SearchStrategy[object]] = {
    "identity name connection session queue address exchange source destination": NAMES,
    "direction state type stage_credit_state reason culprit": WORDS,
    "alarms held_up_by publishes_to stage_credit_held_up_by": st.lists(NAMES | WORDS, max_size=2),
    "paused active idle withheld destination_is_queue": st.booleans(),
    "since seconds last_sync_seconds staged_bytes": NUMBERS,
}
SOUND = {field: values for fields, values in FIELDS_BY_SORT.items() for field in fields.split()}
"""Valid values of fields. Fields that are not here are small counts."""
COUNTS = st.integers(0, 2)
FIELDS = {
    "connections": "identity alarms state stage_credit_state stage_credit_held_up_by backlog_bytes",
    "sessions": "identity incoming_window remote_incoming_window",
    "links": (
        "identity connection session direction queue exchange address link_credit unconfirmed unconfirmed_limit"
        " unsynced withheld paused active idle waiting available held_up_by bound_by_policy bound_by_operator"
    ),
    "channels": "identity connection publishes_to stage_credit_state stage_credit_held_up_by",
    "queues": "name type messages_ready messages_unacknowledged max_length max_length_bytes stage_credit_state",
    "consumers": "queue grant active messages_unacknowledged",
    "alarms": "name cause used limit free",
    "lanes": "name staged_bytes last_sync_seconds",
    "stalls": "identity address direction reason culprit since seconds connection",
    "bindings": "source destination destination_is_queue",
    "last_minute": "identity connection address over_seconds seconds share by_reason",
}


def rows_of(fields: str) -> st.SearchStrategy[list[Snapshot]]:
    """Rows with some of these fields, valid or not."""
    row = st.fixed_dictionaries({}, optional={key: SOUND.get(key, COUNTS) | VALUES for key in fields.split()})
    return st.lists(row, max_size=3)


MIXES = st.fixed_dictionaries({}, optional={kind: rows_of(fields) for kind, fields in FIELDS.items()})


class Mixed:
    """A source that shows the rows it was given. A row can be asked for by any of its names."""

    def __init__(self, rows: Mapping[str, list[Snapshot]]) -> None:
        self._rows = rows

    def rows(self, kind: str, identity: str | None = None) -> Iterator[Snapshot]:
        """See :class:`core.row_walks.RowSource`."""
        rows = self._rows.get(kind, [])
        return (row for row in rows if identity is None or identity in (row.get("identity"), row.get("name")))


@given(MIXES, st.sampled_from(WHY_KINDS), st.sampled_from(["c1", "c1/0/0", "q"]))
def test_the_answer_never_raises_and_always_has_all_fields(rows: dict[str, list[Snapshot]], kind: str, identity: str):
    asked = {"connections": "connections", "links": "links", "addresses": "queues"}[kind]
    rows.setdefault(asked, []).append({"identity": identity, "name": identity, "direction": "in", "queue": "q"})
    answer = run_at_once(why(Mixed(rows), kind, identity))
    assert answer is not None
    assert answer["waits"] in (True, False)
    assert answer["reason"] in (None, *map(str, FlowReason))
    assert answer["edge"] in (None, *map(str, HopKind))
    assert (answer["reason"] is None) or answer["culprit"]
    assert isinstance(answer["chain"], list)
    assert {hop["verdict"] for hop in answer["chain"]} <= set(map(str, Verdict))
    assert isinstance(answer["sentence"], str)
    assert answer["sentence"]
    assert {"subject", "since", "seconds", "numbers", "also", "advice"} <= set(answer)
