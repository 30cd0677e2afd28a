"""Files of definitions in a folder of the test, opened without a broker."""

from contextlib import closing
from pathlib import Path
from typing import Any

from core.engine.routing.topology import numbered_identities
from core.interface import ExchangeType
from core.store.definitions import Definitions, DefinitionsDatabase, PolicyDeclaration, open_definitions
from tests.kit.engine import binding, exchange, queue

IDENTITY = "0123456789abcdef" * 2

POLICY = PolicyDeclaration(
    name="p", pattern="^q", priority=-3, apply_to="queues", definition={"ha-mode": "nodes", "ha-params": ["a", "b"]}
)


def opened_at(path: Path, **options: Any) -> DefinitionsDatabase:
    """Open the definitions whose first file this is."""
    return open_definitions(path.parent, new_identity=numbered_identities(), **options)


def reopened(database: DefinitionsDatabase, path: Path) -> Definitions:
    """Close the files and load what is in them."""
    database.close()
    with closing(opened_at(path)) as again:
        return again.load()


def filled(database: DefinitionsDatabase) -> None:
    """Declare something of each kind."""
    database.add_queue(queue("q", x_max_length=5, own={"deep": [1, 2.5, None, "ü"]}, flag=True), IDENTITY)
    database.add_queue(queue("auto", auto_delete=True), IDENTITY)
    database.add_exchange(exchange("e", kind=ExchangeType.TOPIC, internal=True))
    database.add_binding(binding("e", "q", "a.#", x_match="any"))
    database.add_binding(binding("amq.topic", "e", to_exchange=True))
    database.set_policy(POLICY)
