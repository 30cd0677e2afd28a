"""``headgate`` with its allocations traced: what ``python -m tests.soak --allocations`` starts.

The process keeps its state at the second minute. Each later minute it writes to standard error the lines of code that
hold more memory than then, and the kinds of objects that there are more of. The broker is several times slower for it.
"""

import gc
import sys
import threading
import time
import tracemalloc
from collections import Counter

from amqp10.cli.main import main

SETTLED_S = 120.0
EVERY_S = 60.0
SHOWN = 25


def watch() -> None:
    """Write the comparison each minute until the process ends."""
    time.sleep(SETTLED_S)
    first, kinds = tracemalloc.take_snapshot(), count()
    while True:
        time.sleep(EVERY_S)
        now, grown = tracemalloc.take_snapshot(), count() - kinds
        print(f"--- allocations, {time.strftime('%H:%M:%S')}", file=sys.stderr)
        for change in now.compare_to(first, "lineno")[:SHOWN]:
            print(f"  {change}", file=sys.stderr)
        print(f"  objects: {grown.most_common(SHOWN)}", file=sys.stderr, flush=True)


def count() -> Counter[str]:
    """Count the objects by kind."""
    gc.collect()
    gc.unfreeze()
    return Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())


if __name__ == "__main__":
    tracemalloc.start(1)
    threading.Thread(target=watch, daemon=True).start()
    sys.exit(main())
