"""The distributions of this tree, built once for all tests of one process."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.broker_process import ROOT


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheels and source distributions; returns their folder."""
    folder = tmp_path_factory.mktemp("wheels")
    subprocess.run([sys.executable, "distributions/build.py", folder], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return folder
