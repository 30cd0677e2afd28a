"""Which policy is in force for each queue when changes reach the queues one by one."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from core.engine.enforcement import SEARCH_WORK, Enforcement
from core.engine.options.policies import Policies
from core.engine.routing.edges import Node
from core.errors import NotFound
from core.store.definitions import PolicyDeclaration
from core.work import Work
from tests.kit.engine import queue


class Host:
    """Policies over queues and exchanges."""

    def __init__(self, *queues, exchanges=()):
        self.work = Work()
        self.queues = {name: queue(name) for name in queues}
        self.exchanges = exchanges
        self.policies = Policies(changed=self._changed)
        self.enforcement = Enforcement(self.policies, self.work)
        self.in_force = {name: self.enforcement.enter(declaration) for name, declaration in self.queues.items()}
        self.others = 0
        """How often another policy came into force."""

    def set(self, name, pattern, priority=0, apply_to="all"):
        self.policies.set(
            PolicyDeclaration(
                name=name, pattern=pattern, priority=priority, apply_to=apply_to, definition={"max-length": 1}
            )
        )

    def hear(self, times=1_000_000):
        """Apply the changes to the next queues that wait for them."""
        while self.enforcement.waiting and times:
            node = self.enforcement.next()
            if node.is_queue and node.name in self.queues:
                winner, is_another = self.enforcement.renew(self.queues[node.name])
                assert is_another == (winner is not self.in_force[node.name])
                self.others += is_another
                self.in_force[node.name] = winner
            times -= 1

    def names(self):
        return {name: None if winner is None else winner.name for name, winner in self.in_force.items()}

    def _changed(self, name):
        self.enforcement.begin(name, self.queues, self.exchanges)


def test_setting_one_of_many_policies_costs_one_search_of_each_queue():
    host = Host(*(f"q{number}" for number in range(50)))
    for number in range(20):
        host.set(f"p{number}", "none", priority=number)
        host.hear()
    host.set("all", "^q", priority=5)
    host.hear()
    assert set(host.names().values()) == {"all"}
    before = host.work.spent
    host.set("p3", "also none", priority=6)
    host.hear()
    assert host.work.spent - before == 50 * SEARCH_WORK
    host.policies.clear("p3")
    host.hear()
    assert host.work.spent - before == 50 * SEARCH_WORK
    assert host.others == 50


def test_a_policy_for_names_that_begin_in_another_way_costs_no_search():
    host = Host(*(f"q{number}" for number in range(50)))
    before = host.work.spent
    host.set("p", "^none")
    host.hear()
    assert host.work.spent == before
    host.set("p", "^q7$")
    host.hear()
    assert host.work.spent == before + SEARCH_WORK
    host.set("p", "^none")
    host.hear()
    assert host.work.spent == before + 3 * SEARCH_WORK  # the name, and then all policies in place of the old one
    assert host.others == 2


def test_a_policy_that_wins_after_the_one_in_force_is_not_searched_for():
    host = Host("q")
    host.set("high", "q", priority=1)
    host.hear()
    before = host.work.spent
    host.set("low", "q")
    host.hear()
    assert host.work.spent == before
    assert host.names() == {"q": "high"}


def test_what_comes_next_when_the_policy_in_force_goes_is_changed_or_sinks():
    host = Host("q")
    for number, pattern in enumerate(("q", "q", "x", "q")):
        host.set(f"p{number}", pattern, priority=number)
    host.hear()
    assert host.names() == {"q": "p3"}
    host.policies.clear("p3")
    host.hear()
    assert host.names() == {"q": "p1"}
    host.set("p1", "y", priority=9)
    host.hear()
    assert host.names() == {"q": "p0"}
    host.set("p0", "q", priority=-1)
    host.set("p2", "q", priority=-2)
    host.hear()
    assert host.names() == {"q": "p0"}
    host.policies.clear("p0")
    host.policies.clear("p2")
    host.hear()
    assert host.names() == {"q": None}


def test_a_policy_that_says_something_else_is_another_policy():
    host = Host("q")
    host.set("p", "q")
    host.set("p", "q")
    host.hear()
    assert host.others == 1
    host.set("p", "q", priority=2)
    host.hear()
    assert host.others == 2


def test_exchanges_hear_first_and_those_that_have_waited_hear_before_others():
    host = Host("a", "b", "c", exchanges=("e",))
    host.set("p", "x")
    assert [host.enforcement.next() for _ in range(2)] == [Node(False, "e"), Node(True, "c")]
    host.set("q", "x")
    assert [host.enforcement.next() for _ in range(4)] == [
        Node(False, "e"),
        Node(True, "b"),
        Node(True, "a"),
        Node(True, "c"),
    ]
    assert not host.enforcement.waiting


def test_a_queue_that_is_made_between_has_the_policy_of_now_and_one_that_goes_has_none():
    host = Host("a")
    host.set("p", "^b")
    late = queue("b")
    winner = host.enforcement.enter(late)
    assert winner is not None
    assert winner.name == "p"
    host.hear()
    assert host.enforcement.shown(late)["policy"] == "p"
    host.enforcement.leave("b")
    assert host.enforcement.shown(late)["policy"] is None


def test_what_is_shown_is_the_policy_of_now_also_where_the_queue_has_not_heard():
    host = Host("a")
    host.set("p", "a")
    assert host.enforcement.waiting
    assert host.enforcement.shown(host.queues["a"])["policy"] == "p"
    host.hear()
    assert host.enforcement.shown(host.queues["a"])["policy"] == "p"
    host.policies.clear("p")
    assert host.enforcement.shown(host.queues["a"])["policy"] is None


NAMES = st.sampled_from(["p0", "p1", "p2", "p3"])
CHANGES = st.one_of(
    st.tuples(
        st.just("set"),
        NAMES,
        st.sampled_from(["a", "b", "ab", "^b", "^ab?", "^ba*$", "^a|b", "^c", ""]),
        st.integers(0, 2),
    ),
    st.tuples(st.just("clear"), NAMES),
    st.tuples(st.just("hear"), st.integers(1, 6)),
)


@given(st.lists(CHANGES, max_size=30))
def test_in_the_end_the_winner_of_each_queue_is_in_force(changes):
    host = Host("a", "b", "ab", "ba", "c")
    for what, *arguments in changes:
        with suppress(NotFound):
            {"set": host.set, "clear": host.policies.clear, "hear": host.hear}[what](*arguments)
    host.hear()
    assert host.in_force == {name: host.policies.winner(declaration) for name, declaration in host.queues.items()}
