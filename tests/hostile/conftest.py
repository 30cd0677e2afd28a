"""Every attack happens in an arena, and ends with the same proof: the bystander was not disturbed, nothing is lost and
nothing of the attackers is left."""

from collections.abc import Iterator

import pytest

from tests.kit.hostile import Arena


@pytest.fixture
def arena() -> Iterator[Arena]:
    """A broker to attack."""
    arena = Arena()
    yield arena
    arena.finish()
