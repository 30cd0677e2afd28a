"""The fair rate of a target and the windows of its links: arithmetic, and what it does in the simulation."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.flow.fair_rate import START_UNCONFIRMED_MAX, WINDOW_MAX, WINDOW_START, FairRate, PublisherWindow, Windowed
from bench.flow_simulation.__main__ import Figures, figures, read
from bench.flow_simulation.model import Simulation
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

    def send(self, at: int, messages: int) -> None:
        link = self.windows[at % self.number]
        messages = min(messages, link.link_credit)
        if messages:
            link.received(messages, self.now)
        self.granted(link)

    def confirm(self, at: int, messages: int) -> None:
        link = self.windows[at % self.number]
        messages = min(messages, link.unconfirmed)
        if messages:
            link.confirmed(messages, 0.001)
        self.turn()
        self.granted(link)
        self.turn()

    def turn(self) -> None:
        for link in self.fair.turn(self.now, unconfirmed=sum(link.unconfirmed for link in self.windows)):
            assert link.called(self.now) == 1

    def granted(self, link: PublisherWindow) -> None:
        granted = link.top_up(self.now)
        assert granted >= 0
        if granted:
            assert link.link_credit + link.unconfirmed == link.size


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "confirm"]),
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
        (links.send if step == "send" else links.confirm)(at, messages)
        for link in links.windows:
            assert 0 <= link.link_credit <= WINDOW_MAX
            assert link.unconfirmed >= 0
            assert 1 <= link.size <= WINDOW_MAX
    for _ in range(4 * number):  # each link that still has messages unconfirmed gets its outcomes, then its turn
        links.now += 0.01
        for at, link in enumerate(links.windows):
            links.send(at, link.link_credit)
            links.confirm(at, link.unconfirmed)
    sent = {at for at, link in enumerate(links.windows) if link.link_credit}
    for _ in range(4 * number):
        links.now += 0.01
        for at, link in enumerate(links.windows):
            if link.link_credit:
                sent.add(at)
                links.send(at, link.link_credit)
            links.confirm(at, link.unconfirmed)
    assert sent == set(range(number))


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
        link.close()
    assert PublisherWindow(links.fair, 0.0).size == WINDOW_START
    first, second = (PublisherWindow(links.fair, 0.0) for _ in range(2))
    links.fair.wait(first)
    links.fair.wait(second)
    first.close()
    assert links.fair.turn(1.0, unconfirmed=0) == [second]


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
