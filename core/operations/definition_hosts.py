"""The virtual hosts of a definitions document: which it has, and their limits."""

from collections.abc import Mapping

from core.definitions_file.reading import SECTIONS
from core.engine.virtual_hosts import LIMITS as NAMES
from core.engine.virtual_hosts import HostLimits
from core.errors import Invalid
from core.slices import Walk
from core.virtual_hosts import VIRTUAL_HOST

LIMITS = "vhost-limits"
"""The component of RabbitMQ's parameters with the limits of a virtual host."""


def hosts_of(value: Mapping[str, object]) -> Walk[tuple[dict[str, object], list[str]]]:
    """Return a document with the virtual host in each entry, and the names of its virtual hosts. Entries without one
    belong to the only one that the document has, or to the default one."""
    hosts: dict[str, None] = {}
    sections: dict[str, object] = {}
    for section, key in (("vhosts", "name"), *((section, "vhost") for section in SECTIONS)):
        entries = value.get(section)
        for entry in entries if isinstance(entries, list) else []:
            yield None
            if isinstance(entry, dict) and isinstance(name := entry.get(key), str):
                hosts[name] = None
    default = next(iter(hosts)) if len(hosts) == 1 else VIRTUAL_HOST
    for section in SECTIONS:
        entries = value.get(section)
        if isinstance(entries, list):
            sections[section] = placed = []
            for entry in entries:
                placed.append(entry if not isinstance(entry, dict) or "vhost" in entry else {**entry, "vhost": default})
                yield None
            if any(isinstance(entry, dict) and entry["vhost"] == default for entry in placed):
                hosts[default] = None
    return {**value, **sections}, list(hosts) or [default]


def limits_of(value: Mapping[str, object], host: str) -> HostLimits | None:
    """Return the limits that a document has of a virtual host; None if it has none. A negative one means no limit.
    Raises Invalid."""
    entries = value.get("parameters")
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("component") == LIMITS and entry.get("vhost", VIRTUAL_HOST) == host:
            return checked_limits(entry.get("value"))
    return None


def checked_limits(given: object) -> HostLimits:
    """Return the limits that a map has. Raises Invalid."""
    if not isinstance(given, Mapping) or not all(isinstance(one, int) for one in given.values()):
        raise Invalid(f"{LIMITS} must be a map of {' and '.join(NAMES)}, which are numbers")
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise Invalid(f"there is no limit {unknown[0]!r} of a virtual host; there are {' and '.join(NAMES)}")
    return HostLimits.of({name: one for name, one in given.items() if one >= 0})
