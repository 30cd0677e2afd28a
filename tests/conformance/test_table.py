"""The conformance list and the tests agree, and the page in the documentation is written from them."""

import ast
import re
from collections import Counter

import pytest

from tests.conformance.table import DONE, PAGE, ROOT, Case, Suite, load_suites, load_tests, render
from tests.kit.cases import marked_tests

SUITES = load_suites()
CASES = {(case.suite, case.name): case for suite in SUITES for case in suite.cases}
TESTS = load_tests()

COUNTS = {
    # suite: cases, of these about flow control
    "amqp_client_SUITE": (162, 70),
    "amqp_address_SUITE": (21, 1),
    "amqp_auth_SUITE": (53, 0),
    "management_SUITE": (42, 3),
    "serial_number_SUITE": (7, 7),
    "transport.link.FlowTest": (12, 12),
    "messaging.TransferTest": (26, 1),
    "engine": (32, 0),
}


def of_origin(origin: str) -> list[Suite]:
    return [suite for suite in SUITES if suite.origin == origin]


def test_every_case_is_in_the_list_once():
    listed = [(case.suite, case.name) for suite in SUITES for case in suite.cases]
    assert [case for case, count in Counter(listed).items() if count > 1] == []
    assert len({suite.name for suite in SUITES}) == len(SUITES)


def test_the_list_is_as_long_as_the_suites_are():
    """The reference counts 489 cases of RabbitMQ and 175 of Qpid Broker-J; 120 of both are about flow control."""
    assert sum(len(suite.cases) for suite in of_origin("RabbitMQ")) == 489
    assert sum(len(suite.cases) for suite in of_origin("Qpid")) == 175
    both = of_origin("RabbitMQ") + of_origin("Qpid")
    assert sum(case.flow_control for suite in both for case in suite.cases) == 120
    for suite in SUITES:
        if suite.name in COUNTS:
            assert (len(suite.cases), sum(case.flow_control for case in suite.cases)) == COUNTS[suite.name]


def test_what_is_done_has_a_test_and_what_is_not_has_a_reason():
    for key, case in CASES.items():
        if case.status == DONE:
            assert bool(TESTS.get(key)) is not bool(case.shown_by), f"{key}: either marked tests or shown_by"
        else:
            assert case.reason, key
            assert key not in TESTS, f"{key} has a test: it is not {case.status} any more"


def test_every_mark_is_in_the_list():
    assert [key for key in TESTS if key not in CASES] == []


@pytest.mark.parametrize("case", [case for case in CASES.values() if case.shown_by], ids=lambda case: case.name)
def test_a_test_that_is_named_exists(case: Case):
    assert case.shown_elsewhere is not None
    path, function = case.shown_elsewhere.split("::")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert function in functions, case.shown_elsewhere


def test_the_docstring_of_a_marked_test_names_its_cases():
    begins_with_one: dict[str, bool] = {}
    for marked in marked_tests(ROOT):
        label = re.compile(re.escape(CASES[marked.suite, marked.name].label) + r"(?!\d)")
        told = " ".join(marked.docstring.split())
        test = f"{marked.path}::{marked.function}"
        assert label.search(told), f"{test} does not name {label.pattern}"
        begins_with_one[test] = begins_with_one.get(test, False) or label.match(told) is not None
    assert [test for test, begins in begins_with_one.items() if not begins] == []


def test_the_page_is_fresh():
    assert PAGE.read_text(encoding="utf-8") == render(SUITES, TESTS), "run: python -m tests.conformance.table"
