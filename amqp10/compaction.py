"""Compacting a data folder that no broker uses: what a running broker does by and by, done at once."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import structlog
import trio

from amqp10.annotation_codec import SectionCodec
from core.alarms.registry import AlarmRegistry
from core.config.store import StoreSettings
from core.process import new_identity
from core.server.data import OpenData
from core.server.run import read_clocks
from core.store.reserve import RESERVE_FILE

IDLE_STEPS = 3
"""So often in a row nothing was left to do: files go one sync after their last message."""
STEP_SECONDS = 0.05


def compacted(folder: Path) -> Iterator[str]:
    """Compact, and say what it brought. Raises StoreRefused, StoreDamaged, StoreFailure, NoSpace."""
    before = _bytes_in(folder)
    log = structlog.wrap_logger(None, processors=[_drop], wrapper_class=structlog.make_filtering_bound_logger(50))
    trio.run(partial(_compact, folder, log))
    after = _bytes_in(folder)
    yield f"{before:,} bytes before, {after:,} bytes after"


async def _compact(folder: Path, log: structlog.typing.FilteringBoundLogger) -> None:
    data = OpenData(
        folder,
        StoreSettings(space_reserve=0),  # what is held back is for this; the next start holds it back again
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
    """There is no engine that could take one."""


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != RESERVE_FILE)


def _drop(*event: object) -> dict[str, object]:
    raise structlog.DropEvent
