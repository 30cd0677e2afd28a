"""A client process: `python -m bench.together`, told what to do by lines on its standard input.

    in   a job (`job.Job`)            connect, attach
    out  {"event": "ready"}
    in   {"go": …}                    begin
    out  {"event": "over"}            the time is over, or the backlog is consumed
    out  {"event": "report", …}       what was to be written is written
    in   end of input                 close the connection

or, at any time, out {"event": "failed", "reason": …}. Between the report and the end of the input the connection stays
open, so that the broker can be asked about it.
"""

from __future__ import annotations

import gc
import json
import struct
import sys
from collections.abc import Callable
from typing import Protocol

from amqp10.load.wire import WireError
from bench.together.job import Job, Report
from bench.together.own import OwnClient


class AnyClient(Protocol):
    """A connection that can do a job."""

    def run(self, over: Callable[[], None]) -> Report: ...
    def close(self) -> None: ...


def client_for(job: Job) -> AnyClient:
    """Return a connected client. Other libraries are imported only when they are chosen."""
    if job.client == "pika":
        from bench.together.with_pika import PikaClient

        return PikaClient(job)
    if job.client == "proton":
        from bench.together.with_proton import ProtonClient

        return ProtonClient(job)
    return OwnClient(job)


def say(event: str, **fields: object) -> None:
    """One event as a line on the standard output."""
    print(json.dumps({"event": event, **fields}), flush=True)


def main() -> int:
    """Do one job."""
    line = sys.stdin.readline()
    if not line:
        return 2
    try:
        client = client_for(Job.from_json(line))
        say("ready")
        if sys.stdin.readline():
            gc.freeze()
            gc.disable()
            print(client.run(lambda: say("over")).to_json(), flush=True)
            sys.stdin.read()
        client.close()
    except (ImportError, WireError, OSError, ValueError, IndexError, struct.error) as failure:
        say("failed", reason=f"{type(failure).__name__}: {failure}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
