"""A folder of generated events: Parquet files, and their answers in ``_answers.json``, which readers ignore."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path

import cbor2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.generate.tiles import Tiling, chunks, opening, ramp_table
from pipeline.generate.workloads import RAMP_CAPACITY, STALL_US, Load, loads, ramp
from pipeline.tables.packets import MICROSECONDS
from pipeline.tables.records import FIELDS, FLOW_EVENTS, VERSION, VERSION_KEY

NODE = "generated"
ANSWERS = "_answers.json"
PACKET_RECORDS = 500
"""Records of a generated packet; the broker puts up to 1000 into one."""
INTERVAL_S = 0.01
OPENING_RECORDS = 2
"""Records at the beginning of a connection: it opens, and its link is attached."""


class NotGenerated(Exception):
    """The folder cannot be written to, or the figures make no sense. The text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The values that the tables must find."""

    workload: str
    events: int
    seconds: int
    transfers: dict[str, int]
    """Transfers by link."""
    bottleneck: str | None
    culprits: dict[str, str | None]
    """The culprit by connection."""
    blocked_us: dict[str, int]
    """Blocked time of finished intervals, by link."""
    open_intervals: int
    capacity: int | None = None
    """Messages per second, for the ramp."""

    @staticmethod
    def read(folder: Path) -> "Answers":
        """Read the answers of a generated folder."""
        return Answers(**json.loads((folder / ANSWERS).read_text()))


def generate(
    folder: Path,
    workload: str,
    *,
    events: int,
    connections: int,
    records: int,
    seed: int,
    packets: bool = False,
    exactly: bool = False,
    node: str = NODE,
    progress: Callable[[int, int], None],
) -> Answers:
    """Generate at least so many events, as rows of ``flow_events`` or packed as the broker packs them.

    ``records`` are activity records per link and second. ``exactly`` cuts the last second short, so that there are no
    more events than requested; loads that are blocked have answers for whole seconds only. ``progress`` is called with
    the number of events written and the number in all. Raises NotGenerated.
    """
    if folder.exists() and any(folder.iterdir()):
        raise NotGenerated(f"{folder} is not empty; name a new folder, or remove what is there")
    if min(events, connections, records) < 1 or records > 1000:
        raise NotGenerated("events and connections must be 1 or more, and records per second from 1 to 1000")
    if exactly:
        _check_exact(workload, events, connections)
    folder.mkdir(parents=True, exist_ok=True)
    if workload == "ramp":
        tables, answers = _ramp(node)
    else:
        load = loads(records)[workload]
        beats = -(-events // (connections * len(load.beat)))
        wanted = events - OPENING_RECORDS * connections if exactly else beats * connections * len(load.beat)
        tables, answers = _tiled(workload, Tiling(load, connections, wanted, seed, node))
    counted, numbers = 0, count()
    for number, table in enumerate(tables):
        counted += len(table)
        file = folder / f"part-{number:05}.parquet"
        pq.write_table(_packed(table, numbers, node) if packets else table, file, compression="zstd")
        progress(counted, max(counted, answers.events))
    (folder / ANSWERS).write_text(json.dumps(asdict(answers), indent=1) + "\n")
    return answers


def _check_exact(workload: str, events: int, connections: int) -> None:
    if workload in ("ramp", "stalls"):
        raise NotGenerated(f"{workload} is made in whole seconds only: its answers are of whole seconds")
    if events <= OPENING_RECORDS * connections:
        raise NotGenerated(
            f"{events} events are too few for {connections} connections: each opens and attaches a link first,"
            f" so ask for more than {OPENING_RECORDS * connections}"
        )


def _tiled(workload: str, tiling: Tiling) -> tuple[Iterator[pa.Table], Answers]:
    load, numbers = tiling.load, range(tiling.connections)
    links = [load.link.format(n=number) for number in numbers]
    moved = np.zeros(tiling.connections, np.int64)
    answers = Answers(
        workload=workload,
        events=tiling.records + OPENING_RECORDS * tiling.connections,
        seconds=tiling.seconds,
        transfers={},
        bottleneck=load.bottleneck,
        culprits={f"c{n}": load.culprit and load.culprit.format(n=n) for n in numbers},
        blocked_us=dict.fromkeys(links, tiling.seconds * STALL_US) if workload == "stalls" else {},
        open_intervals=tiling.connections if workload == "stalls" else 0,
    )

    def tables() -> Iterator[pa.Table]:
        yield opening(load, tiling.connections, tiling.node)
        for table, transfers in chunks(tiling):
            np.add(moved, transfers, out=moved)
            yield table
        answers.transfers.update(zip(links, moved.tolist(), strict=True))

    return tables(), answers


def _ramp(node: str) -> tuple[Iterator[pa.Table], Answers]:
    load: Load = loads(1)["links"]
    table, seconds = ramp_table(node), ramp()
    answers = Answers(
        workload="ramp",
        events=len(table) + 2,
        seconds=len(seconds),
        transfers={"c0/0/0": sum(second.transfers for second in seconds)},
        bottleneck="store-slow",
        culprits={"c0": "store"},
        blocked_us={"c0/0/0": sum(max(second.blocked_us - 1, 0) for second in seconds)},
        open_intervals=0,
        capacity=RAMP_CAPACITY,
    )
    return iter([opening(load, 1, node), table]), answers


def _packed(table: pa.Table, numbers: Iterator[int], node: str) -> pa.Table:
    """The records as messages with packets; a packet's offset is its sequence number."""
    records = (record for batch in table.to_batches() for record in batch.to_pylist())
    offsets, bodies = [], []
    while some := list(islice(records, PACKET_RECORDS)):
        offsets.append(next(numbers))
        bodies.append(packet(some, sequence=offsets[-1], node=node))
    return pa.table({"offset": pa.array(offsets, pa.int64()), "body": pa.array(bodies, pa.binary())})


def packet(records: list[dict[str, object]], *, sequence: int, node: str) -> bytes:
    """Pack rows of ``flow_events`` as the broker packs them."""
    header = {VERSION_KEY: VERSION, "node": node, "sequence": sequence, "records": len(records), "interval": INTERVAL_S}
    return cbor2.dumps(header) + b"".join(cbor2.dumps(_record(record)) for record in records)


def _record(row: dict[str, object]) -> dict[str, object]:
    names = ("kind", "at", *FIELDS[str(row["kind"])])
    return {name: _value(name, row[name]) for name in names if row.get(name) is not None}


def _value(name: str, value: object) -> object:
    if FLOW_EVENTS[name] != "timestamp":
        return value
    return value / MICROSECONDS if isinstance(value, int) else value.timestamp()  # type: ignore[attr-defined]
