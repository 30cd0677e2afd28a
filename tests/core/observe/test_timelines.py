"""Time lines: one value for each second of the last five minutes, and the rates and blocked times computed from
them."""

from collections.abc import Collection, Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from core.clock import Now
from core.flow_facts import StallSubject
from core.interface import FlowReason, Snapshot
from core.observe.stalls import BlockedLabels, Stall
from core.observe.timelines import CONNECTIONS_SEARCHED, SAMPLES, Timelines


class World:
    """Rows, stalls and a clock that tests change."""

    def __init__(self, things_max: int = 10) -> None:
        self.rows: dict[str, list[Snapshot]] = {"links": [], "sessions": [], "channels": [], "queues": []}
        self.rows_made = 0
        self.ever: dict[str, None] = {}
        self.named: list[str] | None = None
        """The connections that have changed; None for all."""
        self.stalls: list[Stall] = []
        self.now = Now(0.0, 1_000_000.0)
        self.timelines = Timelines(
            connections=lambda: self.connections,
            changed=self.changed,
            rows={kind: lambda names, kind=kind: self.some(kind, names) for kind in self.rows},
            stalls=lambda: self.stalls,
            clock=lambda: self.now,
            things_max=things_max,
        )

    @property
    def connections(self) -> list[str]:
        rows = (row for kind in ("links", "sessions", "channels") for row in self.rows[kind])
        return list(dict.fromkeys(str(row["identity"]).partition("/")[0] for row in rows))

    def changed(self) -> list[str]:
        """All connections, those included that have gone; or those that a test has named."""
        if self.named is not None:
            return self.named
        self.ever |= dict.fromkeys(self.connections)
        return list(self.ever)

    def some(self, kind: str, connections: Collection[str]) -> Iterator[Sequence[Snapshot]]:
        for row in self.rows[kind]:
            if kind == "queues" or str(row["identity"]).partition("/")[0] in connections:
                self.rows_made += 1
                yield [row]

    def link(self, identity: str, **figures: object) -> Snapshot:
        row: Snapshot = {"identity": identity, "connection": "c1", "link_credit": 5, "delivery_count": 0, **figures}
        self.rows["links"].append(row)
        return row

    def block(self, identity: str) -> None:
        who = StallSubject(
            identity=identity, connection="c1", peer="", container_id="", user="", direction="in", address="q"
        )
        self.stalls.append(Stall(who, BlockedLabels("q", "in", FlowReason.QUEUE_FULL), "queue q", self.now))

    def pass_time(self, seconds: float = 1.0) -> None:
        self.now = Now(self.now.monotonic + seconds, self.now.wall + seconds)
        for _ in self.timelines.sample():
            pass

    def series(self, identity: str, name: str, kind: str = "links") -> list[float | None]:
        lines = self.timelines.times_and_series(kind, identity)
        assert lines is not None
        series = lines["series"]
        assert isinstance(series, dict)
        assert len(series[name]) == len(lines["times"])
        return series[name]


def test_a_link_has_a_value_for_each_second_since_it_came():
    world = World()
    world.pass_time()
    row = world.link("c1/0/0", unconfirmed=1)
    for credit in (7, 8, 9):
        row["link_credit"] = credit
        world.pass_time()
    lines = world.timelines.times_and_series("links", "c1/0/0")
    assert lines is not None
    assert lines["times"] == [1_000_002.0, 1_000_003.0, 1_000_004.0]
    assert world.series("c1/0/0", "link_credit") == [7, 8, 9]
    assert set(lines["series"]) == {"link_credit", "unconfirmed", "rate", "blocked"}


def test_a_link_with_adaptive_flow_control_has_its_window_too():
    world = World()
    world.pass_time()
    row = world.link("c1/0/0", window=170, round_trip_ms=0.0, used_per_second=0, share_per_second=None)
    world.link("c1/0/1", window=None, round_trip_ms=None, used_per_second=None, share_per_second=None)
    world.pass_time()
    row |= {"window": 64, "round_trip_ms": 2.5, "share_per_second": 1000}
    world.pass_time()
    assert world.series("c1/0/0", "window") == [170, 64]
    assert world.series("c1/0/0", "round_trip_ms") == [0.0, 2.5]
    assert world.series("c1/0/0", "share_per_second") == [None, 1000]
    lines = world.timelines.times_and_series("links", "c1/0/1")
    assert lines is not None
    assert "window" not in lines["series"]


def test_only_the_last_five_minutes_are_kept():
    world = World()
    row = world.link("c1/0/0")
    for second in range(SAMPLES + 50):
        row["link_credit"] = second
        world.pass_time()
    assert world.series("c1/0/0", "link_credit") == list(range(50, SAMPLES + 50))


def test_what_is_being_sampled_is_not_seen_yet():
    world = World()
    row = world.link("c1/0/0")
    for number in range(300):
        world.link(f"c2/0/{number}")
    world.timelines = Timelines(
        connections=lambda: world.connections,
        changed=lambda: world.connections,
        rows={"links": lambda names: world.some("links", names)},
        stalls=list,
        clock=lambda: world.now,
        things_max=1000,
    )
    for _ in range(SAMPLES + 5):
        world.pass_time()
    row["link_credit"] = 99
    sample = world.timelines.sample()
    next(sample)
    assert 99 not in world.series("c1/0/0", "link_credit")
    assert len(world.series("c1/0/0", "link_credit")) == SAMPLES
    assert list(sample) == [None] * 2
    assert world.series("c1/0/0", "link_credit")[-1] == 99


def test_what_has_gone_is_forgotten():
    world = World()
    world.link("c1/0/0")
    world.pass_time()
    world.rows["links"].clear()
    world.pass_time()
    assert world.timelines.times_and_series("links", "c1/0/0") is None
    assert world.timelines.rate("links", "c1/0/0") == 0.0


def test_new_things_on_many_connections_are_found_in_turn_and_known_ones_are_always_met():
    world = World(things_max=2000)
    for number in range(2 * CONNECTIONS_SEARCHED + 10):
        world.link(f"c{number}/0/0", connection=f"c{number}")
    made = []
    for _ in range(5):
        world.rows_made = 0
        world.pass_time()
        made.append(world.rows_made)
    assert made == [CONNECTIONS_SEARCHED, 2 * CONNECTIONS_SEARCHED, *[2 * CONNECTIONS_SEARCHED + 10] * 3]
    assert len(world.series("c0/0/0", "link_credit")) == 5
    assert len(world.series(f"c{CONNECTIONS_SEARCHED}/0/0", "link_credit")) == 4


def test_a_sample_looks_at_no_more_connections_when_all_time_lines_are_taken():
    world = World(things_max=2)
    for number in range(20):
        world.link(f"c{number}/0/0", connection=f"c{number}")
    world.pass_time()
    world.rows_made = 0
    world.pass_time()
    assert world.rows_made == 2


def test_the_first_things_have_time_lines_and_the_others_have_none():
    world = World(things_max=2)
    for number in range(4):
        world.link(f"c1/0/{number}")
    world.pass_time()
    kept = [world.timelines.times_and_series("links", f"c1/0/{number}") is not None for number in range(4)]
    assert kept == [True, True, False, False]


def test_nothing_is_kept_where_nothing_may_be():
    world = World(things_max=0)
    world.link("c1/0/0")
    world.pass_time()
    assert world.timelines.times_and_series("links", "c1/0/0") is None


def test_a_rate_is_what_the_counter_grew_by_in_the_time_that_passed():
    world = World()
    row = world.link("c1/0/0", delivery_count=2**32 - 10)
    world.pass_time()
    row["delivery_count"] = 10
    world.pass_time(2.0)
    assert world.series("c1/0/0", "rate") == [None, 10.0]
    assert world.timelines.rate("links", "c1/0/0") == 10.0


def test_the_blocked_share_is_that_of_the_last_minute():
    world = World()
    world.link("c1/0/0")
    for _ in range(100):
        world.pass_time()
    world.block("c1/0/0")
    for _ in range(15):
        world.pass_time()
    assert world.timelines.blocked_share("links", "c1/0/0") == 0.25
    assert world.series("c1/0/0", "blocked")[-16:] == [0.0] + [1.0] * 15


def test_a_channel_is_blocked_with_its_connection():
    world = World()
    world.rows["channels"].append({"identity": "c1/1", "connection": "c1", "published": 0, "unconfirmed": 0})
    world.block("c1")
    world.pass_time()
    assert world.series("c1/1", "blocked", "channels") == [1.0]


def test_a_queue_is_known_by_its_name():
    world = World()
    row: Snapshot = {"name": "q", "messages_ready": 3, "published": 5, "delivered": 0, "accepted": 0}
    world.rows["queues"].append(row)
    world.pass_time()
    world.rows["queues"][0] = {**row, "messages_ready": 4, "published": 6}
    world.pass_time()
    assert world.series("q", "messages_ready", "queues") == [3, 4]
    assert world.series("q", "publish_rate", "queues") == [None, 1.0]


@given(st.lists(st.sets(st.integers(0, 5)), max_size=30))
def test_all_series_of_a_thing_are_as_long_as_its_times(there: list[set[int]]):
    world = World(things_max=4)
    for present in there:
        world.rows["links"] = []
        for number in sorted(present):
            world.link(f"c1/0/{number}", waiting=number)
        world.pass_time()
    present = there[-1] if there else set()
    for number in range(6):
        lines = world.timelines.times_and_series("links", f"c1/0/{number}")
        assert (lines is not None) == (number in sorted(present)[:4])
        if lines is not None:
            assert {len(series) for series in lines["series"].values()} == {len(lines["times"])}
            assert set(lines["series"]["waiting"]) == {float(number)}


def test_idle_connections_are_not_looked_at_and_their_lines_go_on():
    world = World()
    row = world.link("c1/0/0", delivery_count=5)
    world.link("c2/0/0", connection="c2")
    world.pass_time()
    row["delivery_count"] = 25
    world.pass_time()
    world.named = []
    world.rows_made = 0
    for _ in range(2):
        world.pass_time()
    assert world.rows_made == 0
    assert world.series("c1/0/0", "rate") == [None, 20.0, 0.0, 0.0]
    assert world.series("c1/0/0", "link_credit") == [5] * 4
    world.pass_time()
    world.named = ["c1"]
    row |= {"delivery_count": 26, "link_credit": 4}
    world.pass_time()
    assert world.rows_made == 1
    assert world.series("c1/0/0", "rate") == [None, 20.0, 0.0, 0.0, 0.0, 1.0]
    assert world.series("c1/0/0", "link_credit") == [5] * 5 + [4]
    world.named = []
    world.block("c2/0/0")
    world.pass_time()
    assert world.series("c2/0/0", "blocked")[-2:] == [0.0, 1.0]
    for _ in range(SAMPLES + 5):
        world.pass_time()
    assert world.series("c2/0/0", "blocked") == [1.0] * SAMPLES
    assert world.series("c1/0/0", "rate") == [0.0] * SAMPLES


def test_things_without_time_lines_get_them_when_there_is_room_again():
    world = World(things_max=1)
    world.link("c1/0/0")
    world.link("c2/0/0", connection="c2")
    world.pass_time()
    world.named = []
    del world.rows["links"][0]
    world.pass_time()
    assert world.timelines.times_and_series("links", "c2/0/0") is None
    world.named = ["c1"]
    world.pass_time()
    world.named = []
    world.pass_time()
    assert len(world.series("c2/0/0", "link_credit")) == 1
