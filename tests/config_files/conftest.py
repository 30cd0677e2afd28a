"""Tests that need Debian's ``prometheus`` are skipped where it is not installed, and the summary says so."""

import shutil

import pytest


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of promtool, Prometheus' own checker."""
    return _installed("promtool")


@pytest.fixture(scope="session")
def prometheus_program() -> str:
    """The path of the Prometheus server."""
    return _installed("prometheus")


def _installed(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"not installed: {program} (apt-get install prometheus; see .ci/packages)")
    return found
