"""Limits, and how much of each is used: the rows behind ``headgate_limit_used`` and ``headgate_limit_max``."""

from core.admin.api.sources import ApiSources
from core.interface import Snapshot


def limits(sources: ApiSources) -> list[Snapshot]:
    """A row for each."""
    descriptors = sources.server.snapshot("descriptors")[0]
    used = {
        **sources.control.snapshot("totals")[0],
        "unauthenticated": sources.server.snapshot("server")[0]["unauthenticated"],
        "connections": descriptors["sockets_used"],
        "descriptors": descriptors["total_used"],
    }
    most = {
        **sources.settled.limits,
        "connections": descriptors["sockets_limit"],
        "descriptors": descriptors["total_limit"],
    }
    return [{"name": name, "used": used[name], "max": limit} for name, limit in most.items()]
