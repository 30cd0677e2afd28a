"""The file with the order of changes: numbers without gaps, the state, and what a start finds."""

import pytest

from core.store.errors import StoreDamaged
from core.store.order_database import OrderDatabase


def test_a_change_is_put_only_with_the_next_number(tmp_path):
    database = OrderDatabase(tmp_path / "order.db", kept=10, identity="first")
    assert database.put(1, b"first", [(b"a", b"", b"1"), (b"b", b"", b"1")])
    assert not database.put(1, b"another", [(b"a", b"", b"lost")])
    assert not database.put(3, b"too early", [])
    assert database.put(2, b"second", [(b"a", b"", b"2"), (b"b", b"", None)])
    assert database.changes(0, 10) == [(1, b"first"), (2, b"second")]
    assert database.changes(1, 10) == [(2, b"second")]
    assert database.state() == (2, [(b"a", b"2", 1, 2)])
    database.close()


def test_a_range_is_deleted_and_old_changes_are_cut_away(tmp_path):
    database = OrderDatabase(tmp_path / "order.db", kept=2, identity="first")
    for number, key in enumerate((b"x/1", b"x/2", b"y"), start=1):
        assert database.put(number, key, [(key, b"", b"value")])
    assert database.put(4, b"gone", [(b"x/", b"x0", None)])
    assert [one.key for one in database.state()[1]] == [b"y"]
    assert database.changes(0, 10) == [], "a node that needs these reads the state"
    assert [number for number, _ in database.changes(2, 10)] == [3, 4]
    database.close()


def test_the_next_start_finds_everything(tmp_path):
    path = tmp_path / "order.db"
    database = OrderDatabase(path, kept=10, identity="first")
    database.put(1, b"first", [(b"a", b"", b"1")])
    database.close()
    again = OrderDatabase(path, kept=10, identity="second")
    assert (again.identity, again.latest, again.state()[1][0].value) == ("first", 1, b"1")
    again.close()


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "order.db"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreDamaged, match=r"order\.db is damaged"):
        OrderDatabase(path, kept=10, identity="first")
