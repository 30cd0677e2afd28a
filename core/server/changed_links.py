"""The sums over the links of a server's connections: which connections are to be read, and their rows."""

from core.observe.link_sums import ConnectionLinks
from core.server.run import Server


def connection_links(server: Server) -> ConnectionLinks:
    """Return the sums over the links of all connections of a server, for its metrics."""
    changes = server.changes()
    links = ConnectionLinks(changed=changes.take, rows=lambda one: server.connections("link_figures", one))
    changes.gone = links.gone
    return links
