"""Settings of the store: files, syncs, garbage, and what happens to a damaged store."""

from typing import Annotated

from pydantic import Field

from core.config.section import Section
from core.config.units import Bytes, Seconds, Unit


class StoreSettings(Section):
    """How messages are kept on disk."""

    queue_index_embed_msgs_below: Bytes = Field(default=4096, ge=0)
    """Bodies of this size or more go to the message store, once for all queues; smaller ones go into the queue's
    index."""

    msg_store_file_size_limit: Bytes = Field(default=16 * 2**20, ge=65_536)
    """A file of the message store is closed when it has reached this size."""

    garbage_fraction: Annotated[float, Unit("a share")] = Field(default=0.5, ge=0.1, le=0.9)
    """The message store is compacted when more than this share of its bytes is garbage."""

    sync_interval: Seconds = Field(default=0.2, ge=0.001)
    """Records of classic queues and streams are synced at least this often; a power cut may lose what was written
    since."""

    sync_delay: Seconds = Field(default=0.0, ge=0, le=1)
    """Every sync takes this much longer than the disk needs: only for tests and benchmarks with a slow disk."""

    write_delay: Seconds = Field(default=0.0, ge=0, le=1)
    """Every write of a batch takes this much longer than the disk needs, in a worker thread whatever its size: only for
    tests and benchmarks with a slow disk."""

    inline_write_max: Bytes = Field(default=262_144, ge=0)
    """Batches of this size or less are written without a worker thread, as long as such writes are quick. 0: none."""

    no_space_retry: Seconds = Field(default=0.25, ge=0.01)
    """How long to wait before a write that found no space is tried again."""

    space_reserve: Bytes = Field(default=8 * 2**20, ge=0)
    """Disk space that the file reserve holds back: one half for starts, one for brokers that run on a full disk. 0: no
    such file, and no start on a full disk."""

    open_files_max: Annotated[int, Unit("files")] = Field(default=256, ge=8)
    """Files that are kept open at the same time; fewer when sockets need the descriptors."""

    command_log_file_size_limit: Bytes = Field(default=64 * 2**20, ge=65_536)
    """A file of the quorum queues' command log is closed when it has reached this size."""

    salvage: bool = False
    """Start although synced records are damaged, and lose these records. Otherwise such a store is refused."""
