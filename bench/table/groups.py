"""The groups of rows of the table, read from `rows.toml`, and those that a command line chooses."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from bench.clients.programs import Client
from bench.scenario import Scenario, ScenarioError, load_scenarios

FILE = Path(__file__).parent / "rows.toml"
SECONDS = 1.0
"""How long a run publishes. Five runs of all groups on two brokers then take about twenty minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGroup:
    """Scenarios that run by turns, or ways of declaring queues.

    ways: names of `bench.declarations.Way`, for so many queues; a group has either these or scenarios.
    """

    name: str
    title: str
    client: Client = "own"
    seconds: float = SECONDS
    scenarios: tuple[Scenario, ...] = ()
    ways: tuple[str, ...] = ()
    queues: int = 0

    def chosen(self, wanted: Sequence[str]) -> LoadGroup:
        """The group with the scenarios of these names only, and those with which their goals compare."""
        if not wanted or self.name in wanted:
            return self
        kept = {scenario.name for scenario in self.scenarios if scenario.name in wanted}
        bases = {name for one in self.scenarios if one.name in kept for name in one.goal.cpu_ratio_max_to}
        return replace(self, ways=(), scenarios=tuple(one for one in self.scenarios if one.name in kept | bases))

    def lasting(self, seconds: float | None) -> LoadGroup:
        """The group whose runs publish for so many seconds; None leaves them as they are."""
        return self if seconds is None else replace(self, seconds=seconds, scenarios=tuple(
            replace(one, traffic=replace(one.traffic, seconds=seconds)) for one in self.scenarios
        ))  # fmt: skip


def read_groups(path: Path = FILE) -> list[LoadGroup]:
    """All groups. Raises ScenarioError when the file cannot be used, with the reason."""
    scenarios = load_scenarios()
    try:
        return [_group(table, scenarios) for table in tomllib.loads(path.read_text())["group"]]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as problem:
        raise ScenarioError(f"{path.name}: {problem}") from problem


def _group(table: dict[str, object], files: Mapping[str, list[Scenario]]) -> LoadGroup:
    if unknown := sorted(table.keys() - {field.name for field in fields(LoadGroup)}):
        raise ValueError(f"unknown key {unknown[0]!r} in the group {table.get('name')!r}")
    names, ways = table.pop("scenarios", []), table.pop("ways", [])
    assert isinstance(names, list)
    assert isinstance(ways, list)
    if missing := [name for name in names if name not in files]:
        raise ValueError(f"the group {table.get('name')!r} names a scenario {missing[0]!r}, and there is no such file")
    group = LoadGroup(**table, ways=tuple(ways))  # type: ignore[arg-type]  # a wrong type is an error of the scenario
    found = (replace(one, client=group.client) for name in names for one in files[name])
    return replace(group, scenarios=tuple(found)).lasting(group.seconds)


def choose(groups: Sequence[LoadGroup], wanted: Sequence[str]) -> list[LoadGroup]:
    """The groups with what is wanted: names of groups and of scenarios; all when none is named.

    Raises ScenarioError for a name that is neither.
    """
    known = {name for group in groups for name in (group.name, *(one.name for one in group.scenarios))}
    if unknown := [name for name in wanted if name not in known]:
        raise ScenarioError(f"no row and no group of rows {unknown[0]!r}; --list shows them")
    chosen = [group.chosen(wanted) for group in groups]
    return [group for group in chosen if group.scenarios or group.ways]
