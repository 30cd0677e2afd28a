"""Rows of the limits and of how much of each is used, as in the metrics ``headgate_limit_used`` and
``headgate_limit_max``."""

from core.admin.api.sources import ApiSources
from core.interface import Snapshot


def limits(sources: ApiSources) -> list[Snapshot]:
    """Return a row for each limit."""
    descriptors = sources.server.snapshot("descriptors")[0]
    used = {
        **sources.control.snapshot("totals")[0],
        "unauthenticated": sources.server.snapshot("server")[0]["unauthenticated"],
        "connections": descriptors["sockets_used"],
        "descriptors": descriptors["total_used"],
    }
    most = {
        **sources.constants.limits,
        "connections": descriptors["sockets_limit"],
        "descriptors": descriptors["total_limit"],
    }
    return [{"name": name, "used": used[name], "max": limit} for name, limit in most.items()]
