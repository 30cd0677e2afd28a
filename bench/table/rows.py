"""The rows of the table: what was measured for each load, and how its goals are judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench import declarations
from bench.clients.programs import Client
from bench.goals import Judgement, judge, judge_beside
from bench.results import Entry, Results
from bench.scenario import Scenario
from bench.table.groups import LoadGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """A load, its result on the measured broker and on the peer, and the goals.

    note: why there is no result, or none of the peer; empty when there are both.
    """

    name: str
    measured: Entry | None
    peer: Entry | None
    judgements: tuple[Judgement, ...]
    note: str = ""

    @property
    def void(self) -> str:
        """Which broker's result is void, and why; empty when none is."""
        found = [f"{one.broker}: {one.void}" for one in (self.measured, self.peer) if one is not None and one.void]
        return "; ".join(found)

    @property
    def met(self) -> bool:
        """Whether every goal could be judged and is met."""
        return all(one.met is True for one in self.judgements)


def load_name(name: str, client: Client) -> str:
    """A load by its scenario and its client."""
    return name if client == "own" else f"{name} with {client}"


def peer_note(name: str) -> str:
    """The name under which it is noted why a load did not run on the peer."""
    return f"{name} on the peer"


def rows(group: LoadGroup, results: Results) -> list[LoadRow]:
    """The rows of a group, without those that are neither in the results nor noted as not run."""
    return [row for row in _all_rows(group, results) if row.measured is not None or row.note]


def _all_rows(group: LoadGroup, results: Results) -> Iterator[LoadRow]:
    found = {name: pair for name, pair in _by_load(results.entries).items() if name[1] == group.client}
    measured = {name: pair[0] for (name, _), pair in found.items()}
    for scenario in group.scenarios:
        yield _row(scenario, group.client, found.get((scenario.name, group.client), ()), measured, results.not_run)
    for way in group.ways:
        name = f"declarations, {way}"
        pair = found.get((name, group.client), ())
        yield _declared(name, pair, results.not_run)


def _row(
    scenario: Scenario,
    client: Client,
    pair: Sequence[Entry],
    measured: Mapping[str, Entry],
    not_run: Mapping[str, str],
) -> LoadRow:
    name = load_name(scenario.name, client)
    own, peer = _both(pair)
    stand_in = own or Entry(scenario=scenario.name, parameters={}, broker="", runs=())
    return LoadRow(
        name=name,
        measured=own,
        peer=peer,
        judgements=(*judge(scenario.goal, stand_in, peer), *judge_beside(scenario.goal, stand_in, measured)),
        note=_note(name, not_run),
    )


def _declared(name: str, pair: Sequence[Entry], not_run: Mapping[str, str]) -> LoadRow:
    own, peer = _both(pair)
    judgements = tuple(declarations.judged(own)) if own is not None else ()
    return LoadRow(name=name, measured=own, peer=peer, judgements=judgements, note=_note(name, not_run))


def _note(name: str, not_run: Mapping[str, str]) -> str:
    return not_run.get(name, "") or not_run.get(peer_note(name), "")


def _both(pair: Sequence[Entry]) -> tuple[Entry | None, Entry | None]:
    return pair[0] if pair else None, pair[1] if len(pair) > 1 else None


def _by_load(entries: Sequence[Entry]) -> dict[tuple[str, str], list[Entry]]:
    """The entries of each scenario and client: first the measured broker's, then the peer's."""
    found: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        client = str(entry.parameters.get("client", "own"))  # it is not in the parameters when it is our own
        found.setdefault((entry.scenario, client), []).append(entry)
    return found
