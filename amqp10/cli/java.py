"""Finds the Java that Spark would run on. A command looks for it first, and can say what is missing.

Standard library only: .ci/environment.py reads this file before anything is installed.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from shutil import which

JAVA_VERSION_MIN = 17
"""Spark 4 runs on Java 17 and newer."""
ANSWER_SECONDS = 30.0
"""How long ``java -version`` may take. It takes a tenth of a second; a Java that needs longer cannot run Spark."""
VERSION = re.compile(r'version "(?:1\.)?(\d+)')
"""The main version is the first number since Java 9. Before Java 9 it is the number after ``1.``."""


def java_problem(environ: Mapping[str, str]) -> str | None:
    """Why Spark cannot run with these environment variables, and how to correct that. None if it can.

    As Spark does, this function takes the Java of ``JAVA_HOME`` if that is set, else ``java`` of ``PATH``.
    """
    home = environ.get("JAVA_HOME")
    if home:
        java: str | None = str(Path(home, "bin", "java"))
        where = f"JAVA_HOME={home}"
    else:
        java = which("java", path=environ.get("PATH", ""))
        where = "PATH"
    remedy = f"install Java {JAVA_VERSION_MIN} or newer (on Debian and Ubuntu: apt-get install openjdk-17-jre-headless)"
    if java is None or not Path(java).is_file():
        return f"there is no Java in {where}; {remedy}, or set JAVA_HOME to the folder of one"
    version = java_version(java)
    if version is None:
        return f"{java} does not tell its version; {remedy}"
    if version < JAVA_VERSION_MIN:
        return f"{java} is Java {version}, and Spark needs {JAVA_VERSION_MIN}; {remedy}"
    return None


def java_version(java: str) -> int | None:
    """The main version of this Java. None if the program does not print it."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = VERSION.search(told.stderr + told.stdout)
    return int(found[1]) if found else None
