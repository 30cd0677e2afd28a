"""For all tests: how long property tests search, and what happens where another project's client is not installed.

Tests marked ``interop`` must not import a client at the top of their module: they are collected, counted and skipped
where the client is missing, and the summary says how many and why.
"""

import gc
import signal
from importlib.util import find_spec

import pytest
from hypothesis import settings

# Examples are the same in every run, so that a change is to blame for a failure; the long profile looks for new ones.
settings.register_profile("default", derandomize=True, deadline=None)
settings.register_profile("long", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("default")

# A shell that starts us in the background has us ignore SIGINT, and what a test interrupts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

GARBAGE_THRESHOLDS = (10_000, 20, 50)
"""Python's own are (700, 10, 10). Looking for garbage that often costs a seventh of the processor time of the tests."""

CLIENTS = {"proton": "python-qpid-proton", "rabbitmq_amqp_python_client": "rabbitmq-amqp-python-client"}
MISSING = [package for module, package in CLIENTS.items() if find_spec(module) is None]
REASON = f"not installed: {', '.join(MISSING)}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run."""
    if MISSING:
        for item in items:
            if item.get_closest_marker("interop") is not None:
                item.add_marker(pytest.mark.skip(reason=REASON))


def pytest_collection_finish() -> None:
    """Modules and collected tests stay to the end: never look for garbage among them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what is missing and how many tests that costs."""
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if REASON in str(report.longrepr)]
    if MISSING and skipped:
        terminalreporter.write_line(f"{len(skipped)} tests skipped; {REASON} (see .ci/packages)")
