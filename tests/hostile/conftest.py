"""Every attack happens in an arena and ends with the same checks.

The bystander was not disturbed, no message is lost, and nothing that the attackers made is left.
"""

from collections.abc import Iterator

import pytest

from tests.kit.hostile import Arena


@pytest.fixture
def arena() -> Iterator[Arena]:
    """A broker to attack."""
    arena = Arena()
    yield arena
    arena.finish()
