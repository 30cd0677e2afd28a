"""Virtual time, and a network between nodes and the engine that delays and loses requests and answers."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import TypeVar

AnswerT = TypeVar("AnswerT")

TIMEOUT_S = 0.25
"""How long a node waits for an answer."""


class Network:
    """Requests under way, and the time. Everything in it follows from one random generator."""

    def __init__(self, rng: Random) -> None:
        self.now = 0.0
        self.loss = 0.0
        """The probability that a request, or an answer, is lost."""
        self.delay_s = 0.01
        """The mean delay of each."""
        self.cut_off: set[int] = set()
        """Nodes that reach the engine in neither direction."""
        self._rng = rng
        self._numbers = count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Do something at a time."""
        heappush(self._due, (when, next(self._numbers), act))

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with everything that is due meanwhile."""
        until = self.now + seconds
        while self._due and self._due[0][0] <= until:
            when, _, act = heappop(self._due)
            self.now = max(self.now, when)
            act()
        self.now = until

    def ask(
        self,
        node: int,
        ask: Callable[[], AnswerT],
        answered: Callable[[AnswerT], None],
        unanswered: Callable[[], None],
    ) -> None:
        """Send a request to the engine. Either ``answered`` or ``unanswered`` is called later; the request may have
        been carried out in both cases."""
        done: list[bool] = []

        def arrive() -> None:
            if node in self.cut_off:
                return
            answer = ask()
            if not self._lost():
                self.at(self.now + self._delay(), lambda: come_back(answer))

        def come_back(answer: AnswerT) -> None:
            if not done and node not in self.cut_off:
                done.append(True)
                answered(answer)

        def give_up() -> None:
            if not done:
                done.append(True)
                unanswered()

        if node not in self.cut_off and not self._lost():
            self.at(self.now + self._delay(), arrive)
        self.at(self.now + TIMEOUT_S, give_up)

    def _lost(self) -> bool:
        return self._rng.random() < self.loss

    def _delay(self) -> float:
        """Mostly short; some take longer than a node waits, and arrive in another order."""
        return self._rng.expovariate(1 / self.delay_s) * (20.0 if self._rng.random() < 0.03 else 1.0)
