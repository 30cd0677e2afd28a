"""The operations are imported by the first request, one module in each step, and each step ends a peer's turn."""

from core.operations.all_operations import OPERATIONS
from core.operations.on_request import IMPORT_WORK, MODULES, OperationsOnRequest
from core.slices import run_at_once
from core.work import Work


def test_each_module_is_a_step_and_counts_as_work():
    work = Work()
    spent = [work.spent for _ in OperationsOnRequest("/headgate", work).table()]
    assert spent == [IMPORT_WORK * number for number in range(1, len(MODULES) + 1)]


def test_the_table_is_made_once():
    operations = OperationsOnRequest("/headgate", Work())
    table = run_at_once(operations.table())
    assert {entry.operation.name for entry in table.entries} == {operation.name for operation in OPERATIONS}
    assert [*operations.table()] == []
    assert run_at_once(operations.table()) is table
