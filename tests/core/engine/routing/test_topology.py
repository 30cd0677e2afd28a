"""Which definitions are recorded and when, and that a start restores them. The other rules are in the broker's
tests."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config.engine import EngineSettings
from core.engine.routing.topology import RECORD_WORK, Topology
from core.errors import EngineError, LimitReached, NotFound, PreconditionFailed, StillGoing
from core.store.definitions import Definitions, StoredQueue
from core.work import Work
from tests.kit.engine import binding, exchange, queue
from tests.kit.settings import make_settings


class Notebook:
    """A recorder of definitions in memory, which refuses changes while it is full."""

    takes_all = False

    def __init__(self):
        self.full = False
        self.numbers = 0
        self.queues = {}
        self.exchanges = {}
        self.bindings = []
        self.removals = 0

    def add_queue(self, declaration, identity):
        self._check()
        self.numbers += 1
        self.queues[declaration.name] = StoredQueue(self.numbers, declaration, identity)
        return self.numbers

    def add_exchange(self, declaration):
        self._check()
        self.exchanges[declaration.name] = declaration

    def add_binding(self, made):
        self._check()
        self.bindings.append(made)

    def remove(self, *, queues, exchanges, bindings):
        self._check()
        self.removals += 1
        for name in queues:
            del self.queues[name]
        for name in exchanges:
            del self.exchanges[name]
        for made in bindings:
            self.bindings.remove(made)

    def definitions(self):
        return Definitions(
            queues=list(self.queues.values()), exchanges=list(self.exchanges.values()), bindings=list(self.bindings)
        )

    def _check(self):
        if self.full:
            raise PreconditionFailed("no space")


@pytest.fixture
def notes():
    return Notebook()


@pytest.fixture
def topology(notes):
    return Topology(EngineSettings(), recorder=notes)


def transient_exchange(name):
    return replace(exchange(name), durable=False)


def state(topology):
    return (
        {name: definition.declaration for name, definition in topology.queues.items()},
        {name: known.declaration for name, known in topology.exchanges.items()},
        sorted(map(repr, filter(topology.leads_somewhere, topology.all_bindings()))),
    )


def go_on(topology):
    """Remove what is left over. Returns the number of steps."""
    steps = 0
    while topology.going:
        topology.go_on_removing()
        steps += 1
    return steps


def test_what_outlives_the_broker_is_recorded(topology, notes):
    topology.admit_queue(queue("kept"), "me")
    topology.admit_queue(queue("transient", durable=False), "me")
    topology.admit_queue(queue("exclusive", exclusive=True), "me")
    topology.admit_dynamic_queue("dynamic", "me")
    topology.admit_exchange(exchange("kept"))
    topology.admit_exchange(transient_exchange("transient"))
    for source in ("kept", "transient", "amq.direct"):
        for destination in ("kept", "transient", "exclusive", "dynamic"):
            topology.bind(binding(source, destination), "me")
    assert list(notes.queues) == ["kept"]
    assert list(notes.exchanges) == ["kept"]
    assert [(made.source, made.destination) for made in notes.bindings] == [("kept", "kept"), ("amq.direct", "kept")]
    assert topology.queues["kept"].id == 1
    assert [name for name, known in topology.queues.items() if known.id is None] == [
        "transient",
        "exclusive",
        "dynamic",
    ]


def test_what_exists_already_is_not_recorded_again(topology, notes):
    for _ in range(2):
        topology.admit_queue(queue("q"), "me")
        topology.admit_exchange(exchange("e"))
        topology.bind(binding("e", "q"), "me")
    assert (notes.numbers, len(notes.bindings)) == (1, 1)


def test_what_one_removal_takes_along_is_recorded_together(topology, notes):
    """q is bound to an auto-delete exchange to which another auto-delete exchange leads."""
    topology.admit_queue(queue("q"), "me")
    topology.admit_exchange(exchange("near", auto_delete=True))
    topology.admit_exchange(exchange("far", auto_delete=True))
    topology.bind(binding("near", "q"), "me")
    topology.bind(binding("amq.topic", "q", "#"), "me")
    topology.bind(binding("far", "near", to_exchange=True), "me")
    topology.forget_queue("q")
    assert notes.removals == 1
    assert notes.definitions() == Definitions(queues=[], exchanges=[], bindings=[])
    assert "near" not in topology.exchanges
    assert "far" not in topology.exchanges
    assert topology.all_bindings() == []


def test_a_cycle_of_auto_delete_exchanges_goes_at_once(topology, notes):
    for name in "ab":
        topology.admit_exchange(exchange(name, auto_delete=True))
    topology.bind(binding("a", "b", to_exchange=True), "me")
    topology.bind(binding("b", "a", to_exchange=True), "me")
    topology.delete_exchange("a")
    assert notes.exchanges == {}
    assert not {"a", "b"} & topology.exchanges.keys()


def test_removing_what_was_never_recorded_records_nothing(topology, notes):
    topology.admit_queue(queue("q", durable=False), "me")
    topology.bind(binding("amq.direct", "q"), "me")
    topology.forget_queue("q")
    assert notes.removals == 0


def test_what_cannot_be_recorded_does_not_happen(topology, notes):
    topology.admit_queue(queue("q"), "me")
    topology.admit_exchange(exchange("e", auto_delete=True))
    topology.bind(binding("e", "q"), "me")
    before, version = state(topology), topology.version
    notes.full = True
    for attempt in (
        lambda: topology.admit_queue(queue("new"), "me"),
        lambda: topology.forget_queue("q"),
        lambda: topology.admit_exchange(exchange("new")),
        lambda: topology.delete_exchange("e"),
        lambda: topology.bind(binding("e", "q", "other"), "me"),
        lambda: topology.unbind(binding("e", "q"), "me"),
    ):
        with pytest.raises(PreconditionFailed, match="no space"):
            attempt()
    assert (state(topology), topology.version) == (before, version)
    topology.admit_queue(queue("transient", durable=False), "me")
    topology.forget_queue("transient")


def test_a_queue_above_the_limit_is_not_recorded(notes):
    topology = Topology(make_settings(engine={"queues_max": 0}).engine, recorder=notes)
    with pytest.raises(LimitReached):
        topology.admit_queue(queue("q"), "me")
    assert notes.numbers == 0


NAMES = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.just("queue"), NAMES, st.booleans(), st.booleans()),
    st.tuples(st.just("exchange"), NAMES, st.booleans(), st.booleans()),
    st.tuples(st.just("bind"), NAMES, NAMES, st.booleans()),
    st.tuples(st.just("unbind"), NAMES, NAMES, st.booleans()),
    st.tuples(st.just("drop queue"), NAMES, st.just(None), st.just(None)),
    st.tuples(st.just("drop exchange"), NAMES, st.just(None), st.just(None)),
    st.tuples(st.just("go on"), NAMES, st.just(None), st.just(None)),
)


def take(topology, step):
    what, name, first, second = step
    match what:
        case "queue":
            topology.admit_queue(queue(name, durable=first, exclusive=second), "me")
        case "exchange":
            topology.admit_exchange(replace(exchange(name, auto_delete=second), durable=first))
        case "bind":
            topology.bind(binding(name, first, to_exchange=not second), "me")
        case "unbind":
            topology.unbind(binding(name, first, to_exchange=not second), "me")
        case "drop queue":
            if name in topology.queues:
                topology.forget_queue(name)
        case "drop exchange":
            topology.delete_exchange(name)
        case "go on":
            if topology.going:
                topology.go_on_removing()


@given(steps=st.lists(STEPS, max_size=30), failing=st.sets(st.integers(0, 29)), at_once=st.integers(1, 4))
def test_what_is_restored_is_what_was_durable(steps, failing, at_once):
    """The same definitions are restored after any operations, with any part of the removals left over or not
    recorded."""
    notes = Notebook()
    topology = Topology(EngineSettings(), recorder=notes, removed_at_once=at_once)
    for number, step in enumerate(steps):
        notes.full = number in failing
        try:
            take(topology, step)
        except EngineError:
            continue
    restored = Topology(EngineSettings())
    restored.restore(notes.definitions())

    queues, exchanges, _ = state(topology)
    kept_queues = {name: kept for name, kept in queues.items() if kept.durable and not kept.exclusive}
    kept_exchanges = {name: kept for name, kept in exchanges.items() if kept.durable}
    kept_bindings = [
        made
        for made in filter(topology.leads_somewhere, topology.all_bindings())
        if made.source in kept_exchanges
        and made.destination in (kept_queues if made.destination_is_queue else kept_exchanges)
    ]
    assert state(restored) == (kept_queues, kept_exchanges, sorted(map(repr, kept_bindings)))
    assert {name: restored.queues[name].id for name in kept_queues} == {
        name: topology.queues[name].id for name in kept_queues
    }


@given(steps=st.lists(STEPS, max_size=30), failing=st.sets(st.integers(0, 29)), at_once=st.integers(1, 4))
def test_nothing_is_left_over_for_good(steps, failing, at_once):
    """The result is the same as if each removal had been done at once. The exception are auto-delete exchanges that got
    another binding while the removal of their last ones was left over."""
    notes = Notebook()
    topology = Topology(EngineSettings(), recorder=notes, removed_at_once=at_once)
    for number, step in enumerate(steps):
        notes.full = number in failing
        try:
            take(topology, step)
        except EngineError:
            continue
    notes.full = False
    go_on(topology)
    assert all(map(topology.leads_somewhere, topology.all_bindings()))
    assert topology.bindings_count == len(topology.all_bindings())
    ends = {**notes.queues, **notes.exchanges, **topology.exchanges}
    assert all(made.source in ends and made.destination in ends for made in notes.bindings)


@given(steps=st.lists(STEPS, max_size=20), crash=st.lists(STEPS, max_size=20), at_once=st.integers(1, 4))
def test_what_was_left_over_at_a_crash_leads_to_nothing_new(steps, crash, at_once):
    notes = Notebook()
    topology = Topology(EngineSettings(), recorder=notes, removed_at_once=at_once)
    for step in steps:
        with suppress(EngineError):
            take(topology, step)
    topology = Topology(EngineSettings(), recorder=notes, removed_at_once=at_once)
    topology.restore(notes.definitions())
    for step in crash:
        with suppress(EngineError):
            take(topology, step)
    before = {repr(made) for made in topology.all_bindings()}
    topology = Topology(EngineSettings(), recorder=notes)
    topology.restore(notes.definitions())
    assert {repr(made) for made in topology.all_bindings()} <= before


# --- removing many bindings --------------------------------------------------------------------------------------


@pytest.fixture
def halves(notes):
    """A topology that removes two bindings in each step."""
    topology = Topology(EngineSettings(), recorder=notes, removed_at_once=2)
    topology.admit_queue(queue("q"), "me")
    topology.admit_queue(queue("other"), "me")
    topology.admit_exchange(exchange("e"))
    for number in range(5):
        topology.bind(binding("e", "q", f"{number}"), "me")
    return topology


def test_a_queue_of_many_bindings_goes_at_once_and_they_follow(halves, notes):
    assert halves.forget_queue("q") == 2
    assert "q" not in notes.queues
    assert (len(notes.bindings), notes.removals) == (3, 1)
    assert list(halves.bindings("e", "q", True)) == []
    assert not halves.is_source("e")
    assert halves.bindings_count == 0
    with pytest.raises(NotFound):
        halves.queue("q", "me")
    assert halves.unbind(binding("e", "q", "4"), "me") == 0
    assert go_on(halves) == 2
    assert notes.bindings == []
    assert list(halves.exchanges["e"].matcher.match("4", dict, Work())) == []


def test_its_name_can_be_declared_when_all_of_them_are_gone(halves):
    halves.forget_queue("q")
    with pytest.raises(StillGoing, match="queue 'q' is being deleted"):
        halves.admit_queue(queue("q"), "me")
    go_on(halves)
    assert halves.admit_queue(queue("q"), "me")
    assert list(halves.bindings("e", "q", True)) == []


def test_an_exchange_of_many_bindings_goes_at_once_and_they_follow(halves, notes):
    assert halves.delete_exchange("e") == 2
    assert "e" not in notes.exchanges
    assert list(halves.bindings("e", "q", True)) == []
    with pytest.raises(StillGoing, match="exchange 'e' is being deleted"):
        halves.admit_exchange(exchange("e"))
    assert go_on(halves) == 2
    assert notes.bindings == []
    assert halves.admit_exchange(exchange("e"))


def test_an_auto_delete_exchange_goes_with_the_last_of_them(notes):
    topology = Topology(EngineSettings(), recorder=notes, removed_at_once=2)
    topology.admit_queue(queue("q"), "me")
    topology.admit_exchange(exchange("e", auto_delete=True))
    for number in range(5):
        topology.bind(binding("e", "q", f"{number}"), "me")
    topology.forget_queue("q")
    assert "e" in topology.exchanges
    go_on(topology)
    assert "e" not in topology.exchanges
    assert notes.exchanges == {}


def test_while_they_cannot_be_recorded_the_name_is_refused(halves, notes):
    halves.forget_queue("q")
    notes.full = True
    with pytest.raises(PreconditionFailed):
        halves.go_on_removing()
    with pytest.raises(PreconditionFailed, match="before its old bindings are gone: no space"):
        halves.admit_queue(queue("q"), "me")
    notes.full = False
    go_on(halves)
    assert halves.admit_queue(queue("q"), "me")


def test_a_start_removes_what_a_crash_has_left_over(halves, notes):
    halves.forget_queue("q")
    restored = Topology(EngineSettings(), recorder=notes)
    restored.restore(notes.definitions())
    assert notes.bindings == []


def test_a_start_on_a_full_disk_removes_it_before_anything_new_is_recorded(halves, notes):
    halves.forget_queue("q")
    restored = Topology(EngineSettings(), recorder=notes)
    notes.full = True
    restored.restore(notes.definitions())
    with pytest.raises(PreconditionFailed, match="no space"):
        restored.admit_queue(queue("q"), "me")
    notes.full = False
    assert restored.admit_queue(queue("q"), "me")
    assert notes.bindings == []


def test_a_restored_definition_can_be_used_and_removed(topology, notes):
    topology.admit_queue(queue("q", x_max_length=3), "me")
    topology.bind(binding("amq.direct", "q", "k"), "me")
    restored = Topology(EngineSettings(), recorder=notes)
    restored.restore(notes.definitions())
    assert restored.admit_queue(queue("q", x_max_length=3), "somebody") is False
    assert restored.version > 0
    assert [node.name for node in restored.exchanges["amq.direct"].matcher.match("k", dict, Work())] == ["q"]
    restored.forget_queue("q")
    assert notes.definitions() == Definitions(queues=[], exchanges=[], bindings=[])


def test_a_binding_that_has_lost_an_end_is_left_out():
    restored = Topology(EngineSettings())
    restored.restore(Definitions(bindings=[binding("gone", "q"), binding("amq.direct", "gone")]))
    assert restored.all_bindings() == []


def test_the_alternate_exchange_in_force_may_come_from_elsewhere():
    chosen = {"e": "first"}
    topology = Topology(EngineSettings(), alternate=lambda declaration: chosen.get(declaration.name))
    topology.admit_exchange(exchange("e"))
    assert topology.exchanges["e"].alternate == "first"
    version = topology.version
    chosen["e"] = "second"
    topology.refresh_alternate("e")
    assert topology.exchanges["e"].alternate == "second"
    assert topology.exchanges["amq.direct"].alternate is None
    assert topology.version > version
    version = topology.version
    topology.refresh_alternate("e")
    topology.refresh_alternate("gone")
    assert topology.version == version


def test_a_queue_that_is_declared_again_has_another_identity(notes):
    topology = Topology(EngineSettings(), recorder=notes)
    for name, durable in (("kept", True), ("passing", False)):
        topology.admit_queue(queue(name, durable=durable), owner=None)
        first = topology.queues[name].identity
        assert not topology.admit_queue(queue(name, durable=durable), owner=None)
        assert topology.queues[name].identity == first
        topology.forget_queue(name)
        topology.admit_queue(queue(name, durable=durable), owner=None)
        assert topology.queues[name].identity != first
    dynamic = [topology.admit_dynamic_queue(name, owner=1).identity for name in "ab"]
    assert len({*dynamic, *(definition.identity for definition in topology.queues.values())}) == 4
    restored = Topology(EngineSettings())
    restored.restore(notes.definitions())
    assert restored.queues["kept"].identity == topology.queues["kept"].identity


def test_what_is_recorded_costs_the_work_of_a_write(notes):
    work = Work()
    topology = Topology(EngineSettings(), recorder=notes, work=work)
    topology.admit_queue(queue("passing", durable=False), "me")
    topology.admit_exchange(transient_exchange("passing"))
    topology.bind(binding("passing", "passing"), "me")
    assert work.spent == 0
    changes = (
        lambda: topology.admit_queue(queue("kept"), "me"),
        lambda: topology.admit_exchange(exchange("kept")),
        lambda: topology.bind(binding("kept", "kept"), "me"),
        lambda: topology.forget_queue("kept"),
    )
    for number, change in enumerate(changes, 1):
        change()
        assert work.spent == number * RECORD_WORK
