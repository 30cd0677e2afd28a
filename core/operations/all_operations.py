"""The table: all operations of a broker, in the order of the documentation."""

from core.operations import broker, definitions, links, observed, policies, queues, rows, users, virtual_hosts
from core.operations.operation import Operation

OPERATIONS: tuple[Operation, ...] = (
    *rows.OPERATIONS,
    *broker.OPERATIONS,
    *observed.OPERATIONS,
    *queues.OPERATIONS,
    *links.OPERATIONS,
    *policies.OPERATIONS,
    *definitions.OPERATIONS,
    *users.OPERATIONS,
    *virtual_hosts.OPERATIONS,
)
