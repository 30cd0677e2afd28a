"""How long a node holds its event loop while it makes definitions that other nodes have declared.

``python -m tests.cluster.hold --definitions 10000`` makes exchanges, quorum queues, bindings and policies as a follower
does, with the real files of definitions on disk, and prints the longest steps in the loop; then it compares them with
the same state, as each start does. The syncs, which threads do in a broker, are not counted,
nor the time of other programs: it is processor time.
"""

import argparse
import gc
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from core.cluster.definitions_log import Numbered
from core.cluster.following import Following
from core.config.settings import Settings
from core.engine.broker import Broker
from core.engine.quorum.groups import SharedQueue
from core.engine.routing.agreement import AgreedChange, Agreement, ChangeKind
from core.engine.routing.shared_recorder import SharedRecorder
from core.engine.virtual_hosts import VirtualHosts
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from core.store.definition_record import DefinitionRecord
from core.store.definitions import open_definitions
from tests.kit.faulty_disk import MemoryDisk
from tests.kit.storage import KeptDefinitions, open_storage

END = object()


def definitions(count: int) -> list[AgreedChange]:
    """As many changes: a tenth exchanges, a tenth queues, and the rest bindings between them."""
    found: list[AgreedChange] = []
    tenth = min(count // 10, 900)
    for number in range(tenth):
        one = ExchangeDeclaration(name=f"x{number}", type=ExchangeType.TOPIC, arguments={})
        found.append(AgreedChange(ChangeKind.EXCHANGE, "/", one.name, one))
    for number in range(tenth):
        declaration = QueueDeclaration(name=f"q{number}", arguments={"x-queue-type": "quorum"})
        queue = SharedQueue("/", declaration, f"{number + 1:032x}")
        found.append(AgreedChange(ChangeKind.QUEUE, "/", declaration.name, queue))
    for number in range(count - 2 * tenth):
        source, destination = f"x{number % tenth}", f"q{number % tenth}"
        binding = Binding(
            source=source, destination=destination, destination_is_queue=True, binding_key=f"k.{number}", arguments={}
        )
        found.append(AgreedChange(ChangeKind.BINDING, "/", f"{source} to {destination}", binding))
    return found


def hold(count: int, folder: Path) -> list[float]:
    """Return the processor time of each step in the loop, in seconds."""
    agreement = Agreement()
    database = open_definitions(folder, new_identity=lambda: "0" * 32)
    storage = open_storage(MemoryDisk(), KeptDefinitions())
    storage.recorder = SharedRecorder(database, database, "/", agreement)
    broker = Broker(Settings(), storage=storage)
    begun: list[DefinitionRecord] = []
    database.record_in_steps(begun.append)
    following = Following(VirtualHosts(broker), agreement, time.perf_counter, lambda event, facts: print(event, facts))
    changes = deque(Numbered(number, change) for number, change in enumerate(definitions(count), 1))
    steps: list[float] = []
    while changes:
        began = time.thread_time()
        following.make(changes)
        steps.append(time.thread_time() - began)
        while begun:
            record = begun.pop()
            while not record.done:
                record.wait()
                began = time.thread_time()
                record.proceed()
                steps.append(time.thread_time() - began)
    comparing = following.differences(definitions(count), removes=True)
    while True:
        began = time.thread_time()
        found = next(comparing, END)
        steps.append(time.thread_time() - began)
        if found is END:
            break
        assert found is None, "the state is what there is"
    database.record_in_steps(None)
    database.close()
    return steps


def main(arguments: Sequence[str]) -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--definitions", type=int, default=10_000)
    count = parser.parse_args(arguments).definitions
    gc.disable()  # a broker bounds its collections: core.process.bound_collections
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        steps = sorted(hold(count, Path(folder)))
        took = time.perf_counter() - began
    print(
        f"{count} definitions in {took:.1f} s, {len(steps)} steps: the longest {steps[-1] * 1000:.1f} ms, "
        f"99 % within {steps[int(len(steps) * 0.99)] * 1000:.1f} ms, half within {steps[len(steps) // 2] * 1000:.1f} ms"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
