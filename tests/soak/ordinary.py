"""``python -m tests.soak.ordinary``: hours of ordinary load with a real Prometheus, and which alerts came on.

The broker does what brokers do all day, some hundred messages a second: both protocols, durable and transient, large
messages, streams, dead letters, connections and queues that come and go. Beside them are the things that look like
trouble and are none (:mod:`tests.soak.daily`): a batch of jobs for slow workers, a consumer that is away while its
program is deployed, mails that are sent once in a while, an import that is faster than its consumer, a mistyped
password, probes of the port.

Prometheus has the files of ``config/prometheus`` as they are shipped. Each alert that becomes pending, fires or ends is
printed with the time. Exit status 1 says that one has fired, or that the load failed. HeadgateEventLoopLag is not
false, and does not count, when the broker waited for a processor for more than a twentieth of the five minutes before:
the machine has other work then, and the rule says so.

For example:

    python -m tests.soak.ordinary --hours 3
"""

import argparse
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from tests.kit.prometheus_server import Alert, PrometheusServer, prometheus_server
from tests.soak.daily import daily, flows
from tests.soak.run import MINUTE, Place, Seen, Wanted, soak
from tests.soak.verdict import MIB

POLL_S = 5.0
"""A third of the rules' interval, so that no state is missed."""
SCRAPE_S = 15.0
CHURN_S = 2.0
PROGRESS_EVERY = 10
"""Minutes between two lines of progress."""
LAG_RULE = "HeadgateEventLoopLag"
WAITED_OVER_S = 300.0
"""The rule looks back as far."""
WAITED_SHARE_MAX = 0.05
"""An idle machine with two processors lets the broker wait for less than a hundredth of the time."""
LEFT_OUT = ("instance", "job", "alertname")

Key = tuple[str, str]
"""The name of an alert, and its labels as text."""


@dataclass(slots=True)
class Diary:
    """Which alerts were pending and which fired, with times in seconds since the load began."""

    states: dict[Key, tuple[str, float]] = field(default_factory=dict)
    """The state of each alert that is on, and since when."""
    fired: list[Key] = field(default_factory=list)
    of_the_machine: list[Key] = field(default_factory=list)
    """Alerts for a busy machine, which was busy."""
    pending: dict[Key, float] = field(default_factory=dict)
    """How long each alert was pending at most."""

    def note(self, alerts: Sequence[Alert], at: float, waited: float = 0.0) -> list[str]:
        """Note what is on now. Returns a line for each change.

        ``waited`` is the share of the last five minutes for which the broker waited for a processor.
        """
        now = {(one.labels["alertname"], _text(one.labels)): one.state for one in alerts}
        lines = []
        for key in sorted({*now, *self.states}):
            before, since = self.states.get(key, ("off", at))
            after = now.get(key, "off")
            if before == "pending":
                self.pending[key] = max(self.pending.get(key, 0.0), at - since)
            if before == after:
                continue
            lasted = "" if before == "off" else f" after {at - since:.0f} s {before}"
            why = f", waited {waited:.0%} of the time for a processor" if key[0] == LAG_RULE else ""
            lines.append(f"{clock(at)}  {after:7}  {key[0]} {key[1]}{lasted}{why}")
            if after == "firing":
                busy = key[0] == LAG_RULE and waited > WAITED_SHARE_MAX
                (self.of_the_machine if busy else self.fired).append(key)
            if after == "off":
                del self.states[key]
            else:
                self.states[key] = (after, at)
        return lines


def _text(labels: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(labels.items()) if name not in LEFT_OUT)


def clock(at: float) -> str:
    """Hours, minutes and seconds."""
    return f"{int(at) // 3600}:{int(at) // 60 % 60:02}:{int(at) % 60:02}"


def waited_seconds(pid: int) -> float:
    """How long the main thread of a process has waited for a processor since it began."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


async def watch(prometheus: PrometheusServer, pid: int, diary: Diary) -> None:
    """Write the diary of the broker with this process for ever."""
    began = trio.current_time()
    waits = deque([(began, waited_seconds(pid))], maxlen=round(WAITED_OVER_S / POLL_S))
    while True:
        alerts = await trio.to_thread.run_sync(prometheus.alerts)
        now = trio.current_time()
        waits.append((now, waited_seconds(pid)))
        share = (waits[-1][1] - waits[0][1]) / max(POLL_S, now - waits[0][0])
        for line in diary.note(alerts, now - began, share):
            print(line, flush=True)
        await trio.sleep(POLL_S)


def report(seen: Seen, diary: Diary) -> bool:
    """Print what became of the load and of the alerts. True when nothing was wrong."""
    wrong = [f"{flow.name}: {what}" for flow in seen.flows for what in flow.book.findings]
    minutes = seen.samples[-1].at / MINUTE
    print(
        f"{minutes:.0f} minutes, {seen.total('confirmed')} confirmed, {seen.total('settled')} settled, "
        f"{seen.cpu / minutes / MINUTE:.1%} of a core, {seen.samples[-1].resident / MIB:.0f} MiB"
    )
    print(f"rounds: {seen.rounds.done}")
    print(f"log: {dict(seen.log.most_common())}")
    for name, labels in sorted(diary.pending):
        print(f"pending  {name} {labels}: {diary.pending[name, labels]:.0f} s at the longest")
    for name, labels in diary.of_the_machine:
        print(f"rightly  {name} {labels}")
    for name, labels in diary.fired:
        print(f"FIRED    {name} {labels}")
    for line in wrong:
        print(f"FAILED   {line}")
    if seen.status != 0:
        print(f"FAILED   the broker ended with status {seen.status}")
    print("no alert has fired" if not diary.fired else f"{len(diary.fired)} alerts have fired")
    return not diary.fired and not wrong and seen.status == 0


def ordinary(folder: Path, program: str, hours: float) -> bool:
    """Run the load for so many hours. True when nothing was wrong."""
    seen, diary = Seen(flows()), Diary()
    wanted = Wanted(minutes=hours * 60, scrape_s=SCRAPE_S, churn_pause_s=CHURN_S, half_open=False)

    async def beside(place: Place) -> None:
        address = place.admin_url.removeprefix("http://")
        with prometheus_server(program, folder, broker=address, as_shipped=True) as prometheus:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch, prometheus, place.pid, diary)
                nursery.start_soon(daily, place, seen.rounds)

    def progress(at: float) -> None:
        if round(at / MINUTE) % PROGRESS_EVERY == 0:
            now = seen.samples[-1]
            print(
                f"{clock(at)}  {seen.total('settled')} settled, {seen.cpu / at:.1%} of a core, "
                f"{now.resident / MIB:.0f} MiB, {seen.scrapes.failed} failed scrapes",
                flush=True,
            )

    trio.run(soak, folder, wanted, seen, progress, beside)
    return report(seen, diary)


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line, run, and report."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak.ordinary", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hours", type=float, default=3.0, help="how long (default 3)")
    parser.add_argument("--folder", type=Path, help="of data and log, kept; default: a temporary one, kept on failure")
    given = parser.parse_args(words)
    if given.hours <= 0:
        parser.error("--hours must be more than 0")
    program = shutil.which("prometheus")
    if program is None:
        parser.error("prometheus is not installed: apt-get install prometheus")
    folder = given.folder or Path(tempfile.mkdtemp(prefix="headgate-ordinary-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{given.hours:g} hours; data and log in {folder}", flush=True)
    passed = ordinary(folder, program, given.hours)
    if passed and given.folder is None:
        shutil.rmtree(folder)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
