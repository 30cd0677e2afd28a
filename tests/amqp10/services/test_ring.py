"""Which host gets a key: the same for every caller, evenly spread, and stable when hosts come and go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.services import HostRing

HOSTS = st.sets(st.text("abc012-.", min_size=1, max_size=6), min_size=1, max_size=8)
KEYS = [f"user{number}" for number in range(60)]


@given(HOSTS, st.text("abc012-.", min_size=1, max_size=6))
def test_row_0_7_when_a_host_comes_only_what_it_has_now_has_moved(hosts, new):
    before, after = HostRing(hosts - {new}), HostRing(hosts | {new})
    for key in KEYS if before.hosts else []:
        assert after.host_of(key) in (before.host_of(key), new)


@given(HOSTS, st.data())
def test_when_a_host_goes_only_its_keys_move(hosts, data):
    gone = data.draw(st.sampled_from(sorted(hosts)))
    before, after = HostRing(hosts), HostRing(hosts - {gone})
    for key in KEYS if after.hosts else []:
        if before.host_of(key) != gone:
            assert after.host_of(key) == before.host_of(key)


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1), st.randoms())
def test_the_order_of_the_hosts_does_not_matter(hosts, random):
    shuffled = list(hosts)
    random.shuffle(shuffled)
    assert [HostRing(hosts).host_of(key) for key in KEYS] == [HostRing(shuffled).host_of(key) for key in KEYS]


def test_shares_are_even_within_a_tenth():
    ring = HostRing(f"host{number}" for number in range(5))
    keys = [ring.host_of(f"key{number}") for number in range(10_000)]
    assert all(1800 <= keys.count(host) <= 2200 for host in ring.hosts)


def test_the_answer_is_the_same_in_every_version():
    """Hosts of two versions must agree. The first version computed these values."""
    ring = HostRing(["host1", "host2", "host3"])
    assert [ring.host_of(f"user{number}") for number in range(6)] == [
        "host2", "host3", "host1", "host1", "host2", "host1",
    ]  # fmt: skip


def test_without_hosts_there_is_no_answer():
    with pytest.raises(ValueError, match="without hosts"):
        HostRing([]).host_of("key")
