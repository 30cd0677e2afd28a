"""Which version of Headgate this is. A module of its own, so that whoever only wants to know loads nothing else."""

from importlib.metadata import PackageNotFoundError, version


def headgate_version() -> str:
    """The version that is installed."""
    try:
        return version("headgate")
    except PackageNotFoundError:
        return "unknown"
