"""The definitions made anew from the descriptions in the queues' folders, when both files are damaged."""

from collections.abc import Sequence
from contextlib import closing

from core.store.definition_rows import StoredQueue, packed
from core.store.definitions import DEFAULT_HOST
from core.store.sealed_file import Seal, Statement, amended_image, new_image, opened_image


def rebuilt_image(
    image: bytes | None, described: Sequence[tuple[StoredQueue, str, int]], *, generation: int, last_number: int
) -> tuple[bytes, Sequence[tuple[StoredQueue, str]]]:
    """Return the bytes of a file with the definitions of ``image`` and the queues that folders describe (queue, virtual
    host, generation), and the queues that were added, each with its virtual host.

    The generation of the file is above ``generation`` and that of ``image``.
    """
    with closing(opened_image(image or new_image(DEFAULT_HOST))) as connection:
        seal = Seal(*connection.execute("SELECT generation, rows, digest, last_number FROM seal").fetchone())
        hosts = {str(name): number for number, name in connection.execute("SELECT id, name FROM vhosts")}
        known = {(host, str(name)) for host, name in connection.execute("SELECT vhost, name FROM queues")}
        numbers = {number for (number,) in connection.execute("SELECT id FROM queues UNION SELECT id FROM deleted")}
    statements: list[Statement] = []
    added = []
    for queue, host, _ in described:
        if queue.id in numbers or (hosts.get(host), queue.declaration.name) in known:
            continue
        if host not in hosts:
            hosts[host] = max(hosts.values()) + 1
            statements.append(("INSERT INTO vhosts VALUES (?, ?)", (hosts[host], host)))
        known.add((hosts[host], queue.declaration.name))
        numbers.add(queue.id)
        added.append((queue, host))
        row = (
            queue.declaration.name,
            queue.declaration.auto_delete,
            packed(queue.declaration.arguments),
            queue.identity,
        )
        statements.append(("INSERT INTO queues VALUES (?, ?, ?, ?, ?, ?)", (queue.id, hosts[host], *row)))
    generation = max(seal.generation, generation) + 1
    last = max(seal.last_number, last_number)
    base = image or new_image(DEFAULT_HOST)
    return amended_image(base, statements, generation=generation, last_number=last), added
