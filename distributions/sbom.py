"""Writes the list of everything that a broker consists of, an SBOM in CycloneDX's JSON:
``python distributions/sbom.py FILE``.

The list is made by CycloneDX's own tool from an environment that has the broker, and what its extras for logins with
tokens, clusters and traces need, and nothing else. The same environment gives the same bytes. ``make sbom`` names the
file.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from build import main as build
from environments import ROOT, make_environment

EXTRAS = "oauth2,cluster,traces"


def main(file: Path) -> None:
    """Build the wheels, install them, and write the list."""
    with TemporaryDirectory() as folder:
        wheels = Path(folder) / "wheels"
        build(wheels)
        write_sbom(make_environment(Path(folder) / "environment", wheels, EXTRAS), file)


def write_sbom(python: Path, file: Path) -> None:
    """Write the list of what is installed for this Python. The tool checks it against the schema of CycloneDX."""
    file.parent.mkdir(parents=True, exist_ok=True)
    options = ["--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "--validate", "-o", file]
    subprocess.run([sys.executable, "-m", "cyclonedx_py", "environment", *options, python], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
