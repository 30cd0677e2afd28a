"""Does a job with the load generator's own clients, which are fast enough not to be the limit.

Over AMQP 1.0 each publisher sends as far as its own link credit allows. Over AMQP 0.9.1 the publishers take turns at
the socket, and acknowledgements wait behind bytes that the socket has not taken yet, as in any client.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable

from amqp10.load.line import opened_091, opened_10
from amqp10.load.wire import WireError
from bench.together.job import SAMPLE_SECONDS, Job, Report, Sample

PATIENCE_SECONDS = 30.0
"""How long to wait for the answer to an attach, and for pending output at the end."""
WAIT_SECONDS = 0.02


class OwnClient:
    """A connection with all links or channels open."""

    def __init__(self, job: Job) -> None:
        self._job = job
        opened = opened_091 if job.protocol == "0.9.1" else opened_10
        name = f"together-{os.getpid()}"
        self._line, _ = opened(job.url, job.traffic, job.applications, name=name, max_frame_size=131072)
        self._endpoint = self._line.endpoint
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._endpoint.attached:
            self._turn()
            if time.monotonic() > deadline:
                raise WireError("the broker did not answer an attach")

    def _turn(self) -> None:
        """Write what is due, then wait for something to read, room to write, or a little time to pass."""
        now_ns = time.monotonic_ns()
        self._line.write(now_ns)
        busy = not self._line.blocked and self._endpoint.ready_to_publish(now_ns)
        self._wait(0.0 if busy else WAIT_SECONDS)

    def _wait(self, seconds: float) -> None:
        socket = self._line.socket
        if select.select([socket], [socket] if self._line.blocked else [], [], seconds)[0]:
            self._line.read()

    def run(self, over: Callable[[], None]) -> Report:
        """Run until the time is over or the backlog is consumed; then call `over`, and finish pending work."""
        start_ns = time.monotonic_ns()
        samples = [Sample(0.0, (0,) * len(self._endpoint.publishers), 0)]
        self._endpoint.start(start_ns)
        elapsed = 0.0
        while elapsed < self._job.seconds:
            self._turn()
            elapsed = (time.monotonic_ns() - start_ns) / 1e9
            if self._job.backlog and self._consumed >= self._job.backlog:
                break
            if elapsed - samples[-1].seconds >= SAMPLE_SECONDS:
                samples.append(self._sample(elapsed))
        samples.append(self._sample(elapsed))
        over()
        self._come_to_rest()
        received = self._endpoint.consumers[0].ledger.ranges() if self._endpoint.consumers else {}
        sent = tuple(publisher.sent for publisher in self._endpoint.publishers)
        return Report(samples=tuple(samples), sent=sent, received=received, faults=self._faults())

    @property
    def _consumed(self) -> int:
        return sum(consumer.ledger.total for consumer in self._endpoint.consumers)

    def _sample(self, elapsed: float) -> Sample:
        confirmed = bool(self._job.batch)
        published = [one.confirmed if confirmed else one.sent for one in self._endpoint.publishers]
        return Sample(round(elapsed, 4), tuple(published), self._consumed)

    def _come_to_rest(self) -> None:
        """Write the bytes that the socket has not taken yet, and nothing new."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._line.blocked and time.monotonic() < deadline:
            self._line.flush()
            self._wait(WAIT_SECONDS)

    def _faults(self) -> str:
        found = []
        if refused := sum(one.refused for one in self._endpoint.publishers):
            found.append(f"{refused} refused")
        if corrupted := sum(one.corrupted for one in self._endpoint.consumers):
            found.append(f"{corrupted} corrupted")
        if self._line.blocked:
            found.append("the broker took nothing more")
        return ", ".join(found)

    def close(self) -> None:
        self._line.close()
