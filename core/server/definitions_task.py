"""Takes changes of the definitions to the disk, in threads beside the event loop."""

from collections.abc import Callable

import trio

from core.server.storage_task import RunBlocking
from core.store.definition_record import DefinitionRecord
from core.store.definitions import DefinitionsDatabase


async def record_definitions(
    definitions: DefinitionsDatabase, run_blocking: RunBlocking, progressed: Callable[[], None]
) -> None:
    """Take the steps of records as they are begun, until cancelled. ``progressed`` is called when a record is on the
    disk, or cannot be recorded; it takes a turn."""

    async def take_steps(record: DefinitionRecord) -> None:
        while not record.done:
            await run_blocking(record.wait)
            record.proceed()
        progressed()

    async with trio.open_nursery() as nursery:

        def begun(record: DefinitionRecord) -> None:
            nursery.start_soon(take_steps, record)

        definitions.record_in_steps(begun)
        try:
            await trio.sleep_forever()
        finally:
            definitions.record_in_steps(None)
