"""The conformance table: every case of the list, its state, and the tests that show it.

``python -m tests.conformance.table`` writes ``docs/protocol/conformance.md`` from ``cases.toml`` and the marks on the
tests. A test checks that the page is fresh.
"""

import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kit.cases import marked_tests

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "conformance" / "cases.toml"
PAGE = ROOT / "docs" / "protocol" / "conformance.md"

DONE, LATER, NOT_PLANNED = "done", "later", "not planned"
STATUSES = (DONE, LATER, NOT_PLANNED)

Tests = Mapping[tuple[str, str], Sequence[str]]
"""The tests by suite and case: ``path::function`` of those that are marked with the case."""

INTRODUCTION = """\
# Conformance

The cases of other brokers' test suites and of the documents on flow control, and the tests of this project that show
each case. `python -m tests.conformance.table` writes this page from `tests/conformance/cases.toml` and the marks on the
tests; a test checks that it is up to date. **FC** marks cases about flow control: link credit, session windows, drain,
echo, available, back-pressure.

The lists are those of RabbitMQ 4.4 (parts C1 to C7), of Qpid Broker-J 11's protocol tests (C8), of cases that neither
has (C9), of the points where RabbitMQ departs from the specification (B13), and of the rows on AMQP 1.0 flow control
in the documents (row). A case that RabbitMQ runs for each of its queue types counts once for each type. Cases that need
several nodes are shown with a queue that is stalled by its stage, if that shows the same.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One case of the list."""

    suite: str
    name: str
    flow_control: bool
    status: str
    reason: str
    """Why the case is not done, or not done yet; "" for a case that is done."""
    shown_by: str
    """A test elsewhere that has no mark: ``path::function``, or ``path`` when the function is named after the case."""

    @property
    def label(self) -> str:
        """How the docstring of a test names the case."""
        if self.suite == "engine":
            return f"row {self.name}"
        return f"{'[FC] ' if self.flow_control else ''}{self.name} ({self.suite})"

    @property
    def shown_elsewhere(self) -> str | None:
        """The unmarked test that shows the case, as ``path::function``."""
        if not self.shown_by:
            return None
        return self.shown_by if "::" in self.shown_by else f"{self.shown_by}::test_{self.name}"


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite of the list, with its cases."""

    name: str
    part: str
    origin: str
    cases: Sequence[Case]


def load_suites() -> list[Suite]:
    """The whole list, in the order of the file."""
    with CASES.open("rb") as file:
        content = tomllib.load(file)
    return [
        Suite(
            suite["name"],
            suite["part"],
            suite["origin"],
            [_case(suite["name"], name, group) for group in suite["cases"] for name in group["names"]],
        )
        for suite in content["suite"]
    ]


def _case(suite: str, name: str, group: Mapping[str, object]) -> Case:
    status = LATER if "later" in group else NOT_PLANNED if "not_planned" in group else DONE
    reason = group.get("later") or group.get("not_planned") or ""
    return Case(
        suite,
        name,
        flow_control=bool(group.get("flow_control")),
        status=status,
        reason=str(reason),
        shown_by=str(group.get("shown_by", "")),
    )


def load_tests() -> Tests:
    """The marked tests, by what they are marked with."""
    tests: dict[tuple[str, str], list[str]] = defaultdict(list)
    for marked in marked_tests(ROOT):
        tests[marked.suite, marked.name].append(f"{marked.path}::{marked.function}")
    return tests


def render(suites: Sequence[Suite], tests: Tests) -> str:
    """Write the text of the page."""
    lines = [INTRODUCTION, "## Counts", "", "| part | suite | from | cases | done | later | not planned |"]
    lines.append("|---|---|---|---|---|---|---|")
    lines += [f"| {suite.part} | {suite.name} | {suite.origin} | {_counts(suite.cases)} |" for suite in suites]
    everything = [case for suite in suites for case in suite.cases]
    lines.append(f"| | **all** | | {_counts(everything)} |")
    lines.append(f"| | of these FC | | {_counts([case for case in everything if case.flow_control])} |")
    for suite in suites:
        lines += ["", f"## {suite.name}", "", "| case | | status | shown by, or reason |", "|---|---|---|---|"]
        lines += [_row(case, tests) for case in suite.cases]
    return "\n".join(lines) + "\n"


def _counts(cases: Sequence[Case]) -> str:
    counted = Counter(case.status for case in cases)
    return " | ".join(str(number) for number in (len(cases), *(counted[status] for status in STATUSES)))


def _row(case: Case, tests: Tests) -> str:
    shown = list(tests.get((case.suite, case.name), ()))
    if case.shown_elsewhere is not None:
        shown.append(case.shown_elsewhere)
    told = case.reason or "<br>".join(f"`{test.removeprefix('tests/')}`" for test in shown)
    return f"| {case.name} | {'FC' if case.flow_control else ''} | {case.status} | {told} |"


def main() -> None:
    """Write the page."""
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(render(load_suites(), load_tests()), encoding="utf-8")


if __name__ == "__main__":
    main()
