"""Reading the configuration again while the broker runs: what can be taken is, and what cannot is named.

A setting either has an action that brings it into force, or it needs a restart. A configuration that cannot be used
changes nothing. What is in force afterwards is known: the settings of the start, with those that were taken since.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from pydantic import BaseModel
from structlog.typing import FilteringBoundLogger

from core.config import ConfigError, Settings

Action = Callable[[Settings], None]
"""Brings settings into force: all of them are given, those that were not taken as they were."""
SectionT = TypeVar("SectionT", bound=BaseModel)


class Reload:
    """Called for each wish to reload. Raises nothing for a configuration that is wrong."""

    def __init__(
        self,
        settings: Settings,
        *,
        read: Callable[[], Settings],
        actions: Mapping[Action, Collection[str]],
        log: FilteringBoundLogger,
    ) -> None:
        """``read`` reads the configuration anew and raises ConfigError. ``actions``: each with the settings that it
        brings into force, by their dotted names."""
        self.in_force = settings
        self._read = read
        self._actions = actions
        self._log = log

    def __call__(self) -> None:
        """Read, take what can be taken, and say so."""
        try:
            wanted = self._read()
        except ConfigError as error:
            for problem in error.problems:
                self._log.error("configuration-not-reloaded", problem=problem)
            return
        changed = list(differences(self.in_force, wanted))
        self.in_force = merged(self.in_force, wanted, {key for keys in self._actions.values() for key in keys})
        for action, keys in self._actions.items():
            if not set(keys).isdisjoint(changed):
                try:
                    action(self.in_force)
                except Exception as error:  # a bug of ours, or what cannot be limited here; the broker goes on
                    self._log.error("configuration-not-reloaded", problem=f"{', '.join(keys)}: {error}")
        left = set(differences(self.in_force, wanted))
        self._log.info(
            "configuration-reloaded",
            taken=", ".join(key for key in changed if key not in left) or None,
            needs_restart=", ".join(key for key in changed if key in left) or None,
        )


def differences(old: BaseModel, new: BaseModel, prefix: str = "") -> Iterator[str]:
    """The dotted names of settings that are not the same."""
    for name in type(old).model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if isinstance(before, BaseModel) and isinstance(after, BaseModel):
            yield from differences(before, after, f"{prefix}{name}.")
        elif before != after:
            yield prefix + name


def merged(old: SectionT, new: SectionT, taken: Collection[str], prefix: str = "") -> SectionT:
    """The old settings, with the new values of those that are named."""
    values: dict[str, object] = {}
    for name in type(old).model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if isinstance(before, BaseModel) and isinstance(after, BaseModel):
            values[name] = merged(before, after, taken, f"{prefix}{name}.")
        elif prefix + name in taken:
            values[name] = after
    return old.model_copy(update=values)
