"""Rounds of real faults: three brokers and three members of etcd, clients of both protocols, and a fault in each round.

A round does one fault, keeps it for some seconds, mends it, and waits until everything is as before. Then all confirmed
messages have to be there. At the end the verdict is over all rounds: of what was confirmed nothing is lost, what comes
twice is flagged, the messages of each publisher are in order, each offset of a stream has the same message at every
leader, and after a kill or a standstill messages are accepted
again within three seconds in 95 of 100 rounds. The seed repeats which faults come, where and for how long; not how
processes and disks are timed.

For example:

    python -m tests.cluster.rounds --rounds 60
    python -m tests.cluster.rounds --rounds 60 --forward
    python -m tests.cluster.rounds --rounds 5 --seed 7 --faults kill-leader stop-etcd
    python -m tests.cluster.rounds --rounds 2 --hold 1 --patient
    python -m tests.cluster.rounds --list
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random, randrange

from tests.cluster.faults import FAULTS, MEASURED, ROOT_ONLY, Machines, machines
from tests.cluster.history import History, Verdict
from tests.cluster.load import Load, drain, read_stream
from tests.kit.cluster_nodes import NAMES

CONSUMED, KEPT = ("orders", "events"), ("kept",)
"""Queues that are consumed all the time, and those that are read at the end."""
STREAM = "trail"
"""A stream, which is read from its first message after each round."""
ALL = (*CONSUMED, *KEPT, STREAM)
HOLD_S = (1.0, 5.0)
"""How long a fault is kept; it is drawn."""
CALM_S = 2.0
"""Between two rounds."""
REST_S = 60.0
"""How long the cluster may take until everything is as before."""
CONFIRMED_MIN = 20
"""Confirmed messages of each queue that show that it goes on."""
ELECTION_MS = 200
"""As docs/cluster.md advises."""
GAP_S = 3.0
SHARE = 0.95
SHOWN_MAX = 10
LOG_CHARS = 1500
"""What is shown of a node's log when something is wrong."""


@dataclass(slots=True)
class Report:
    """What the rounds have found."""

    verdict: Verdict = field(default_factory=Verdict)
    gaps: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """For each fault, how long no message was accepted, in each round."""
    troubles: list[str] = field(default_factory=list)

    @property
    def measured(self) -> list[float]:
        """The times that have a limit, ascending."""
        return sorted(gap for name in MEASURED for gap in self.gaps.get(name, ()))

    @property
    def late(self) -> bool:
        """Whether the time of 95 of 100 rounds is too long."""
        return bool(self.measured) and share(self.measured) > GAP_S


def _say(line: str) -> None:
    print(line, flush=True)


def share(ascending: Sequence[float]) -> float:
    """The value that 95 of 100 do not exceed."""
    return ascending[min(len(ascending) - 1, int(SHARE * len(ascending)))]


class Rounds:
    """One run."""

    def __init__(
        self, seed: int, faults: Sequence[str], *, forwards: bool = False, options: Sequence[str] = ()
    ) -> None:
        """``forwards``: the nodes forward to leaders. ``options``: more options of etcd."""
        self._forwards = forwards
        self._options = options
        self.history = History()
        self.report = Report()
        self._stream: dict[int, str] = {}
        """The message at each offset of the stream."""
        self._rng = Random(seed)
        self._faults = faults

    def run(self, rounds: int, *, hold_s: tuple[float, float] = HOLD_S) -> Report:
        """Run this many rounds."""
        with machines(
            small_disk="full-disk" in self._faults,
            clocks="clock" in self._faults,
            forwards=self._forwards,
            options=self._options,
        ) as found:
            for queue in ALL:
                kind = "stream" if queue == STREAM else "quorum"
                found.nodes.command(NAMES[0], "queues", "declare", queue, "--argument", f"x-queue-type={kind}")
            load = Load(self.history, [found.nodes.url(name) for name in NAMES])
            load.start(CONSUMED, (*KEPT, STREAM), forwards=self._forwards)
            try:
                begun = time.monotonic()
                self._await(lambda: self._goes_on(begun), found, "no queue begins")
                for number in range(rounds):
                    self._round(found, load, number + 1, rounds, hold_s)
            finally:
                load.publishing = False
                load.stop()
            self._drain(found)
            self._await(lambda: self._drained(found), found, "confirmed messages are not there")
            self.report.verdict = self.history.verdict()
        return self.report

    def _round(self, found: Machines, load: Load, number: int, rounds: int, hold_s: tuple[float, float]) -> None:
        name = self._rng.choice(self._faults)
        hold, rng = self._rng.uniform(*hold_s), Random(self._rng.random())
        time.sleep(CALM_S)
        begun = time.monotonic()
        what, mend = FAULTS[name](found, rng)
        time.sleep(hold)
        mend()
        mended = time.monotonic()
        self._await(lambda: self._goes_on(mended), found, "a queue does not go on")
        gap = max(self.history.longest_gap(queue, begun, time.monotonic()) for queue in ALL)
        self.report.gaps[name].append(gap)
        load.publishing = False
        self._await(found.at_rest, found, "a node has not everything")
        took = time.monotonic() - mended
        self._await(lambda: not self.history.missing(CONSUMED), found, "confirmed messages do not come")
        self._await(lambda: self._has_read(found), found, "confirmed messages are not in the stream")
        load.publishing = True
        did = "".join(f"; {one}" for one in found.did)
        found.did.clear()
        _say(
            f"round {number}/{rounds} {name}: {what} for {hold:.1f} s{did}; nothing accepted for {gap:.2f} s, "
            f"as before {took:.1f} s after"
        )

    def _drain(self, found: Machines) -> None:
        for queue in (*CONSUMED, *KEPT):
            for name in NAMES:
                if any(row["leads_here"] for row in found.groups(name)):
                    drain(self.history, found.nodes.url(name), queue)

    def _has_read(self, found: Machines) -> bool:
        """Read the stream from its first message, and return whether everything confirmed is there."""
        for name in NAMES:
            if any(row["leads_here"] for row in found.groups(name)):
                read = read_stream(found.nodes.url(name), STREAM, 0)
                for offset, message in read.items():
                    if self._stream.setdefault(offset, message) != message:
                        self.report.troubles.append(f"offset {offset} was {self._stream[offset]}, and is {message}")
        if sorted(self._stream) != list(range(len(self._stream))):
            self.report.troubles.append("the offsets of the stream have gaps")
        for message in self._stream.values():
            self.history.delivered(message, redelivered=True)
        if len(set(self._stream.values())) < len(self._stream):
            self.report.troubles.append("a message is in the stream twice")
        return not self.history.missing((STREAM,))

    def _drained(self, found: Machines) -> bool:
        """Read once more if something is missing: a node that ceases to lead says that its queues are empty."""
        if self.history.missing((*CONSUMED, *KEPT)):
            self._drain(found)
        return not self.history.missing((*CONSUMED, *KEPT)) and self._has_read(found)

    def _goes_on(self, since: float) -> bool:
        return all(self.history.confirmed_since(queue, since) >= CONFIRMED_MIN for queue in ALL)

    def _await(self, there: Callable[[], bool], found: Machines, trouble: str) -> None:
        """Wait until something is there, or note the trouble."""
        until = time.monotonic() + REST_S
        while not there():
            if time.monotonic() > until:
                self._trouble(found, trouble)
                return
            time.sleep(0.05)

    def _trouble(self, found: Machines, why: str) -> None:
        facts = {name: found.groups(name) for name in NAMES}
        counts = {queue: self.history.confirmed_since(queue, time.monotonic() - REST_S) for queue in ALL}
        logs = {name: found.nodes.log(name)[-LOG_CHARS:] for name in NAMES}
        self.report.troubles.append(why)
        _say(f"{why}: {counts} {facts}")
        for name, log in logs.items():
            _say(f"--- log of {name}\n{log}")


def print_report(report: Report, seed: int, *, patient: bool = False) -> bool:
    """Print it. Returns whether everything was kept; if ``patient``, whatever the times are."""
    verdict = report.verdict
    print(verdict)
    for name in ("lost", "unexpected", "unflagged", "reordered"):
        if some := getattr(verdict, name)[:SHOWN_MAX]:
            print(f"  {name}: {' '.join(some)}")
    for answer in verdict.answers[:SHOWN_MAX]:
        print(f"  unexpected after {answer}")
    for name, gaps in sorted(report.gaps.items()):
        gaps.sort()
        print(f"  {name}: nothing accepted for {gaps[len(gaps) // 2]:.2f} s (median), {gaps[-1]:.2f} s (longest) "
              f"in {len(gaps)} rounds")  # fmt: skip
    if report.measured:
        print(f"kills and standstills: p95 {share(report.measured):.2f} s of {len(report.measured)} rounds")
    kept = not (verdict.broken or report.troubles or (report.late and not patient))
    print(f"seed {seed}: {'all promises were kept' if kept else f'broken; {report.troubles}'}")
    return kept


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 1 if a promise was not kept."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.rounds", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20, help="how many faults (default 20)")
    parser.add_argument("--seed", type=int, default=randrange(2**32), help="repeats which faults come, and where")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, help="only these; default: all that this user may do")
    parser.add_argument("--hold", type=float, default=HOLD_S[1], help="keep a fault for at most so many seconds")
    parser.add_argument(
        "--election", type=int, metavar="MS", default=ELECTION_MS, help="the election timeout of etcd (its own is 1000)"
    )
    parser.add_argument(
        "--forward",
        action="store_true",
        help="the nodes forward to leaders; without it, clients wait at their node until it leads",
    )
    parser.add_argument("--patient", action="store_true", help="do not judge times: for a busy machine")
    parser.add_argument("--list", action="store_true", help="list the faults")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # processes are ended then too
    if chosen.list:
        for name, fault in FAULTS.items():
            print(f"{name:12} {fault.__doc__}")
        return 0
    possible = [name for name in FAULTS if name not in ROOT_ONLY or os.geteuid() == 0]
    if shutil.which("gcc") is None:
        possible.remove("clock")
    began = time.monotonic()
    options = (f"--election-timeout={chosen.election}", f"--heartbeat-interval={chosen.election // 10}", "--pre-vote")
    rounds = Rounds(chosen.seed, chosen.faults or possible, forwards=chosen.forward, options=options)
    report = rounds.run(chosen.rounds, hold_s=(min(HOLD_S[0], chosen.hold), chosen.hold))
    print(f"{chosen.rounds} rounds in {time.monotonic() - began:.0f} s")
    return int(not print_report(report, chosen.seed, patient=chosen.patient))


if __name__ == "__main__":
    sys.exit(main())
