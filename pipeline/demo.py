"""``make pipeline-demo``: a broker, a load with a known bottleneck, the tables, the report, and a check of its
verdicts, in a minute.

The load is that of ``bench.two_senders``: over each protocol one connection with two publishers, to a classic queue and
to a quorum queue whose syncs are slow. The report must show: over AMQP 0.9.1 the quorum queue holds the connection up;
over AMQP 1.0 nothing holds up the link to the classic queue.

Exit status: 0; 1 when the report says something else, or could not be made.
"""

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.report.figures import NoTables, Row, read_figures
from pipeline.report.page import page, sentence

ROOT = Path(__file__).resolve().parents[1]
READY = re.compile(r"is ready at amqp://[^@]*@(?P<host>[^:]+):(?P<port>\d+) \(pid (?P<pid>\d+)\)")
LOAD_SECONDS = 3
"""Seconds of each of the four runs of the load."""
SYNC_DELAY_S = 0.08
"""Added to each sync: slow enough to be reported as a stall, which takes 50 ms."""
STOP_SECONDS = 15
LIMIT_SECONDS = 600
"""Time limit for the load, and for the tables: on an otherwise idle machine they take 20 s and 25 s."""
SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java without its second compiler and its parallel garbage collection, which pay only in processes that go on for
longer."""
SETTINGS = f"[store]\nsync_delay = {SYNC_DELAY_S}\n\n[flow_events]\nenabled = true\n"
CLASSIC, QUORUM = "-classic", "-quorum"
"""The suffixes of the load's queue names."""


class Failed(Exception):
    """The demonstration could not be made. The text says what failed."""


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[re.Match[str]]:
    """Start a broker with slow syncs that keeps flow events, on a free port of the loopback interface."""
    settings = folder / "broker.toml"
    settings.write_text(SETTINGS)
    command = [
        sys.executable, "-m", "amqp10", "serve", "--listen", "127.0.0.1:0", "--data", str(folder / "data"),
        "--config", str(settings),
    ]  # fmt: skip
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        match = READY.search(line)
        if match is None:
            raise Failed(f"the broker did not start: {line.strip()} {(folder / 'broker.log').read_text()[-2000:]}")
        yield match
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def step(what: str, command: Sequence[str], **environment: str) -> None:
    """Run a part of the demonstration in a process of its own, with its output on ours. Raises Failed."""
    print(f"--- {what}", flush=True)
    try:
        status = subprocess.run(
            [sys.executable, "-m", *command], cwd=ROOT, timeout=LIMIT_SECONDS, env=os.environ | environment, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        raise Failed(f"{what}: not done after {LIMIT_SECONDS} s") from None
    if status:
        raise Failed(f"{what}: exit status {status}")


def demonstrate(out: Path, warehouse: Path, seconds: int) -> Sequence[Row]:
    """Make the report; returns its verdicts."""
    with tempfile.TemporaryDirectory(prefix="pipeline-demo-") as name:
        folder = Path(name)
        with broker(folder) as ready:
            url = f"127.0.0.1:{ready['port']}"
            step(
                f"two senders on one connection, {seconds} s each",
                [
                    *("bench.two_senders", "--url", f"amqp://guest:guest@{url}", "--pid", ready["pid"]),
                    *(
                        "--seconds",
                        str(seconds),
                        "--output",
                        str(folder / "two.json"),
                        "--page",
                        str(folder / "two.html"),
                    ),
                ],
            )
            step(
                "the tables",
                ["pipeline", "run", "--url", f"amqp://guest@{url}", "--warehouse", str(warehouse)],
                AMQP10_PASSWORD="guest",
                JDK_JAVA_OPTIONS=SMALL_JAVA,
            )  # fmt: skip
    print("--- the report", flush=True)
    figures = read_figures(str(warehouse))
    out.write_text(page(figures))
    return figures.verdicts


def faults_of(verdicts: Sequence[Row]) -> list[str]:
    """The verdicts that the report should have and has not; empty when it is right.

    There are two connections and three links, since the load also has each protocol's classic queue alone.
    """
    older = [row for row in verdicts if row["protocol"] == "amqp-0-9-1"]
    newer = [row for row in verdicts if str(row["address"] or "").endswith(CLASSIC)]
    faults = []
    named = [row for row in older if row["bottleneck"] == "queue" and str(row["culprit"]).endswith(QUORUM)]
    if len(named) != 1:
        faults.append(f"the quorum queue should be the bottleneck of one AMQP 0.9.1 connection, not of {len(named)}")
    if not newer:
        faults.append("there is no verdict on an AMQP 1.0 link to the classic queue")
    faults += [
        f"there should be no bottleneck: {sentence(row)}; {row['evidence']}"
        for row in newer
        if row["bottleneck"] is not None
    ]
    return faults


def main(words: Sequence[str] | None = None) -> int:
    """Run the demonstration; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "pipeline-demo.html", help="the page (pipeline-demo.html)")
    parser.add_argument("--warehouse", type=Path, help="where the tables stay; without it they go when it is over")
    parser.add_argument("--seconds", type=int, default=LOAD_SECONDS, help="of each of the four runs of the load (3)")
    found = parser.parse_args(words)
    with contextlib.ExitStack() as stack:
        warehouse = found.warehouse or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="pipeline-tables-"))
        )  # fmt: skip
        try:
            verdicts = demonstrate(found.out, warehouse, found.seconds)
        except (Failed, NoTables) as problem:
            print(f"pipeline-demo: {problem}", file=sys.stderr)
            return 1
    for verdict in verdicts:
        print(f"{sentence(verdict)}\n    {verdict['evidence']}")
    faults = faults_of(verdicts)
    for fault in faults:
        print(f"pipeline-demo: {fault}", file=sys.stderr)
    print(f"page: {found.out}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
