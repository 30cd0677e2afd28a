"""``python -m tests.soak``: a broker process under mixed load for an hour, and what became of its memory.

Publishers and consumers of both protocols work on classic, lazy and quorum queues and streams, with durable, transient,
small and large messages, all settle modes, expiry and dead letters, while connections, queues, exchanges, bindings and
policies come and go, half-open sockets and cut connections among them; the metrics, the API and the console are read
all the time.

The verdict, and what exit status 1 stands for:

  messages     none lost, none twice or out of order without the mark of a redelivery, none refused
  memory       the least squares line through the resident memory, a sample a second after the warm-up, rises by no
               more than --slope-max MiB an hour. Its standard error is shown: below an hour it is larger than the
               limit, and the slope says little
  flat         descriptors, threads, files of the data folder and their bytes: the mean of the last third after the
               warm-up is above that of the first third by no more than 4 descriptors, 1 thread, 8 files, 32 MiB, or
               5 % (threads: nothing)
  scrapes      each answered with 200 within 10 s
  end          the broker ends with status 0 on SIGTERM, and wrote no line of level error

For example:

    python -m tests.soak
    python -m tests.soak --minutes 15 --warm-up 5
    python -m tests.soak --minutes 5 --flow-events --rate 0.5
    python -m tests.soak --minutes 6 --allocations
"""

import argparse
import csv
import dataclasses
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import trio

from tests.soak.run import MINUTE, Seen, Wanted, new_seen, soak
from tests.soak.verdict import ALLOWED, MIB, Sample, growth, is_flat, memory_slope

WARM_UP_MINUTES = 20.0
WARM_UP_SHARE = 1 / 3
"""The warm-up's share of a run that is shorter than three times the warm-up."""
SLOPE_MAX = 1.0
COUNTED = ("sent", "confirmed", "delivered", "redelivered", "settled", "faults")


def line(seen: Seen, at: float) -> str:
    """The progress as a line of text."""
    now, scrapes = seen.samples[-1], seen.scrapes
    return (
        f"{at / MINUTE:4.0f} min  {now.resident / MIB:6.1f} MiB  {now.descriptors} descriptors  "
        f"{now.threads} threads  {now.files} files of {now.stored / MIB:.1f} MiB  CPU {seen.cpu / at:.0%}  "
        f"{seen.total('confirmed')} confirmed  {seen.total('settled')} settled  "
        f"{sum(seen.rounds.done.values())} rounds of churn  "
        f"{scrapes.count} scrapes, longest {scrapes.longest:.2f} s, {scrapes.failed} failed  "
        f"{seen.total('faults')} faults"
    )


def judge(seen: Seen, warm_up_s: float, slope_max: float) -> list[tuple[str, bool, str]]:
    """Each demand, whether it holds, and its figures."""
    measured = [one for one in seen.samples if one.at >= warm_up_s]
    steep, error = memory_slope(measured)
    books = [flow.book for flow in seen.flows]
    wrong = [f"{book.name}: {what}" for book in books for what in book.findings]
    errors = {event: count for event, count in seen.log.items() if event.startswith(("error", "critical"))}
    minutes = (measured[-1].at - warm_up_s) / MINUTE
    found = [
        (
            "messages",
            not wrong and seen.total("settled") > 0,
            ", ".join(f"{seen.total(what)} {what}" for what in COUNTED) + "".join(f"\n    {what}" for what in wrong),
        ),
        (
            "memory",
            steep <= slope_max,
            f"{steep:+.2f} MiB an hour (standard error {error:.2f}) over {minutes:.0f} minutes",
        ),
    ]
    for name, allowed in ALLOWED.items():
        values = [float(getattr(one, name)) for one in measured]
        first, last = growth(values)
        found.append((name, is_flat(values, allowed), f"{first:.1f} in the first third, {last:.1f} in the last"))
    scrapes = seen.scrapes
    mean = scrapes.seconds / scrapes.count if scrapes.count else 0.0
    failures = "".join(f"\n    {what}" for what in scrapes.failures)
    found.append(
        (
            "scrapes",
            scrapes.count > 0 and not scrapes.failed,
            f"{scrapes.count} answered, mean {mean:.3f} s, longest {scrapes.longest:.2f} s ({scrapes.longest_path}), "
            f"{scrapes.slow.total()} of 1 s or longer, largest {scrapes.bytes_max} bytes, {scrapes.failed} failed"
            + failures,
        )
    )
    found.append(
        ("end", seen.status == 0 and not errors, f"status {seen.status}, errors in the log: {errors or 'none'}")
    )
    return found


def write_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Write the samples as comma-separated values."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in dataclasses.fields(Sample))
        writer.writerows(dataclasses.astuple(one) for one in samples)


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument(
        "--warm-up",
        type=float,
        help="minutes that are not judged (default 20, or a third of a run of less than an hour)",
    )
    parser.add_argument("--slope-max", type=float, default=SLOPE_MAX, help="MiB an hour (default 1)")
    parser.add_argument("--rate", type=float, default=1.0, help="multiplies the load (default 1)")
    parser.add_argument("--scrape-seconds", type=float, default=5.0, help="between two rounds of scrapes (default 5)")
    parser.add_argument("--flow-events", action="store_true", help="the broker records flow events")
    parser.add_argument("--allocations", action="store_true", help="trace what grows, each minute, in the broker's log")
    parser.add_argument("--samples", type=Path, help="write all samples to this file, as comma-separated values")
    parser.add_argument("--folder", type=Path, help="of data and log, kept; default: a temporary one, kept on failure")
    given = parser.parse_args(words)
    if given.minutes <= 0 or given.rate <= 0:
        parser.error("--minutes and --rate must be more than 0")
    if given.warm_up is None:
        given.warm_up = min(WARM_UP_MINUTES, given.minutes * WARM_UP_SHARE)
    if not 0 <= given.warm_up < given.minutes:
        parser.error(f"--warm-up {given.warm_up:g} must be less than --minutes {given.minutes:g}")
    return given


def main(words: Sequence[str] | None = None) -> int:
    """Read the command line, run, and judge."""
    given = parse(words)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="headgate-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    wanted = Wanted(
        minutes=given.minutes,
        rate=given.rate,
        scrape_s=given.scrape_seconds,
        flow_events=given.flow_events,
        allocations=given.allocations,
    )
    seen = new_seen()
    print(f"{given.minutes:g} minutes, the first {given.warm_up:g} of them to warm up; log in {folder}", flush=True)
    trio.run(soak, folder, wanted, seen, lambda at: print(line(seen, at), flush=True))
    if given.samples:
        write_samples(given.samples, seen.samples)
    found = judge(seen, given.warm_up * MINUTE, given.slope_max)
    print(f"churn: {seen.rounds.done}")
    print(f"log: {dict(seen.log.most_common())}")
    for name, holds, figures in found:
        print(f"{'ok    ' if holds else 'FAILED'} {name}: {figures}")
    passed = all(holds for _, holds, _ in found)
    if passed and given.folder is None:
        shutil.rmtree(folder)
    print("passed" if passed else f"FAILED; data and log are in {folder}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
