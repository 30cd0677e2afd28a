"""What services declare, and how the broker shows it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10.services import BadName, DeclaredDifferently, ServiceName
from amqp10.services.naming import EXCHANGE, GROUPS_EXCHANGE, HOST_CHARACTERS_MAX, TYPE_CHARACTERS_MAX, group_address
from tests.kit.services import Executed, together

pytestmark = pytest.mark.slow


async def test_row_0_2_one_topic_exchange_and_services_of_three_types_on_several_hosts(library):
    places = {("WEB", "host1"), ("WEB", "host2"), ("REPO", "host1"), ("REPO", "host2"), ("CTRL", "host1")}
    async with together() as kit:
        for place in sorted(places):
            await kit.open(*place)
        assert [one["type"] for one in kit.shown("exchanges") if one["name"] == EXCHANGE] == ["topic"]
        bindings = {
            (one["binding_key"], one["destination"]) for one in kit.shown("bindings") if one["source"] == EXCHANGE
        }
        keys = {place[0] for place in places} | {".".join(place) for place in places}
        assert bindings == {(key, key) for key in keys}


async def test_row_0_5_exactly_one_connection_with_one_session_and_three_links(library):
    async with together() as kit:
        service = await kit.open("REPO", "host1", Executed())
        await service.cast("REPO", "note", b"")
        (connection,) = kit.peers("connections")
        assert (connection["sessions"], connection["links"]) == (1, 3)
        links = {(one["direction"], one["address"]) for one in kit.peers("links")}
        assert links == {("in", "/exchanges/services/REPO"), ("out", "/queues/REPO"), ("out", "/queues/REPO.host1")}


async def test_row_0_6_one_consumer_of_a_host_and_many_of_a_type(library):
    async with together() as kit:
        await kit.hosts("REPO", 3)
        assert kit.queue("REPO")["consumers"] == 3
        assert [kit.queue(f"REPO.host{number}")["consumers"] for number in (1, 2, 3)] == [1, 1, 1]


async def test_a_second_process_of_the_same_name_waits(library):
    async with together() as kit:
        first, second = Executed("first"), Executed("second")
        await kit.open("REPO", "host1", first)
        await kit.open("REPO", "host1", second)
        web = await kit.open("WEB", "host1")
        for body in (b"1", b"2", b"3"):
            await web.call("REPO", "note", body, host="host1")
        assert (first.bodies, second.bodies) == ([b"1", b"2", b"3"], [])


async def test_row_0_13_what_exists_and_agrees_is_declared_again_without_effect(library):
    async with together() as kit:
        await kit.open("REPO", "host1")
        before = [kit.shown(kind) for kind in ("exchanges", "bindings")]
        await kit.open("REPO", "host1")
        assert [kit.shown(kind) for kind in ("exchanges", "bindings")] == before


async def test_what_exists_and_does_not_agree_is_told(library):
    async with together() as kit:
        await kit.open("REPO", "host1")
        with pytest.raises(DeclaredDifferently, match=r"the queue REPO exists.*x-max-length.*the same options"):
            await kit.open("REPO", "host2", type_queue_length_max=10)


@pytest.mark.parametrize(
    ("of_type", "host"),
    [("", "h"), ("A.B", "h"), ("A*", "h"), ("A", ""), ("A", "#"), ("A", "a/b"), ("A" * (TYPE_CHARACTERS_MAX + 1), "h"),
     ("A", "h" * (HOST_CHARACTERS_MAX + 1))],
)  # fmt: skip
def test_names_that_are_refused(of_type, host):
    with pytest.raises(BadName):
        ServiceName(of_type, host)


WORDS = st.text("abcXYZ019_-", min_size=1, max_size=8)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=3).map(".".join), WORDS, st.none() | WORDS)
def test_no_two_places_have_the_same_queue(of_type, host, other_type, other_host):
    one, other = ServiceName(of_type, host), ServiceName(other_type, other_host)
    assert (one.key == other.key) == (one == other)
    assert len(ServiceName("A" * TYPE_CHARACTERS_MAX, "h" * HOST_CHARACTERS_MAX).key) == 255


def test_the_address_of_a_group_is_no_pattern():
    assert group_address("CTRL") == f"/exchanges/{GROUPS_EXCHANGE}/CTRL.%2A"
    assert group_address(None) == f"/exchanges/{GROUPS_EXCHANGE}/%2A.%2A"
