"""Which version of Headgate this is. A module of its own, so that whoever only wants to know loads nothing else."""


def headgate_version() -> str:
    """The version that is installed."""
    from importlib.metadata import PackageNotFoundError, version  # 20 ms to load, and most commands do not ask

    try:
        return version("headgate")
    except PackageNotFoundError:
        return "unknown"
