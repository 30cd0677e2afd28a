"""For all tests: how long property tests search, and what happens where another project's client is not installed.

Tests marked ``interop`` must not import a client at the top of their module: they are collected, counted and skipped
where the client is missing, and the summary says how many and why.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable
from compileall import compile_file
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import none

# An example may take long on a busy machine, and that is no fault of the code.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
# By default the examples are the same in every run, so a new failure comes from a change. The other profiles search new
# ones.
settings.register_profile("default", UNTIMED, derandomize=True)
settings.register_profile("ci", UNTIMED)
settings.register_profile("long", UNTIMED, max_examples=2000)
settings.load_profile("default")


@given(none())
def _first_property(_: None) -> None:
    """Has Hypothesis make its random numbers before a test freezes the garbage collector: it would find then that no
    object refers to them, and warn."""


# Many environments forbid Python to keep what it compiles. The processes of ``-n`` would compile everything each for
# itself, and each broker that a test starts would compile all that it imports, which takes two thirds of its start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell that starts this process in the background makes it ignore SIGINT, and processes that a test interrupts would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# ``nohup`` makes this process ignore SIGHUP, and brokers that a test starts would inherit that. A handler is not
# inherited, and one that does nothing lets this process go on as ``nohup`` asks.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)

pytest_plugins = ("tests.pyspark_amqp10.spark_fixtures",)
"""One Spark session serves the tests of two folders, so its fixtures are a plugin and not in a folder's conftest."""

# Python's own thresholds are (700, 10, 10). Looking for garbage that often takes a seventh of the processor time of the
# tests and of their collection.
gc.set_threshold(10_000, 20, 50)

CLIENTS = {"proton": "python-qpid-proton", "rabbitmq_amqp_python_client": "rabbitmq-amqp-python-client"}
MISSING = [package for module, package in CLIENTS.items() if find_spec(module) is None]
COVERED = "covered"
"""The property of a test's report that :func:`tell` sets."""
REASON = f"not installed: {', '.join(MISSING)}"


ROOT = Path(__file__).parents[1]
COMPILED = ("amqp10", "core", "bench", "pipeline", "pyspark_amqp10", "tests")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a new clone each process of ``-n`` compiles a part, and finds the other parts compiled.

    Compiling takes two thirds of the first collection. Test modules are compiled by their import, because pytest
    rewrites their assertions; so each process imports them from another place on, before all collect them in the same
    order. A module that cannot be imported is left for collection, which tells why.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    modules = [path for folder in COMPILED for path in sorted((ROOT / folder).rglob("*.py"))]
    tests = [path for path in modules if path.name.startswith("test_")]
    for path in sorted(set(modules) - set(tests))[number::count]:
        compile_file(path, quiet=2)
    asked = [ROOT / argument for argument in session.config.args]
    tests = [path for path in tests if any(path.is_relative_to(one) for one in asked)]
    start = len(tests) * number // count
    for path in tests[start:] + tests[:start]:
        with suppress(Exception, pytest.skip.Exception):
            import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that cannot run."""
    if MISSING:
        for item in items:
            if item.get_closest_marker("interop") is not None:
                item.add_marker(pytest.mark.skip(reason=REASON))


def pytest_collection_finish() -> None:
    """Modules and collected tests stay until the end, so the collector need not examine them."""
    _first_property()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What is left after a module stays until the end too: imported modules, caches, results. The collector would
    examine it again and again in the tests that follow."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[object], None]:
    """A function that notes what a test of kills or faults has covered, for the summary. With ``-n`` the words that a
    test prints are lost, because its process has no terminal."""
    return lambda covered: record_property(COVERED, str(covered))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what the tests of kills and faults have covered, which clients are missing and how many tests are skipped
    for it, and with which options a failed property test fails again."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, [])]
    covered = [(report.nodeid, text) for report in reports for name, text in report.user_properties if name == COVERED]
    if covered:
        terminalreporter.section("covered by kills and faults", sep="-")
    for test, text in sorted(covered):
        terminalreporter.write_line(test.rpartition("::")[2])
        for line in text.splitlines():
            terminalreporter.write_line(f"  {line.strip()}")
    profile, seed = (config.getoption(f"--hypothesis-{name}") for name in ("profile", "seed"))
    if seed is not None and terminalreporter.stats.get("failed"):
        again = f"--hypothesis-profile={profile or 'default'} --hypothesis-seed={seed}"
        terminalreporter.write_line(f"property tests try the same examples again, also one test alone, with {again}")
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if REASON in str(report.longrepr)]
    if MISSING and skipped:
        terminalreporter.write_line(f"{len(skipped)} tests skipped; {REASON} (see .ci/packages)")
