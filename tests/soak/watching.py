"""Clients that watch the broker during the soak: a Prometheus, a dashboard, an open console, a sampler of its
process."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import trio

from tests.soak.verdict import Sample

SCRAPE_SECONDS = 10.0
"""How long Prometheus waits for an answer by default."""
LOOKS = (
    "/metrics/links",
    "/api/overview",
    "/api/queues",
    "/api/connections",
    "/api/headgate/flow-map",
    "/readyz",
    "/api/headgate/stalls",
    "/",
)
"""Pages that are read in turn beside /metrics."""
FAILURES_KEPT = 20


@dataclass(slots=True)
class Scrapes:
    """How long answers took, and which requests failed."""

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    longest_path: str = ""
    bytes_max: int = 0
    slow: Counter[int] = field(default_factory=Counter)
    """The number of answers that took 1 s and longer, by whole seconds."""
    failed: int = 0
    failures: list[str] = field(default_factory=list)

    def note(self, path: str, seconds: float, size: int) -> None:
        """Note one answer."""
        self.count += 1
        self.seconds += seconds
        self.bytes_max = max(self.bytes_max, size)
        if seconds > self.longest:
            self.longest, self.longest_path = seconds, path
        if seconds >= 1.0:
            self.slow[int(seconds)] += 1

    def fail(self, what: str) -> None:
        """Note a request that failed or had a wrong answer."""
        self.failed += 1
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(what)


async def scrape(admin_url: str, scrapes: Scrapes, every_s: float) -> None:
    """Read the metrics and one more page, again and again, on connections that are kept as Prometheus keeps them."""
    number = 0
    async with httpx.AsyncClient(base_url=admin_url, timeout=SCRAPE_SECONDS) as client:
        while True:
            for path in ("/metrics", LOOKS[number % len(LOOKS)]):
                await _ask(client, path, scrapes)
            number += 1
            await trio.sleep(every_s)


async def _ask(client: httpx.AsyncClient, path: str, scrapes: Scrapes) -> None:
    began = trio.current_time()
    try:
        with trio.fail_after(SCRAPE_SECONDS):
            answer = await client.get(path)
    except (httpx.HTTPError, trio.TooSlowError) as error:
        scrapes.fail(f"GET {path}: {error!r} after {trio.current_time() - began:.1f} s")
        return
    if answer.status_code == 200:
        scrapes.note(path, trio.current_time() - began, len(answer.content))
    else:
        scrapes.fail(f"GET {path}: {answer.status_code} {answer.text[:200]}")


async def follow(admin_url: str) -> None:
    """Keep a console open and read what it is sent. Open it again after half a minute, as people do."""
    async with httpx.AsyncClient(base_url=admin_url, timeout=None) as client:
        while True:
            with trio.move_on_after(30):
                async with client.stream("GET", "/api/headgate/live") as answer:
                    async for _ in answer.aiter_bytes():
                        pass
                raise AssertionError("the live stream has ended")


def sample(pid: int, folder: Path, at: float) -> Sample:
    """Take a sample. Raises ProcessLookupError when the process has ended."""
    process = Path(f"/proc/{pid}")
    try:
        pages = int((process / "statm").read_text().split()[1])
        descriptors = len(os.listdir(process / "fd"))
        threads = len(os.listdir(process / "task"))
    except (FileNotFoundError, IndexError) as error:
        raise ProcessLookupError(f"the broker's process {pid} is gone") from error
    sizes = list(_sizes(folder))
    return Sample(at, pages * os.sysconf("SC_PAGE_SIZE"), descriptors, threads, len(sizes), sum(sizes))


def _sizes(folder: Path) -> Iterator[int]:
    """The size of all files. A file that is removed meanwhile does not count."""
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.stat(os.path.join(place, name)).st_size
            except FileNotFoundError:
                continue


def cpu_seconds(pid: int) -> float:
    """CPU time of the process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
