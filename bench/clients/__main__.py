"""The clients with which benchmarks can send and receive: which are there, and the build of those in Go and JavaScript.

Examples:
  python -m bench.clients
  python -m bench.clients build
  python -m bench.clients build javascript
  python -m bench.run unbatched-12 --client go-amqp

Exit status: 0; 1 when the build fails.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench.clients.programs import PROTOCOLS, ClientError, build, missing


def main(words: Sequence[str] | None = None) -> int:
    """The command line; see the module's description."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["list", "build"], default="list")
    parser.add_argument("language", nargs="?", choices=["go", "javascript"], default="go")
    asked = parser.parse_args(words)
    if asked.what == "build":
        print(f"building the clients in {asked.language}; the first time, their libraries are fetched", flush=True)
        try:
            program = build(asked.language)
        except ClientError as problem:
            print(f"cannot build: {problem}", file=sys.stderr)
            return 1
        print(f"built: {program}")
        return 0
    for client, protocols in PROTOCOLS.items():
        print(f"{client:12} AMQP {' and '.join(protocols):14} {missing(client) or 'there'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
