"""The operations of a broker, which are imported when the first request asks for one.

An idle broker has no such request, and without the modules of the operations it takes 1 MiB less.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from core.slices import Walk
from core.work import Work

if TYPE_CHECKING:
    from core.operations.table import OperationTable

IMPORT_WORK = 10_000
"""Work of importing one of :data:`MODULES`, in units of :mod:`core.work`: 2 to 16 ms each. It ends a peer's turn."""
MODULES = (
    "core.observe.why_chain",
    "core.observe.why_table",
    "core.observe.why_root",
    "core.observe.why",
    "core.observe.timelines",
    "core.definitions_file",
    "core.operations.operation",
    "core.operations.observed",
)
"""The modules that take longest to import, each behind those that it imports. The event loop waits for each of them, so
other tasks may run in between."""


class OperationsOnRequest:
    """The table of all operations, with their paths behind ``before``."""

    def __init__(self, before: str, work: Work) -> None:
        self._before = before
        self._work = work
        self._table: OperationTable | None = None

    def table(self) -> "Walk[OperationTable]":
        """Return the table. The first call imports the operations, one module in each step."""
        if self._table is None:
            for module in MODULES:
                import_module(module)
                self._work.spent += IMPORT_WORK
                yield None
            from core.operations.all_operations import OPERATIONS
            from core.operations.table import OperationTable

            self._table = OperationTable({self._before: OPERATIONS})
        return self._table
