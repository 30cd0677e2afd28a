"""``python -m tests.kit.cycle_counter PIPE ...``: the command ``headgate``, told by signals to look for cycles.

SIGUSR1: from now on nothing is collected. SIGUSR2: count what only a look for cycles would have collected since, by
type, and write the counts into the named pipe, which waits until they are read.
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
