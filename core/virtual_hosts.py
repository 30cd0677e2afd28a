"""The name of the virtual host that every broker has, and how names of other virtual hosts are shown."""

VIRTUAL_HOST = "/"
"""The default virtual host. It always exists and cannot be deleted."""


def shown_name(virtual_host: str, name: str) -> str:
    """Return what a queue or an address is called where the queues of all virtual hosts stand together: its own name in
    the default virtual host; in another one, that name behind ``vhost:NAME:``."""
    return name if virtual_host == VIRTUAL_HOST else f"vhost:{virtual_host}:{name}"
