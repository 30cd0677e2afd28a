"""What the processes of ``bench.calls`` are told, and what a caller tells of its calls."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, Self, TypeAlias

Role: TypeAlias = Literal["caller", "host"]

FAST, SLOW, CALLER = "FAST", "SLOW", "CALLER"
"""Types of services: the two that are called, and the one that calls them."""
COMMAND = "echo"
"""What hosts do: the answer is the body of the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A service to be: one that calls, or one that answers."""

    url: str
    role: Role
    type: str
    durable: bool
    answers_after_s: float | None = 0.0
    """What a host waits before it answers. None: it never answers."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Calls to make: ``in_flight`` at any time, each followed by the next one as soon as it is answered."""

    seconds: float
    warm_up_seconds: float
    in_flight: int
    slow_in_flight: int
    """Calls to the slow service meanwhile; nobody waits for their answers in the end."""
    body_bytes: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """What a caller saw. All calls count for the time of the processor, those behind the warm-up for the rest."""

    all_calls: int
    """Answered, with the warm-up."""
    calls: int
    """Answered behind the warm-up."""
    seconds: float
    p50_ms: float
    p99_ms: float
    wrong: int
    """Calls whose answer was not the body that they sent, or that ended in an error."""
    problem: str
    """The first of these, in words."""
    slow_answers: int
    """Calls to the slow service that were answered meanwhile."""
