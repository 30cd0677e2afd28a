"""The files of ``config/`` that watch a broker, as far as tests must understand them: expressions, and what they name.

The tests have no reader of YAML and need none: each rule has its expression on one line, and promtool checks that
Prometheus understands the file.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.observe.metric_families import FAMILIES, ON_DEMAND, Family, MetricType

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config"
PROMETHEUS = CONFIG / "prometheus"
SCRAPE_FILE = PROMETHEUS / "prometheus.yml"
RULES_FILE = PROMETHEUS / "alerts.yml"
DASHBOARD_FILE = CONFIG / "grafana" / "headgate.json"

BY_NAME: dict[str, Family[Any]] = {family.name: family for family in (*FAMILIES, *ON_DEMAND)}
ADDED_BY_PROMETHEUS = frozenset({"instance", "job"})
MADE_BY_PROMETHEUS = "up"
METRIC = re.compile(r"\b((?:headgate|rabbitmq)_\w+)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\b(?:by|on|ignoring|without|group_left|group_right) ?\(([^)]*)\)")
HISTOGRAM_SERIES = re.compile(r"_(bucket|sum|count)$")


@dataclass(frozen=True, slots=True)
class Rule:
    """One alert."""

    name: str
    expression: str
    severity: str
    lasting: str
    """How long the expression must hold: the rule's ``for``, or 0s."""
    summary: str
    description: str
    runbook: str


def rules() -> list[Rule]:
    """The alerts, in the order of the file."""
    parts = re.split(r"(?=- alert: )", RULES_FILE.read_text(encoding="utf-8"))
    return [_rule(part) for part in parts[1:]]


def _rule(text: str) -> Rule:
    def field(name: str, default: str = "") -> str:
        found = re.search(rf"^(?: *|- ){name}: '?(.*?)'?$", text, re.MULTILINE)
        return default if found is None else found[1]

    return Rule(
        name=field("alert"),
        expression=field("expr"),
        severity=field("severity"),
        lasting=field("for", "0s"),
        summary=field("summary"),
        description=field("description"),
        runbook=field("runbook_url"),
    )


def dashboard() -> dict[str, Any]:
    """The dashboard, as Grafana reads it."""
    read: dict[str, Any] = json.loads(DASHBOARD_FILE.read_text(encoding="utf-8"))
    return read


def panels() -> list[dict[str, Any]]:
    """The panels of the dashboard, without the headings above them."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def expressions_of(panel: dict[str, Any]) -> list[str]:
    """The expressions that a panel asks of Prometheus, with Grafana's variables filled in."""
    fillings = {"$__rate_interval": "1m", "$instance": ".*"}
    pattern = re.compile("|".join(map(re.escape, fillings)))
    return [pattern.sub(lambda found: fillings[found[0]], target["expr"]) for target in panel["targets"]]


def family_of(series: str) -> Family[Any] | None:
    """The family of a series. A histogram has only series with an ending; the others have none."""
    plain, histogram = BY_NAME.get(series), BY_NAME.get(HISTOGRAM_SERIES.sub("", series))
    if plain is not None and plain.type is not MetricType.HISTOGRAM:
        return plain
    return histogram if histogram not in (None, plain) and histogram.type is MetricType.HISTOGRAM else None


def families_in(expression: str) -> set[str]:
    """The names of the families that an expression reads; those that do not exist are left out."""
    found = (family_of(series) for series, _ in METRIC.findall(expression))
    return {family.name for family in found if family is not None}


def offences_of(expression: str) -> Iterator[str]:
    """The series in an expression that no scrape brings, and the labels that its series do not have."""
    labels_of_all: set[str] = set()
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    for series, selectors in METRIC.findall(bare):
        family = family_of(series)
        if family is None:
            yield f"there is no {series}"
            continue
        labels = {*family.labels, *ADDED_BY_PROMETHEUS, *({"le"} if series.endswith("_bucket") else ())}
        labels_of_all |= labels
        yield from (f"{series} has no label {label}" for label in sorted(_words(selectors) - labels))
    for grouped in GROUPING.findall(bare):
        yield from (f"no series here has the label {label}" for label in sorted(_words(grouped) - labels_of_all))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))
