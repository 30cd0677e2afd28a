"""A load process: `python -m amqp10.load`; `stages` says what it is told and what it answers."""

from __future__ import annotations

import resource
import struct
import sys

from amqp10.load.lines import Lines
from amqp10.load.stages import carry_out


def main() -> int:
    """Carry out one plan."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    return carry_out(Lines, IndexError, struct.error)


if __name__ == "__main__":
    sys.exit(main())
