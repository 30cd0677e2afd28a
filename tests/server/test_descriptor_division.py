"""How descriptors are divided between sockets and files."""

from hypothesis import given
from hypothesis import strategies as st

from core.server.connections import REFUSALS_MAX
from core.server.descriptors import FILES_MIN, OWN, files_allowed, sockets_allowed


def test_row_0_26_sockets_get_nine_tenths_less_two():
    assert sockets_allowed(924) == 829
    assert sockets_allowed(1024) == 919
    assert sockets_allowed(1) == 0


@given(total_limit=st.integers(16, 2**30))
def test_row_0_26_the_formula(total_limit: int):
    assert sockets_allowed(total_limit) == (total_limit * 9 - 20) // 10


@given(total_limit=st.integers(0, 2**20), sockets_used=st.integers(0, 2**20), more=st.integers(0, 1000))
def test_row_0_26_files_shrink_as_sockets_grow(total_limit: int, sockets_used: int, more: int):
    allowed = files_allowed(total_limit, sockets_used)
    assert FILES_MIN <= files_allowed(total_limit, sockets_used + more) <= allowed
    assert allowed == FILES_MIN or allowed + sockets_used + REFUSALS_MAX + OWN == total_limit


def test_row_0_26_one_file_less_for_each_socket():
    assert [files_allowed(1024, sockets) for sockets in (0, 1, 500, 919, 2000)] == [936, 935, 436, 17, FILES_MIN]
