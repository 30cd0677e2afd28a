"""Which connections have changed since a reader looked, and that a reader may hear of those that go."""

from core.server.connections import Connections
from core.server.frontends import PeerInfo


def info(number: int) -> PeerInfo:
    return PeerInfo(f"c{number}", "127.0.0.1", 40_000 + number, "127.0.0.1", 5672)


def connections() -> Connections[object]:
    return Connections(connections_max=10, pending_max=10, pending_per_host_max=10)


def test_each_reader_gets_each_change_once():
    all_of_them = connections()
    first, second = all_of_them.changes(), all_of_them.changes()
    all_of_them.changed["c1"] = None
    assert first.take() == ["c1"]
    all_of_them.changed["c2"] = None
    assert second.take() == ["c1", "c2"]
    assert first.take() == ["c2"]
    assert (first.take(), second.take()) == ([], [])


def test_a_connection_that_goes_is_a_change_or_is_told_and_never_kept():
    all_of_them = connections()
    told: list[str] = []
    first, second = all_of_them.changes(), all_of_them.changes()
    second.gone = told.append
    all_of_them.came(object(), info(1))
    all_of_them.changed["c1"] = None
    first.take()
    all_of_them.changed["c1"] = None
    all_of_them.gone(info(1), established=False)
    assert told == ["c1"]
    assert (first.take(), second.take()) == (["c1"], [])


def test_without_readers_no_connection_that_has_gone_is_kept():
    all_of_them = connections()
    all_of_them.came(object(), info(1))
    all_of_them.changed["c1"] = None
    all_of_them.gone(info(1), established=False)
    assert not all_of_them.changed
