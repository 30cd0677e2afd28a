"""A service of ``bench.calls``. It reads its plan, then measurements, from standard input, and reports in lines of
JSON.

A caller makes each measurement and reports. A host reports what it has executed when a line arrives. Both end with
their input.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

import trio

from amqp10.services import Commands, Service, ServiceOptions, ServiceRequest
from bench.calling.caller import Caller
from bench.calling.plan import COMMAND, Measurement, Plan


def say(event: str, **figures: object) -> None:
    """Write one line to the parent process."""
    print(json.dumps({"event": event, **figures}), flush=True)


async def read_line() -> str:
    """Read the next line from the parent process; empty at the end."""
    return await trio.to_thread.run_sync(sys.stdin.readline)


def commands(plan: Plan) -> Commands:
    """The commands of a host; a caller has none."""
    made = Commands()
    if plan.role == "caller":
        return made

    def echo(request: ServiceRequest) -> object:
        return request.body

    async def echo_late(request: ServiceRequest) -> object:
        await trio.sleep(float("inf") if plan.answers_after_s is None else plan.answers_after_s)
        return request.body

    made.add(COMMAND, echo if plan.answers_after_s == 0.0 else echo_late, quick=True)
    return made


async def serve(plan: Plan) -> None:
    """Run the service until the input ends."""
    options = ServiceOptions(durable=plan.durable)
    async with Service.open(
        plan.url, type=plan.type, host="bench", commands=commands(plan), options=options
    ) as service:
        say("ready")
        while line := await read_line():
            if plan.role == "caller":
                calls = await Caller(service, Measurement.from_json(line)).run()
                say("report", **asdict(calls))
            else:
                say("report", executed=service.serving.executed, suppressed=service.serving.suppressed)


if __name__ == "__main__":
    trio.run(serve, Plan.from_json(sys.stdin.readline()))
