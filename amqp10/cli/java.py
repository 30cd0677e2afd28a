"""Which Java a Spark that is started here would run on: asked before it is started, so that what is missing is told.

Standard library only: .ci/environment.py reads this file before anything is installed.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from shutil import which

JAVA_VERSION_MIN = 17
"""Spark 4 runs on 17 and newer."""
ANSWER_SECONDS = 30.0
"""A Java that has not told its version by then will not run Spark either; it takes a tenth of a second."""
VERSION = re.compile(r'version "(?:1\.)?(\d+)')
"""The first number since Java 9; before that, the one behind ``1.``."""


def java_problem(environ: Mapping[str, str]) -> str | None:
    """Why Spark cannot run with these environment variables, with the remedy; None if it can.

    As Spark itself does, this takes the Java of ``JAVA_HOME`` where that is set, else ``java`` of ``PATH``.
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
    """The main version of this Java, None if it tells none."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = VERSION.search(told.stderr + told.stdout)
    return int(found[1]) if found else None
