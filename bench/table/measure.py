"""Measures the groups of the table one after the other, and notes what could not be run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from bench import declarations
from bench.broker import Broker
from bench.clients.programs import missing
from bench.peers.artemis_queues import PRODUCT, lacks
from bench.results import Entry
from bench.scenario import Scenario
from bench.table.groups import LoadGroup
from bench.table.rows import load_name, peer_note
from bench.turns import RunOnce, Say, take_turns

OpenBrokers = Callable[[], AbstractContextManager[list[Broker]]]
"""Opens the broker to measure and, behind it, the peer if there is one."""


def lacking(peer: Broker, scenario: Scenario) -> str:
    """What the scenario needs and the peer does not have; empty when it can be run."""
    if not peer.name.startswith(PRODUCT):
        return ""
    return lacks(protocol=scenario.protocol, queue_type=scenario.queue_type, routed=scenario.routed)


@dataclass(slots=True, kw_only=True)
class TableMeasurement:
    """What was measured so far."""

    open_brokers: OpenBrokers
    runs: int
    run: RunOnce
    say: Say
    entries: list[Entry] = field(default_factory=list)
    not_run: dict[str, str] = field(default_factory=dict)

    def measure(self, group: LoadGroup) -> None:
        """Make all runs of a group. Without its client, its rows are noted as not run."""
        if reason := missing(group.client):
            self.not_run |= {load_name(one.name, group.client): reason for one in group.scenarios}
            return
        with self.open_brokers() as brokers:
            found = self._declarations(group, brokers) if group.ways else self._loads(group, brokers)
            self.entries += [entry for of_load in found for entry in of_load]

    def _loads(self, group: LoadGroup, brokers: list[Broker]) -> Iterator[list[Entry]]:
        jobs = []
        for scenario in group.scenarios:
            able = brokers
            if brokers[1:] and (reason := lacking(brokers[1], scenario)):
                self.not_run[peer_note(load_name(scenario.name, group.client))] = reason
                able = brokers[:1]
            jobs.append((scenario, able))
        yield from take_turns(jobs, self.runs, self.run, self.say)

    def _declarations(self, group: LoadGroup, brokers: list[Broker]) -> list[list[Entry]]:
        if brokers[1:] and brokers[1].name.startswith(PRODUCT):
            for way in group.ways:
                self.not_run[peer_note(f"declarations, {way}")] = "Artemis declares queues in another way"
            brokers = brokers[:1]
        return declarations.compared(brokers, group.ways, group.queues, self.runs, self.say)
