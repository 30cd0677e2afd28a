"""Definitions as a file: exchanges, queues, bindings and policies as JSON, in RabbitMQ's format.

Import: the bytes of a file are read and checked (``reading``) and compared with the broker's definitions (``compare``);
the differences become steps in a valid order. Export: snapshots of the broker become the same kind of document
(``snapshots``), which becomes text (``writing``). Both use the same checks.

This package does not talk to a broker, read files or know protocols; the caller takes the steps. Begin reading with
``document.py``.
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
