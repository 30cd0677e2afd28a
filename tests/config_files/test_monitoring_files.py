"""The scrape file, the alert rules and the dashboard: Prometheus takes them, and they name only what the broker has."""

import re
import subprocess
from pathlib import Path

import pytest

from core.observe import metric_families
from tests.kit.monitoring_files import (
    DASHBOARD_FILE,
    PROMETHEUS,
    ROOT,
    RULES_FILE,
    SCRAPE_FILE,
    Rule,
    dashboard,
    expressions_of,
    families_in,
    offences_of,
    panels,
    rules,
)

RULES = rules()
PANELS = panels()
ROWS = ["Flow", "Latency", "Depth and age", "Consumers", "Store", "Loop", "Limits and refusals"]
NOT_SHOWN = {"headgate_build_info"}
"""Families of ours that the dashboard need not show, because a version does not change over time."""


def checked(promtool: str, *words: str, folder: Path = PROMETHEUS) -> str:
    """The output of promtool. Fails when promtool finds an error."""
    done = subprocess.run([promtool, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rule_name(rule: Rule) -> str:
    return rule.name


def title(panel: dict) -> str:
    return panel["title"]


# --- Prometheus's own checks ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_prometheus_takes_the_scrape_file_with_its_rules(promtool: str):
    assert f"SUCCESS: {len(RULES)} rules found" in checked(promtool, "check", "config", SCRAPE_FILE.name)


@pytest.mark.slow
def test_prometheus_takes_the_scrape_file_with_a_token(promtool: str, tmp_path: Path):
    text = SCRAPE_FILE.read_text()
    commented = re.search(r"^    # authorization:\n    #   credentials_file: (.*)\n", text, re.MULTILINE)
    assert commented is not None
    (tmp_path / "token").write_text("a-token-for-a-test")
    with_token = commented[0].replace("# ", "").replace(commented[1], str(tmp_path / "token"))
    (tmp_path / SCRAPE_FILE.name).write_text(text.replace(commented[0], with_token))
    (tmp_path / RULES_FILE.name).write_text(RULES_FILE.read_text())
    checked(promtool, "check", "config", SCRAPE_FILE.name, folder=tmp_path)


@pytest.mark.slow
def test_every_alert_fires_and_clears(promtool: str):
    """The scenarios are in alerts_test.yml. A test below checks that there is one for each alert."""
    checked(promtool, "test", "rules", "alerts_test.yml")


@pytest.mark.slow
def test_prometheus_understands_every_question_of_the_dashboard(promtool: str, tmp_path: Path):
    asked = [expression for panel in PANELS for expression in expressions_of(panel)]
    recorded = [
        f"      - {{record: asked, expr: '{expression}', labels: {{n: '{n}'}}}}" for n, expression in enumerate(asked)
    ]
    (tmp_path / "asked.yml").write_text("\n".join(["groups:", "  - name: asked", "    rules:", *recorded]))
    assert f"{len(asked)} rules found" in checked(promtool, "check", "rules", "asked.yml", folder=tmp_path)


# --- the scrape file -------------------------------------------------------------------------------------------------


def test_what_is_scraped_is_where_the_admin_server_listens():
    assert re.findall(r"^ +- targets: (.*)$", SCRAPE_FILE.read_text(), re.MULTILINE) == ['["127.0.0.1:15692"]']
    assert 'listen = ["127.0.0.1:15692"]' in (ROOT / "config" / "broker.toml").read_text()


def test_the_rules_look_for_the_name_that_the_scrape_file_gives():
    assert re.findall(r"job_name: (.*)", SCRAPE_FILE.read_text()) == ["headgate"]
    assert {name for rule in RULES for name in re.findall(r'job="(\w+)"', rule.expression)} == {"headgate"}


# --- the alerts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=rule_name)
def test_an_alert_reads_what_the_broker_tells(rule: Rule):
    assert list(offences_of(rule.expression)) == []
    assert families_in(rule.expression) or rule.expression.startswith("up{")


@pytest.mark.parametrize("rule", RULES, ids=rule_name)
def test_an_alert_says_what_is_wrong_how_much_and_what_to_do(rule: Rule):
    assert rule.name.startswith("Headgate")
    assert rule.severity in ("critical", "warning")
    assert rule.summary
    assert "$value" in rule.description
    assert "$labels.instance" in rule.summary + rule.description
    page, _, fragment = rule.runbook.partition("#")
    headings = re.findall(r"^#+ (\w+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert fragment == rule.name.lower()
    assert rule.name in headings


def test_every_alert_has_its_test():
    tested = re.findall(r"^  - name: (\w+)$", (PROMETHEUS / "alerts_test.yml").read_text(), re.MULTILINE)
    assert tested == [rule.name for rule in RULES]


# --- the dashboard ---------------------------------------------------------------------------------------------------


def test_the_rows_are_what_an_operator_asks_for():
    assert [panel["title"] for panel in dashboard()["panels"] if panel["type"] == "row"] == ROWS


@pytest.mark.parametrize("panel", PANELS, ids=title)
def test_a_panel_shows_what_the_broker_tells(panel: dict):
    assert [offence for expression in expressions_of(panel) for offence in offences_of(expression)] == []
    assert all(families_in(expression) for expression in expressions_of(panel))


@pytest.mark.parametrize("panel", PANELS, ids=title)
def test_a_panel_says_what_it_shows_and_in_which_unit(panel: dict):
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]
    for target in panel["targets"]:
        legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        kept = re.search(r" by \(([^)]*)\)", target["expr"])
        assert kept is None or legend <= set(kept[1].split(", ")), "a legend names labels that the sum has lost"
        assert target["legendFormat"]


def test_panels_have_numbers_and_places_of_their_own():
    everything = dashboard()["panels"]
    numbers = [panel["id"] for panel in everything]
    assert len(set(numbers)) == len(numbers)
    places = [
        (x, y)
        for panel in everything
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24


def test_the_source_is_chosen_when_the_dashboard_is_imported():
    variables = {variable["name"]: variable for variable in dashboard()["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    sources = re.findall(r'"uid": "(.*?)"', DASHBOARD_FILE.read_text())
    assert set(sources) == {"${datasource}", "headgate"}
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in PANELS)
    assert all(target["datasource"]["uid"] == "${datasource}" for panel in PANELS for target in panel["targets"])
    assert all('instance=~"$instance"' in target["expr"] for panel in PANELS for target in panel["targets"])


def test_the_dashboard_shows_all_that_is_ours():
    shown = {name for panel in PANELS for expression in expressions_of(panel) for name in families_in(expression)}
    ours = {family.name for family in metric_families.FAMILIES if family.name.startswith("headgate_")}
    assert ours - shown == NOT_SHOWN


# --- the checks themselves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "offences"),
    [
        ("sum by (direction) (headgate_links)", []),
        ('headgate_alarm_active{alarm="x, y=1"} > 0', []),
        ("sum by (le) (rate(headgate_link_credit_bucket[1m]))", []),
        ("headgate_no_such_thing", ["there is no headgate_no_such_thing"]),
        ("rate(headgate_links_bucket[1m])", ["there is no headgate_links_bucket"]),
        ("headgate_link_credit", ["there is no headgate_link_credit"]),
        ('headgate_links{address="x"}', ["headgate_links has no label address"]),
        ("sum by (le) (headgate_links)", ["no series here has the label le"]),
    ],
)
def test_the_check_of_expressions_finds_what_it_should(expression: str, offences: list[str]):
    assert list(offences_of(expression)) == offences
