"""``python -m tests.kit.cycle_counter PIPE ...``: the command ``headgate``, which counts reference cycles on signals.

SIGUSR1 switches the garbage collector off. SIGUSR2 counts by type the objects since then that only the garbage
collector can free, and writes the counts into the named pipe. The broker waits until the pipe is read.
"""

import gc
import json
import signal
import sys
from collections import Counter
from pathlib import Path

from amqp10.cli.main import main


def _begin(signum: int, frame: object) -> None:
    gc.collect()
    gc.freeze()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)


def _tell(signum: int, frame: object) -> None:
    gc.collect()
    counts = Counter(f"{type(lost).__module__}.{type(lost).__qualname__}" for lost in gc.garbage)
    gc.garbage.clear()
    PIPE.write_text(json.dumps(counts))


if __name__ == "__main__":
    PIPE = Path(sys.argv.pop(1))
    signal.signal(signal.SIGUSR1, _begin)
    signal.signal(signal.SIGUSR2, _tell)
    main()
