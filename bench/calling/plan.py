"""The data that processes of ``bench.calls`` receive, and the report of a caller."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, Self, TypeAlias

Role: TypeAlias = Literal["caller", "host"]

FAST, SLOW, CALLER = "FAST", "SLOW", "CALLER"
"""Types of services: the two that are called, and the one that calls them."""
COMMAND = "echo"
"""The only command of hosts: the answer is the body of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of one service: whether it calls or answers, and how."""

    url: str
    role: Role
    type: str
    durable: bool
    answers_after_s: float | None = 0.0
    """How long a host waits before it answers; None: it never answers."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The calls to make: ``in_flight`` at any time; each answer is followed by the next call at once."""

    seconds: float
    warm_up_seconds: float
    in_flight: int
    slow_in_flight: int
    """Calls in flight to the slow service at the same time; the caller does not wait for their answers at the end."""
    body_bytes: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """A caller's counts. CPU time is per call of all calls; the other figures are for calls after the warm-up."""

    all_calls: int
    """Answered calls, with those of the warm-up."""
    calls: int
    """Answered calls after the warm-up."""
    seconds: float
    p50_ms: float
    p99_ms: float
    wrong: int
    """Calls whose answer was not their own body, or that ended in an error."""
    problem: str
    """The first of these, as text."""
    slow_answers: int
    """Calls to the slow service that were answered during the measurement."""
