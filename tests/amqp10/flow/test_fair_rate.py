"""The fair rate of a target and the windows of its links: arithmetic, and what it does in the simulation."""

import gc
import random
import weakref
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqp10.flow.byte_budget import ByteBudget
from amqp10.flow.fair_rate import (
    START_UNCONFIRMED_MAX,
    WINDOW_MAX,
    WINDOW_START,
    FairRate,
    PublisherWindow,
)
from amqp10.flow.windowed import Windowed
from bench.flow_simulation.__main__ import read
from bench.flow_simulation.figures import Figures, figures
from bench.flow_simulation.model import PublisherSpec, QueueSpec, Scenario, Simulation
from bench.flow_simulation.policies import AdaptivePolicy, FixedPolicy

SECONDS = 3.0


@dataclass
class Links:
    """Links to one target that send what they may, in steps that a test chooses."""

    number: int
    now: float = 0.0
    fair: FairRate = field(default_factory=FairRate)

    def __post_init__(self) -> None:
        self.windows = [PublisherWindow(self.fair, self.now) for _ in range(self.number)]
        self.received = [0] * self.number
        self.confirmed = [0] * self.number

    def link_credit(self, at: int) -> int:
        return self.windows[at].limit - self.received[at]

    def unconfirmed(self, at: int) -> int:
        return self.received[at] - self.confirmed[at]

    def send(self, at: int, messages: int) -> None:
        self.received[at % self.number] += min(messages, self.link_credit(at % self.number))
        self.look(at % self.number)

    def confirm(self, at: int, messages: int) -> None:
        self.confirmed[at % self.number] += min(messages, self.unconfirmed(at % self.number))
        self.look(at % self.number)

    def look(self, at: int) -> None:
        link = self.windows[at]
        assert self.fair.awaited == sum(window.awaited for window in self.windows)
        before = link.limit
        link.look(self.received[at], self.confirmed[at], self.now)
        assert link.limit >= before
        if link.limit > before:
            assert self.link_credit(at) + self.unconfirmed(at) <= link.size


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "confirm", "weight"]),
        st.integers(min_value=0, max_value=7),
        st.integers(min_value=1, max_value=400),
        st.floats(min_value=0.0, max_value=0.5),
    ),
    max_size=60,
)


@given(STEPS, st.integers(min_value=1, max_value=8))
def test_windows_are_bounded_and_no_link_is_stuck(steps: list[tuple[str, int, int, float]], number: int):
    links = Links(number)
    for step, at, messages, seconds in steps:
        links.now += seconds
        if step == "weight":
            links.windows[at % number].weight = 1 + messages % 100
            continue
        (links.send if step == "send" else links.confirm)(at, messages)
        for at, link in enumerate(links.windows):
            assert 0 <= links.link_credit(at) <= WINDOW_MAX
            assert 1 <= link.size <= WINDOW_MAX
    sent: set[int] = set()
    for _ in range(4 * number):  # each link that has messages unconfirmed gets its outcomes, then its turn
        links.now += 0.01
        for at in range(number):
            if links.link_credit(at):
                sent.add(at)
            links.send(at, links.link_credit(at))
            links.confirm(at, links.unconfirmed(at))
    assert sent == set(range(number))


@given(st.integers(min_value=2, max_value=200), st.integers(min_value=0, max_value=3))
def test_links_that_use_no_turn_hold_up_no_other(number: int, busy: int):
    """With less than a message for each link they take turns; those without messages cannot say so."""
    links = Links(number)
    links.fair.rate = 1.0
    for _ in range(3):  # all have had their first link credit
        links.now += 1.0
        for at in range(number):
            links.send(at, links.link_credit(at))
        for at in range(number):
            links.confirm(at, links.unconfirmed(at))
    before = links.received[busy % number]
    for _ in range(10):
        links.now += 1.0
        links.send(busy, 1)
        links.confirm(busy, 1)
    assert links.received[busy % number] >= before + 5


def test_a_queue_in_the_socket_does_not_lengthen_the_round_trip():
    """A link that always has messages, at 1 ms, before a broker that takes 50 a millisecond: what is granted beyond
    that waits in the socket, and each round lasts as long as that."""
    links = Links(1)
    link, arriving, in_socket = links.windows[0], 0, 0
    for _ in range(60_000):
        links.now += 0.001
        in_socket += arriving
        arriving = links.link_credit(0) - in_socket
        taken = min(50, in_socket)
        in_socket -= taken
        links.send(0, taken)
        links.confirm(0, taken)
    assert link.round_trip <= 0.005
    assert link.size <= 1000


def called_link() -> PublisherWindow:
    """A link whose turn has come, where links take turns and there is room for three messages."""
    link = PublisherWindow(FairRate(), 0.0)
    link._fair._room, link._fair.rate, link.limit = 3.0, 0.1, 0
    link.look(0, 0, 0.0)
    assert (link.awaited, link._fair.awaited) == (1, 1)
    return link


def test_a_called_link_that_gives_back_its_link_credit_is_awaited_once():
    link = called_link()
    link.skip(1)
    link.look(1, 1, 0.0001)
    assert link._fair.awaited == link.awaited
    link.close(0.0002)
    assert link._fair.awaited == 0


def test_a_called_link_that_an_operator_pauses_is_not_awaited():
    link = called_link()
    link.take_back(0, 0)
    assert link._fair.awaited == 0
    link.look(0, 0, 0.0001)
    link.close(0.0002)
    assert link._fair.awaited == 0


def test_a_waiting_link_that_closes_calls_no_more_links_than_there_is_room_for():
    first = called_link()
    fair = first._fair
    fair._room = 1.0
    others = [PublisherWindow(fair, 0.0, lambda: None, None, lambda when: None) for _ in range(3)]
    for link in others:
        link.limit = 0
        fair.wait(link)
    others[0].close(0.0001)
    assert [link.awaited for link in others] == [0, 0, 0]


def test_an_older_turn_of_a_link_does_not_end_its_new_one():
    link = called_link()
    fair, first = link._fair, link._turn
    link.look(1, 1, 0.001)  # its message came, so this turn is over
    fair.rate, link.limit = 0.1, 1
    fair.wait(link)
    fair.turn(0.002)  # and it is called again
    assert link.awaited == 1
    assert link._turn is not first
    other = PublisherWindow(fair, 0.0, lambda: None, None, lambda when: None)
    other.limit = 0
    fair.wait(other)
    assert first.ends_at < link._turn.ends_at
    fair.unconfirmed = 10  # no room, so that nothing is called
    fair.turn((first.ends_at + link._turn.ends_at) / 2)
    assert (link.awaited, fair.awaited) == (1, 1)
    fair.turn(link._turn.ends_at)
    assert (link.awaited, fair.awaited) == (0, 0)


def test_a_target_without_links_is_not_kept():
    """Neither turns nor places in the line hold a link that is closed, which would hold its target."""
    fair = FairRate()
    fair.rate = 1.0
    links = [PublisherWindow(fair, 0.0, lambda: None, None, lambda when: None) for _ in range(4)]
    for link in links:
        link.limit = 0
        fair.wait(link)
    links[0]._fair.turn(0.0)
    assert any(link.awaited for link in links)
    for link in links:
        link.close(0.001)
    gone = weakref.ref(fair)
    gc.disable()
    try:
        del fair, link, links
        assert gone() is None
    finally:
        gc.enable()


def test_a_link_of_a_weight_may_send_so_many_messages_in_its_turn():
    link = called_link()
    assert link.awaited == 1
    heavy = PublisherWindow(link._fair, 0.0)
    heavy.weight, heavy.limit = 7, 0
    assert heavy.called(0.0) == 7
    assert (heavy.limit, heavy.awaited, link._fair.awaited) == (7, 7, 8)
    bounded = PublisherWindow(link._fair, 0.0)
    bounded.weight, bounded.limit, bounded._most = 7, 0, 2
    assert bounded.called(0.0) == 2
    small = PublisherWindow(link._fair, 0.0, budget=ByteBudget(1000))
    small.weight, small.limit, small.message_bytes = 7, 0, 400.0
    assert small.called(0.0) in (1, 2)


@given(st.integers(min_value=1, max_value=3000))
def test_new_links_share_the_start(number: int):
    windows = Links(number).windows
    assert windows[0].size == WINDOW_START
    assert all(window.size >= 1 for window in windows)
    assert sum(window.size - 1 for window in windows) <= START_UNCONFIRMED_MAX


def test_a_link_that_closes_gives_back_its_start_and_its_turn():
    links = Links(2000)
    assert links.windows[-1].size == 1
    for link in links.windows[:-1]:
        link.close(0.0)
    assert PublisherWindow(links.fair, 0.0).size == WINDOW_START
    called: list[int] = []
    first, second = (PublisherWindow(links.fair, 0.0, partial(called.append, number)) for number in (1, 2))
    first.limit = second.limit = 0
    links.fair.wait(first)
    links.fair.wait(second)
    first.close(1.0)
    assert called == [2]


def test_a_longer_way_is_believed_after_a_while():
    links = Links(1)
    link = links.windows[0]

    def rounds(round_trip: float, number: int) -> None:
        for _ in range(number):
            links.now += round_trip
            links.send(0, links.link_credit(0))
            links.confirm(0, links.unconfirmed(0))

    rounds(0.002, 100)
    assert link.round_trip == pytest.approx(0.002)
    rounds(0.05, 190)
    assert link.round_trip == pytest.approx(0.002)
    rounds(0.05, 40)
    assert 0.03 <= link.round_trip <= 0.05
    rounds(0.002, 2)
    assert link.round_trip == pytest.approx(0.002)


@given(st.lists(st.integers(min_value=1, max_value=2**24), min_size=1, max_size=300))
def test_a_byte_budget_is_shared(wishes: list[int]):
    broker = ByteBudget(10_000_000)
    connection = ByteBudget(4_000_000, broker, share=1_000_000)
    held = [0] * 8
    for at, wish in enumerate(wishes):
        room = connection.room(held[at % 8])
        taken = min(wish, room)
        connection.change(taken - held[at % 8])
        held[at % 8] = taken
        assert 0 <= taken <= 1_000_000
        assert connection.held == broker.held == sum(held) <= 4_000_000
    for one in held:
        connection.change(-one)
    assert broker.held == 0


@given(st.lists(st.tuples(st.floats(min_value=0, max_value=3), st.floats(min_value=0, max_value=100)), min_size=1))
def test_windowed_is_the_best_of_the_last_seconds(values: list[tuple[float, float]]):
    least, now = Windowed(min, 2.0), 0.0
    seen: list[tuple[float, float]] = []
    for step, value in values:
        now += step
        seen.append((now, value))
        found = least.add(now, value)
        assert min(value for time, value in seen if time > now - 1.0) >= found
        assert min(value for time, value in seen if time >= now - 2.0) <= found


# --- in the simulation ------------------------------------------------------------------------------------------------


def adaptive(scenario: str) -> Figures:
    simulation = Simulation(read()[scenario], AdaptivePolicy()).run(SECONDS)
    return figures(simulation, since=SECONDS / 2, until=SECONDS)


def fixed(scenario: str) -> Figures:
    simulation = Simulation(read()[scenario], FixedPolicy()).run(SECONDS)
    return figures(simulation, since=SECONDS / 2, until=SECONDS)


@pytest.mark.parametrize("scenario", ["one-near", "one-10ms", "one-50ms"])
def test_a_publisher_at_any_distance_has_the_rate_of_the_queue(scenario: str):
    assert adaptive(scenario).rate >= 0.95 * 100_000


def test_many_near_publishers_do_not_make_a_queue():
    found = adaptive("hundred-1ms")
    assert found.rate >= 0.95 * 100_000
    assert found.p99 <= 0.010
    assert found.fairness >= 0.95
    assert fixed("hundred-1ms").p99 > 0.2


def test_a_far_publisher_has_its_share_beside_near_ones():
    found = adaptive("near-and-far")
    near, far = sum(found.rates[:9]) / 9, found.rates[9]
    assert far >= 0.6 * near
    assert found.p99 <= 0.010


def test_more_publishers_than_messages_take_turns():
    found = adaptive("hundred-slow")
    assert found.rate >= 0.95 * 1000
    assert found.fairness >= 0.95
    assert found.p99 <= 0.1


def test_a_publisher_that_waits_for_the_disk_sends_more_meanwhile():
    assert adaptive("one-sync-50ms").rate >= 20 * fixed("one-sync-50ms").rate


@pytest.mark.parametrize("scenario", ["weights-10ms", "weights-50ms", "weights-in-turns"])
def test_links_have_the_share_of_their_weight(scenario: str):
    simulated = read()[scenario]
    found = figures(Simulation(simulated, AdaptivePolicy()).run(2 * SECONDS), since=SECONDS, until=2 * SECONDS)
    weights = [spec.weight for spec in simulated.publishers for _ in range(spec.number)]
    assert set(weights) == {1, 3}
    mean = found.rate / sum(weights)
    for rate, weight in zip(found.rates, weights, strict=True):
        assert rate / weight == pytest.approx(mean, rel=0.05)


@settings(max_examples=8)
@given(st.lists(st.integers(min_value=1, max_value=10), min_size=40, max_size=60))
def test_links_that_take_turns_have_the_share_of_their_weight(weights: list[int]):
    publishers = [PublisherSpec(0.001, weight=weight) for weight in weights]
    scenario = Scenario("weights", publishers, QueueSpec([20.0 * sum(weights)]))
    found = figures(Simulation(scenario, AdaptivePolicy()).run(2 * SECONDS), since=SECONDS, until=2 * SECONDS)
    mean = found.rate / sum(weights)
    for rate, weight in zip(found.rates, weights, strict=True):
        assert rate / weight == pytest.approx(mean, rel=0.05), "up to three turns of sixty"


def test_a_queue_whose_syncs_become_slower_is_kept_busy():
    """Each sync takes ten times as long from the third second on, and is as short as before from the sixth on."""
    simulation = Simulation(read()["sync-step"], AdaptivePolicy()).run(7.0)
    for begin in (1.0, 3.1, 6.1):
        messages = sum(one.messages for one in simulation.confirms if begin <= one.at < begin + 0.9)
        assert messages >= 0.95 * 100_000 * 0.9


def test_a_busy_queue_does_not_become_longer_by_and_by():
    """What a confirm takes by itself is measured again while a queue stands before it: without that, it would take a
    hundred milliseconds after half a minute."""
    simulation = Simulation(read()["hundred-sync-2ms"], AdaptivePolicy()).run(40.0)
    assert figures(simulation, since=25.0, until=40.0).p99 <= 0.025
    assert figures(simulation, since=25.0, until=40.0).rate >= 0.95 * 50_000


def test_a_queue_whose_speed_varies_is_not_taken_for_slow_syncs():
    """Its speed changes each tenth of a second at random. A queue that becomes slower while windows shrink confirms
    less, as one whose syncs are slow does."""
    chance = random.Random(2)
    rates = [chance.choice((20_000.0, 10_000.0, 5_000.0, 1_000.0)) for _ in range(200)]
    scenario = Scenario("varying", [PublisherSpec(0.001, number=10)], QueueSpec(rates, step=0.1))
    simulation = Simulation(scenario, AdaptivePolicy(), 2).run(10.0)
    assert figures(simulation, since=5.0, until=10.0).p99 <= 0.05


def test_a_turn_is_over_with_its_last_message():
    fair = FairRate()
    link = PublisherWindow(fair, 0.0)
    turn = fair.begin_turn(link, 100, 0.0)
    assert not fair.came(turn, 1)
    assert fair.awaited == 99
    assert fair.came(turn, 120)
    assert (fair.awaited, turn.link) == (0, None)
