"""Definitions as a file: exchanges, queues, bindings and policies as JSON, in the form that RabbitMQ's users have.

The way of a file into a broker: its bytes are read and checked (``reading``), compared with what the broker has
(``compare``), and what differs becomes steps in an order that works. The way out: snapshots of the broker become the
same document (``snapshots``) and that becomes text (``writing``). Both ways pass the same checks.

Nothing here talks to a broker, reads a file or knows a protocol; whoever takes the steps does.
"""

from core.definitions_file.compare import Action, Change, Difference, Step, compare, steps, unknown_ends
from core.definitions_file.document import Document, Remark, Thing, identity, kind_of, label, summary
from core.definitions_file.json_values import FILE_BYTES_MAX
from core.definitions_file.reading import Reading, read
from core.definitions_file.snapshots import KINDS, from_snapshots
from core.definitions_file.writing import as_value, shown, text

__all__ = [
    "FILE_BYTES_MAX",
    "KINDS",
    "Action",
    "Change",
    "Difference",
    "Document",
    "Reading",
    "Remark",
    "Step",
    "Thing",
    "as_value",
    "compare",
    "from_snapshots",
    "identity",
    "kind_of",
    "label",
    "read",
    "shown",
    "steps",
    "summary",
    "text",
    "unknown_ends",
]
