"""The last rows of a log: the newest first, numbered, and never more than allowed."""

from core.recent_rows import RecentRows


def test_the_newest_come_first_with_their_numbers():
    recent = RecentRows(3)
    for word in ("one", "two", "three", "four"):
        recent.add({"event": word})
    assert recent.newest(2) == [{"number": 4, "event": "four"}, {"number": 3, "event": "three"}]
    assert [row["number"] for row in recent.newest(100)] == [4, 3, 2]


def test_none_are_kept_where_none_are_wanted():
    recent = RecentRows(0)
    recent.add({"event": "one"})
    assert recent.newest(10) == []
