"""``python -m tests.faults.full_disk_start --runs N``: start a broker N times on a disk without a free byte.

The disk is a tmpfs of some MiB in a mount namespace of its own, filled up before every start. Each start must succeed
and count itself, the disk alarm must be on, publishers must wait, and consumers must get messages and settle them. When
the other half of the reserve is taken too, declarations must be refused. Then the broker is killed or stopped, with the
disk as full as before; every tenth time space comes back first, and publishers must go on by themselves. Nothing that
was confirmed may be missing.

For example:

    python -m tests.faults.full_disk_start --runs 100
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import trio

from amqp10.client import ClientConnection, connect
from amqp10.client_core.errors import RequestRefused
from amqp10.wire.messaging import Accepted
from core.store.folder import FORMAT_FILE
from tests.crash.cycle import CLIENT, KINDS, Subject, audit, broker, declare, encoded, log_of, number_of
from tests.crash.ledger import Verdict
from tests.faults.run import show

DISK_BYTES = 24 * 2**20
CONFIGURATION = """
[store]
space_reserve = "2MiB"
queue_index_embed_msgs_below = 0
[alarms]
disk_free_limit = "4MiB"
"""
FILLER = "filler"
"""The name of a file beside the broker's that takes all the space."""
PUBLISHED = 40
"""Messages to each queue, published while there is space."""
TAKEN = 3
"""Messages from each queue, taken at a start."""
SPACE_EVERY = 10
NAME_BYTES = 200
DECLARATIONS_MAX = 200
STEP_SECONDS_MAX = 60.0
WAITING_S = 0.1
"""How long a publisher that must wait is watched."""


class FullDiskStarts:
    """Brokers that start one after another on one full disk."""

    def __init__(self, folder: Path, seed: int, *, space_every: int = SPACE_EVERY) -> None:
        self.did: Counter[str] = Counter()
        self.verdicts = {kind: Verdict() for kind in KINDS}
        self._space_every = space_every
        self._folder = folder
        self._rng = random.Random(seed)
        self._subjects = [Subject(kind, kind) for kind in KINDS]
        self._configuration = folder.with_name("broker.toml")
        self._configuration.write_text(CONFIGURATION)
        self._log_seen = 0

    async def run(self, runs: int, *, say: bool = False) -> None:
        """Start this many brokers on a full disk. Raises AssertionError for the first that breaks a promise."""
        began = time.monotonic()
        await self._live(full=False, end=signal.SIGKILL)
        for number in range(runs):
            space = (number + 1) % self._space_every == 0
            self._fill()
            await self._live(
                full=True, end=self._rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)), space=space
            )
            if say and space:
                print(f"{number + 1} starts, {time.monotonic() - began:.0f} s", flush=True)

    async def _live(self, *, full: bool, end: signal.Signals, space: bool = False) -> None:
        starts = self._starts()
        with trio.fail_after(STEP_SECONDS_MAX):
            async with broker(self._folder, "--config", str(self._configuration)) as (url, process):
                assert self._starts() == starts + 1
                async with connect(url, CLIENT) as connection:
                    if full:
                        await self._serve_without_space(url, connection)
                    if space:
                        (self._folder / FILLER).unlink()
                    if space or not full:
                        await self._publish(connection)
                    process.send_signal(end)
                    await trio.to_thread.run_sync(process.wait)
                    self.did[f"ended by {end.name}"] += 1
        assert process.returncode == (0 if end is signal.SIGTERM else -end), f"exit code {process.returncode}"
        self._check_log()

    def _starts(self) -> int:
        try:
            return int(json.loads((self._folder / FORMAT_FILE).read_text())["starts"])
        except FileNotFoundError:
            return 0

    def _fill(self) -> None:
        """Fill the disk to the last byte."""
        with (self._folder / FILLER).open("ab", buffering=0) as file:
            for size in (2**20, 4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    async def _serve_without_space(self, url: str, connection: ClientConnection) -> None:
        answer = await connection.request("GET", "/headgate/alarms")
        assert "disk" in str(answer.body), answer
        for subject in self._subjects:
            verdicts: dict[str, Verdict] = {}
            await audit(connection, subject, verdicts, settle=False)
            self.verdicts[subject.kind].add(verdicts[subject.kind])
        async with connect(url, CLIENT) as publishing:
            for subject in self._subjects:
                await self._must_wait(publishing, subject)
        for subject in self._subjects:
            if subject.settles:
                await self._take(connection, subject)
        self._fill()  # also the part of the reserve that is for consumers
        await self._declare_until_refused(connection)
        self.did["starts on a full disk"] += 1

    async def _declare_until_refused(self, connection: ClientConnection) -> None:
        """Declare queues until the broker refuses. Some of them fit into half of the reserve."""
        for number in range(DECLARATIONS_MAX):
            name = f"new-{self._starts()}-{number}".ljust(NAME_BYTES, "-")
            try:
                await connection.request("PUT", f"/queues/{name}", {"durable": True})
            except RequestRefused as refused:
                if "cannot be kept" in str(refused):
                    return
                raise
            self.did["declared"] += 1
        raise AssertionError(f"{DECLARATIONS_MAX} declarations found space on a full disk")

    async def _must_wait(self, connection: ClientConnection, subject: Subject) -> None:
        sender = await connection.open_sender(f"/queues/{subject.name}")
        with trio.move_on_after(WAITING_S) as waiting:
            number = subject.next_number
            subject.next_number += 1
            subject.ledger.uncertain.add(number)
            await sender.send(encoded(number))
        assert waiting.cancelled_caught, "a publisher was served on a full disk"

    async def _take(self, connection: ClientConnection, subject: Subject) -> None:
        receiver = await connection.open_receiver(f"/queues/{subject.name}")
        for delivery in await receiver.receive_batch(TAKEN):
            number = number_of(delivery.message)
            subject.ledger.seen.add(number)
            subject.ledger.going.add(number)
            delivery.accept()
            self.did["drained"] += 1
        await receiver.close()

    async def _publish(self, connection: ClientConnection) -> None:
        for subject in self._subjects:
            await declare(connection, subject)
            sender = await connection.open_sender(f"/queues/{subject.name}")
            for _ in range(PUBLISHED):
                number = subject.next_number
                subject.next_number += 1
                subject.ledger.uncertain.add(number)
                assert isinstance(await sender.send(encoded(number)), Accepted)
                subject.ledger.uncertain.discard(number)
                subject.ledger.confirmed.add(number)
                self.did["published"] += 1
            await sender.close()

    def _check_log(self) -> None:
        for line in log_of(self._folder).read_text()[self._log_seen :].splitlines():
            assert line.startswith("{"), f"in the log: {line}"
            assert json.loads(line)["level"] != "error", line
        self._log_seen = len(log_of(self._folder).read_text())


def in_a_namespace(arguments: Sequence[str]) -> list[str]:
    """The command that runs this program with mounts of its own, which end with it."""
    who = [] if os.geteuid() == 0 else ["--map-root-user"]
    module = [sys.executable, "-m", "tests.faults.full_disk_start", *arguments, "--inside"]
    return ["unshare", "--mount", *who, *module]


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        prog="python -m tests.faults.full_disk_start",
    )
    parser.add_argument("--runs", type=int, default=100, help="how often to start (default 100)")
    parser.add_argument("--seed", type=int, default=1, help="repeats a run's random choices (default 1)")
    parser.add_argument("--space-every", type=int, default=SPACE_EVERY, help="starts after which space comes back")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.inside:
        sys.exit(subprocess.run(in_a_namespace(sys.argv[1:])).returncode)
    folder = Path(tempfile.mkdtemp(prefix="headgate-full-disk-"))
    (folder / "data").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder / "data"], check=True)
    starts = FullDiskStarts(folder / "data", arguments.seed, space_every=arguments.space_every)
    try:
        trio.run(partial(starts.run, arguments.runs, say=True))
    except* AssertionError as errors:
        told = log_of(folder / "data").read_text().splitlines()[-5:]
        sys.exit("\n".join([f"seed {arguments.seed}: {errors.exceptions[0]}", *told]))
    show(starts.verdicts, starts.did)
    subprocess.run(["umount", folder / "data"], check=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
