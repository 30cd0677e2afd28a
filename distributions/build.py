"""Makes the wheels and source distributions of this tree: ``python distributions/build.py FOLDER``.

``make wheels`` names ``dist``.

It needs hatchling in the environment, and no network.
"""

import os
import subprocess
import sys
from pathlib import Path

from siblings import BY_VERSION

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = ("distributions/amqp10", ".", "distributions/pyspark-amqp10")
"""The folders with a ``pyproject.toml``. The one of ``headgate`` is at the top."""


def main(folder: Path) -> None:
    """Make a wheel and a source distribution of each project in this folder."""
    environment = os.environ | {BY_VERSION: "1"}
    for project in PROJECTS:
        command = [sys.executable, "-m", "hatchling", "build", "--directory", folder.resolve()]
        subprocess.run(command, cwd=ROOT / project, env=environment, check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
