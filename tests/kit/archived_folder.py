"""Unpacks the data folders that older brokers, or brokers with every kind of record, have left in an archive."""

import tarfile
from pathlib import Path


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive. Python has filters of what archives may do from 3.11.4 on, and asks for one from 3.12 on."""
    with tarfile.open(archive) as opened:
        opened.extraction_filter = getattr(tarfile, "data_filter", None)
        opened.extractall(folder)
