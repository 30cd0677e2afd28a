"""The version of Headgate. A module of its own, so that reading the version loads nothing else."""


def headgate_version() -> str:
    """Return the installed version."""
    from importlib.metadata import PackageNotFoundError, version  # takes 20 ms, and most commands do not ask

    try:
        return version("headgate")
    except PackageNotFoundError:
        return "unknown"
