"""Heads of batches that are put in parts."""

import pytest

from core.cluster.parts import decoded_head, encoded_head
from core.engine.quorum.batches import OrderEnd, encoded


@pytest.mark.parametrize(("size", "parts"), [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3)])
def test_a_head_says_how_many_parts_there_are(size, parts):
    head = decoded_head(encoded_head(bytes(size), 7, 10))
    assert head is not None
    assert (head.epoch, head.parts) == (7, parts)


def test_heads_are_the_same_only_for_the_same_bytes():
    assert encoded_head(b"a" * 30, 7, 10) != encoded_head(b"b" * 30, 7, 10)
    assert encoded_head(b"a" * 30, 7, 10) != encoded_head(b"a" * 30, 8, 10)


def test_a_batch_is_no_head():
    assert decoded_head(encoded(1, 1, OrderEnd(), [b""]).data) is None
    assert decoded_head(b"") is None
    assert decoded_head(encoded_head(b"a", 1, 10)[:-1]) is None
