"""Declarations and deletions of queues that came together: one record, in their order, and all or none of them made."""

from contextlib import contextmanager

import pytest

from core.clock import Now
from core.config.settings import Settings
from core.engine.broker import Broker
from core.engine.routing.staged import MADE_AT_ONCE, RECORDED_AT_ONCE
from core.errors import LimitReached, Locked, PreconditionFailed, StillGoing
from core.store.definition_record import DefinitionRecord
from tests.kit.engine import binding, exchange, queue
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.settings import make_settings
from tests.kit.storage import KeptDefinitions, open_storage

NOW = Now(100.0, 1_700_000_000.0)


class Grouped:
    """A recorder that counts records, and refuses them while it is full. With ``slow``, a record is on the disk when
    the test or the engine takes its steps; its changes are kept already, as they are in the first file."""

    def __init__(self):
        self.kept = KeptDefinitions()
        self.full = self.slow = False
        self.records = []
        self.under_way = []
        self.waits = 0
        self._now = None

    @contextmanager
    def together(self, later):
        self._now = []
        try:
            if self.full:
                raise PreconditionFailed("no space")
            yield
        finally:
            now, self._now = self._now, None
        self.records.append(now)
        if self.slow:
            self.under_way.append(DefinitionRecord(self._steps()))
            later(self.under_way[-1])

    def _steps(self):
        yield self._wait
        if self.full:
            raise PreconditionFailed("no space")
        yield self._wait

    def _wait(self):
        self.waits += 1

    def add_queue(self, declaration, identity):
        self._note(f"+{declaration.name}")
        return self.kept.add_queue(declaration, identity)

    def remove(self, *, queues, exchanges, bindings):
        self._note("-" + ",".join(queues))
        self.kept.remove(queues=queues, exchanges=exchanges, bindings=bindings)

    def add_exchange(self, declaration):
        self.kept.add_exchange(declaration)

    def add_binding(self, made):
        self.kept.add_binding(made)

    def set_policy(self, policy):
        self.kept.set_policy(policy)

    def remove_policy(self, name):
        self.kept.remove_policy(name)

    def _note(self, what):
        if self._now is None:
            self.records.append([what])
        else:
            self._now.append(what)


@pytest.fixture
def notes():
    return Grouped()


def stored(notes, settings=None):
    storage = open_storage(MemoryDisk(), notes.kept)
    storage.recorder = notes
    return Broker(settings or Settings(), storage=storage)


@pytest.fixture
def broker(notes):
    return stored(notes)


def names(broker):
    return [row["name"] for row in broker.snapshot("queues")]


def test_what_came_in_one_turn_is_one_record(broker, notes):
    broker.declare_queue(queue("old"), "me")
    first = broker.begin_declaring(queue("a"), "me")
    gone = broker.begin_deleting("old", "you")
    second = broker.begin_declaring(queue("b"), "you")
    assert names(broker) == ["old"], "nothing has an effect before it is recorded"
    assert [one.done for one in (first, gone, second)] == [False] * 3
    with pytest.raises(StillGoing):
        first.result()
    broker.turn(NOW)
    assert notes.records == [["+old"], ["+a", "-old", "+b"]]
    assert names(broker) == ["a", "b"]
    info, made = second.result()
    assert (info.declaration.name, info.ready, made, gone.result()) == ("b", 0, True, 0)
    assert notes.kept.number("b") == 3
    broker.turn(NOW)
    assert len(notes.records) == 2


def test_a_record_that_fails_makes_nothing_and_tells_each(broker, notes):
    broker.declare_queue(queue("old"), "me")
    notes.full = True
    begun = [broker.begin_declaring(queue("a"), "me"), broker.begin_deleting("old", "you")]
    broker.turn(NOW)
    for one in begun:
        with pytest.raises(PreconditionFailed, match="no space"):
            one.result()
    assert names(broker) == ["old"]
    notes.full = False
    again = broker.begin_declaring(queue("a"), "me")
    broker.turn(NOW)
    assert again.result()[1]


def test_a_turn_records_and_makes_a_bounded_number_and_the_next_turns_the_rest(broker, notes):
    begun = [broker.begin_declaring(queue(f"q{number}"), "me") for number in range(2 * RECORDED_AT_ONCE + 1)]
    turns = 0
    while broker.turn(NOW):
        turns += 1
        made = min(turns * MADE_AT_ONCE, len(begun))
        assert [one.done for one in begun] == [True] * made + [False] * (len(begun) - made)
    assert [len(record) for record in notes.records] == [RECORDED_AT_ONCE, RECORDED_AT_ONCE, 1]
    assert [change for record in notes.records for change in record] == [f"+q{n}" for n in range(len(begun))]
    assert all(one.done for one in begun)


def test_what_comes_while_a_record_is_under_way_is_the_next_record(broker, notes):
    notes.slow = True
    first = broker.begin_declaring(queue("a"), "me")
    assert not broker.turn(NOW), "the disk is waited for"
    second = [broker.begin_declaring(queue(name), "me") for name in "bc"]
    assert not broker.turn(NOW)
    assert (names(broker), notes.records) == ([], [["+a"]]), "a queue is there when it is on the disk"
    with pytest.raises(StillGoing):
        broker.begin_deleting("a", "you")
    notes.under_way[0].finish()
    assert not broker.turn(NOW)
    assert (names(broker), first.result()[1], second[0].done) == (["a"], True, False)
    assert notes.records == [["+a"], ["+b", "+c"]]
    notes.under_way[1].finish()
    broker.turn(NOW)
    assert names(broker) == ["a", "b", "c"]
    assert broker.begin_deleting("b", "me").done is False
    assert names(broker) == ["a", "b", "c"]


def test_a_record_that_fails_under_way_makes_nothing_and_the_next_one_may_succeed(broker, notes):
    notes.slow = True
    first = broker.begin_declaring(queue("a"), "me")
    broker.turn(NOW)
    second = broker.begin_declaring(queue("b"), "me")
    notes.full = True
    notes.under_way[0].finish()
    notes.full = False
    broker.turn(NOW)
    with pytest.raises(PreconditionFailed, match="no space"):
        first.result()
    notes.under_way[1].finish()
    broker.turn(NOW)
    assert (names(broker), second.result()[1]) == (["b"], True)
    again = broker.begin_declaring(queue("a"), "me")
    broker.turn(NOW)
    notes.under_way[2].finish()
    broker.turn(NOW)
    assert again.result()[1]


def test_a_change_that_cannot_wait_finishes_the_record_of_its_queue_and_leaves_others_under_way(broker, notes):
    notes.slow = True
    staged = broker.begin_declaring(queue("a"), "me")
    broker.turn(NOW)
    broker.declare_queue(queue("transient", durable=False), "you")
    assert (notes.waits, names(broker)) == (0, ["transient"])
    _, made = broker.declare_queue(queue("a"), "you")
    assert (made, staged.done, notes.waits) == (False, True, 2)


def test_a_change_that_cannot_wait_records_all_that_is_staged_before_it(broker, notes):
    for number in range(RECORDED_AT_ONCE + 2):
        broker.begin_declaring(queue(f"q{number}"), "me")
    broker.delete_queue(f"q{RECORDED_AT_ONCE}", "you")
    assert [len(record) for record in notes.records] == [RECORDED_AT_ONCE, 2, 1]
    assert f"q{RECORDED_AT_ONCE}" not in names(broker)


def test_a_second_change_of_a_queue_waits_for_the_first(broker, notes):
    broker.begin_declaring(queue("a"), "me")
    for second in (
        lambda: broker.begin_declaring(queue("a"), "you"),
        lambda: broker.begin_deleting("a", "you"),
    ):
        with pytest.raises(StillGoing, match="'a' is being declared or deleted"):
            second()
    broker.turn(NOW)
    found = broker.begin_declaring(queue("a"), "you")
    assert found.done
    assert not found.result()[1]
    assert notes.records == [["+a"]]


def test_changes_that_are_not_put_off_record_first_what_is_staged_for_their_queue(broker, notes):
    staged = broker.begin_declaring(queue("a"), "me")
    _, made = broker.declare_queue(queue("a"), "you")
    assert (made, staged.done) == (False, True)
    broker.begin_declaring(queue("b"), "me")
    broker.declare_exchange(exchange("e"))
    broker.bind(binding("e", "b"), "me")
    assert notes.records == [["+a"], ["+b"]]
    broker.begin_deleting("a", "me")
    assert broker.delete_queue("a", "you") == 0
    assert names(broker) == ["b"]


def test_what_has_bindings_or_is_not_kept_is_done_at_once(broker, notes):
    broker.declare_exchange(exchange("e"))
    broker.declare_queue(queue("bound"), "me")
    broker.bind(binding("e", "bound"), "me")
    assert broker.begin_deleting("bound", "me").done
    assert broker.begin_declaring(queue("transient", durable=False), "me").result()[1]
    assert broker.begin_deleting("transient", "me").result() == 0
    assert broker.begin_deleting("none", "me").result() == 0
    assert names(broker) == []


def test_refusals_come_at_once(notes):
    broker = stored(notes, make_settings(engine={"queues_max": 3}))
    broker.declare_queue(queue("mine", exclusive=True), "me")
    with pytest.raises(Locked):
        broker.begin_deleting("mine", "you")
    broker.begin_declaring(queue("a"), "me")
    broker.begin_declaring(queue("b"), "me")
    with pytest.raises(LimitReached):
        broker.begin_declaring(queue("c"), "me")
