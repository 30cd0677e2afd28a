"""The table of calls in flight: each entry ends exactly once, in time, in whatever order things happen."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from amqp10.services import Busy, CallTimedOut, NotSent, ServiceError, Unroutable
from amqp10.services.calls import HEAP_SLACK, CallStage, CallTable, InFlight

IN_FLIGHT_MAX = 6
NOT_KNOWN = CallTimedOut("the broker has not said in time whether it took the message to /q")


def entry(number: int, deadline: float = 10.0, *, answered: bool = True, ends: list[object] | None = None) -> InFlight:
    """An entry that notes how it ends."""
    noted = [] if ends is None else ends
    return InFlight(
        b"%d" % number,
        "/q",
        b"",
        deadline=deadline,
        answered=answered,
        on_end=lambda body, error: noted.append(body if error is None else type(error)),
    )


class Table(RuleBasedStateMachine):
    """Entries begin, move on, are answered, withdrawn and expire. The model knows how each ended."""

    def __init__(self) -> None:
        super().__init__()
        self.table = CallTable(in_flight_max=IN_FLIGHT_MAX)
        self.now = 0.0
        self.next = 0
        self.open: dict[int, tuple[InFlight, list[object]]] = {}
        self.over: list[tuple[list[object], object]] = []
        """The ends that entries noted, and those of the model."""

    @rule(seconds=st.floats(0.1, 5), answered=st.booleans())
    def begin(self, seconds: float, answered: bool) -> None:
        full = len(self.open) >= IN_FLIGHT_MAX
        if full:
            with pytest.raises(Busy):
                self.table.check_room()
            return
        self.table.check_room()
        ends: list[object] = []
        new = entry(self.next, self.now + seconds, answered=answered, ends=ends)
        soonest = min((one.deadline for one, _ in self.open.values()), default=float("inf"))
        assert self.table.begin(new) == (new.deadline < soonest) or new.deadline == soonest
        self.open[self.next] = new, ends
        self.next += 1

    @precondition(lambda self: self.open)
    @rule(data=st.data(), stage=st.sampled_from([CallStage.WAITING, CallStage.SENT, CallStage.ACCEPTED]))
    def move(self, data: st.DataObject, stage: CallStage) -> None:
        self.draw(data)[0].stage = stage

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        one, ends = self.draw(data)
        assert self.table.answer(one.identity, "body") is one.answered
        if one.answered:
            self.close(one, ends, ["body"])
            assert not self.table.answer(one.identity, "again")

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def accept(self, data: st.DataObject) -> None:
        one, ends = self.draw(data)
        self.table.end(one, None)
        self.table.end(one, "again")
        self.close(one, ends, [None])

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        one, ends = self.draw(data)
        self.table.withdraw(one)
        self.table.withdraw(one)
        self.close(one, ends, [])

    @rule(seconds=st.floats(0, 3))
    def expire(self, seconds: float) -> None:
        self.now += seconds
        late = [(one, ends) for one, ends in self.open.values() if one.deadline <= self.now]
        expected = [[NotSent] if one.stage is CallStage.WAITING else [CallTimedOut] for one, _ in late]
        assert self.table.expire(self.now, lambda address: None) == len(late)
        for (one, ends), error in zip(late, expected, strict=True):
            self.close(one, ends, error)

    def draw(self, data: st.DataObject) -> tuple[InFlight, list[object]]:
        return self.open[data.draw(st.sampled_from(sorted(self.open)))]

    def close(self, one: InFlight, ends: list[object], expected: list[object]) -> None:
        del self.open[int(one.identity)]
        self.over.append((ends, expected))

    @invariant()
    def each_ends_once_and_as_it_should(self) -> None:
        assert all(ends == expected for ends, expected in self.over)
        assert all(ends == [] for _, ends in self.open.values())

    @invariant()
    def the_table_has_what_is_open_and_the_next_deadline(self) -> None:
        assert len(self.table) == len(self.open)
        assert self.table.next_deadline() == min((one.deadline for one, _ in self.open.values()), default=None)


TestTable = Table.TestCase
TestTable.settings = settings(max_examples=settings.default.max_examples // 3)


def test_calls_that_have_ended_do_not_stay_in_the_heap():
    table = CallTable(in_flight_max=10)
    for number in range(10 * HEAP_SLACK):
        table.begin(entry(number))
        table.answer(b"%d" % number, None)
    assert len(table._heap) <= 2 * HEAP_SLACK


@pytest.mark.parametrize(
    ("stage", "uncertain", "unroutable", "error"),
    [
        (CallStage.WAITING, False, False, NotSent("there was no link credit for /q in time; the broker says memory")),
        (CallStage.WAITING, False, True, Unroutable("no queue has taken messages to /q in time")),
        (CallStage.WAITING, True, False, NOT_KNOWN),
        (CallStage.SENT, False, False, NOT_KNOWN),
        (CallStage.ACCEPTED, False, False, CallTimedOut("/q has not answered in time")),
    ],
)  # fmt: skip
def test_what_a_time_out_says(stage: CallStage, uncertain: bool, unroutable: bool, error: ServiceError):
    table, errors = CallTable(in_flight_max=1), []
    late = entry(1, 5.0)
    late.on_end = lambda body, error: errors.append(error)
    table.begin(late)
    late.stage, late.uncertain, late.unroutable = stage, uncertain, unroutable
    table.expire(5.0, lambda address: "memory")
    assert [(type(one), str(one)) for one in errors] == [(type(error), str(error))]


def test_one_identity_is_in_flight_once():
    table = CallTable(in_flight_max=2)
    table.begin(entry(1))
    with pytest.raises(ValueError, match="in flight already"):
        table.begin(entry(1))
