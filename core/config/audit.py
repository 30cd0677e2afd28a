"""Settings of the audit log."""

from typing import Annotated, Literal

from pydantic import Field

from core.config.section import Section
from core.config.units import Bytes, FilePath, Unit

AuditEvent = Literal["logins", "refusals", "definitions", "users", "operations"]
"""What is recorded: logins; acts that a right forbids; queues, exchanges, bindings and policies that clients and
operators change; users and their rights; what operators do."""


class AuditSettings(Section):
    """A record of who did what, from where, with which result."""

    file: FilePath | None = None
    """The file of the audit log, JSON lines, readable for the broker's own user only. Its folder must exist. Without
    it nothing is recorded."""

    events: tuple[AuditEvent, ...] = Field(
        default=("logins", "refusals", "definitions", "users", "operations"), strict=False
    )
    """What is recorded."""

    file_size_max: Bytes = Field(default=16 * 2**20, ge=2**16, le=2**40)
    """The size of one file. A full file is kept under the same name with .1, the one before with .2, and so on."""

    files_max: Annotated[int, Unit("files")] = Field(default=10, ge=1, le=1_000)
    """The files that are kept, with the one that is written; the oldest is deleted."""

    waiting_max: Annotated[int, Unit("records")] = Field(default=10_000, ge=10, le=1_000_000)
    """Records that wait for the disk, about one KiB each."""

    recent_max: Annotated[int, Unit("records")] = Field(default=500, ge=0, le=100_000)
    """Records kept in memory for the console and ``headgate audit-log list``, about one KiB each."""

    refused_per_second_max: Annotated[int, Unit("records a second")] = Field(default=20, ge=1, le=100_000)
    """Acts of one user from one address that were refused or failed, for each kind of event. Logins that were refused
    count together for one address."""
