"""Rows of the store's lanes: the records that wait, those written and synced, and how long that took."""

from collections.abc import Sequence

from core.interface import Snapshot
from core.store.lane import BATCH_RECORDS, SYNC_SECONDS, Lane


def lane_row(lane: Lane) -> Snapshot:
    """Return the row of one lane."""
    return {
        "name": lane.name,
        "staged_bytes": lane.staged_bytes,
        "written_bytes": lane.written_bytes,
        "records_staged": lane.staged,
        "records_written": lane.written,
        "records_synced": lane.synced,
        "batches": lane.batches,
        "write_seconds": lane.write_seconds,
        "syncs": lane.syncs,
        "sync_seconds": lane.sync_seconds,
        "last_sync_seconds": lane.last_sync_seconds,
        "failed": None if lane.failed is None else str(lane.failed),
        "sync_histogram": _histogram(SYNC_SECONDS, lane.sync_counts),
        "batch_histogram": _histogram(BATCH_RECORDS, lane.batch_counts),
    }


def _histogram(bounds: Sequence[float], counts: Sequence[int]) -> list[Snapshot]:
    return [{"le": bound, "count": count} for bound, count in zip([*bounds, None], counts, strict=True)]
