"""Compacts a data folder that no broker uses, at once; a running broker compacts its folder step by step."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import structlog
import trio

from amqp10.conversion.annotation_codec import SectionCodec
from core.alarms.registry import AlarmRegistry
from core.config.store import StoreSettings
from core.process import new_identity
from core.server.data import OpenData
from core.server.run import read_clocks
from core.store.reserve import RESERVE_FILE

IDLE_STEPS = 3
"""Compaction ends after so many steps in a row with nothing to do: a file is deleted one sync after its last message
is gone."""
STEP_SECONDS = 0.05


def compacted(folder: Path) -> Iterator[str]:
    """Compact the folder and yield the line to print: its bytes before and after.

    Raises StoreRefused, StoreDamaged, StoreFailure, NoSpace.
    """
    before = _bytes_in(folder)
    log = structlog.wrap_logger(None, processors=[_drop], wrapper_class=structlog.make_filtering_bound_logger(50))
    trio.run(partial(_compact, folder, log))
    after = _bytes_in(folder)
    yield f"{before:,} bytes before, {after:,} bytes after"


async def _compact(folder: Path, log: structlog.typing.FilteringBoundLogger) -> None:
    data = OpenData(
        folder,
        StoreSettings(space_reserve=0),  # compaction may use the reserve; the next start sets it aside again
        clock=read_clocks,
        log=log,
        annotations=SectionCodec(),
        new_identity=new_identity,
    )
    try:
        async with trio.open_nursery() as nursery:
            for task in data.tasks(AlarmRegistry()):
                nursery.start_soon(task, _no_turn)
            idle = 0
            while idle < IDLE_STEPS:
                idle = 0 if data.compact_step() else idle + 1
                await trio.sleep(STEP_SECONDS)
            nursery.cancel_scope.cancel()
        await data.leave_in_order(_no_turn)
    finally:
        data.close()


def _no_turn() -> None:
    """Stands for the call that asks for a turn of the engine; there is no engine here."""


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != RESERVE_FILE)


def _drop(*event: object) -> dict[str, object]:
    raise structlog.DropEvent
