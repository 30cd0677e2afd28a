"""Reading the configuration again while the broker runs: settings that can change are applied, the others are named.

A setting either has an action that applies it, or it needs a restart. A configuration with an error changes nothing.
The settings in force afterwards are those of the start, with the ones that were applied since.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from pydantic import BaseModel
from structlog.typing import FilteringBoundLogger

from core.config import ConfigError, Settings

Action = Callable[[Settings], None]
"""Applies settings. It gets all of them; those that cannot change have their old values."""
SectionT = TypeVar("SectionT", bound=BaseModel)


class Reloaded(NamedTuple):
    """What a reload has done."""

    read: bool = True
    """Whether the configuration could be read. If not, nothing was changed."""
    taken: tuple[str, ...] = ()
    """The changed settings that are in force now."""
    needs_restart: tuple[str, ...] = ()
    """The changed settings that need a restart."""
    problems: tuple[str, ...] = ()
    """What is wrong with the configuration, or what could not be applied."""


class Reload:
    """Called for each request to reload. Raises nothing for a wrong configuration."""

    def __init__(
        self,
        settings: Settings,
        *,
        read: Callable[[], Settings],
        actions: Mapping[Action, Collection[str]],
        log: FilteringBoundLogger,
        each_time: Collection[Action] = (),
    ) -> None:
        """``read`` reads the configuration anew and raises ConfigError. ``actions`` maps each action to the dotted
        names of the settings that it applies. Those in ``each_time`` also read files, and are called also when no
        setting has changed."""
        self.in_force = settings
        self._read = read
        self._actions = actions
        self._each_time = each_time
        self._log = log

    def __call__(self) -> Reloaded:
        """Read the configuration, apply what can change, and log the result."""
        try:
            wanted = self._read()
        except ConfigError as error:
            return Reloaded(read=False, problems=self._tell(error.problems))
        changed = list(differences(self.in_force, wanted))
        self.in_force = merged(self.in_force, wanted, {key for keys in self._actions.values() for key in keys})
        failed: list[str] = []
        for action, keys in self._actions.items():
            if action in self._each_time or not set(keys).isdisjoint(changed):
                try:
                    action(self.in_force)
                except Exception as error:  # a bug of ours, or a limit that this system refuses; the broker goes on
                    failed.append(f"{', '.join(keys)}: {error}")
        problems, left = self._tell(failed), set(differences(self.in_force, wanted))
        taken = tuple(key for key in changed if key not in left)
        needs_restart = tuple(key for key in changed if key in left)
        self._log.info(
            "configuration-reloaded", taken=", ".join(taken) or None, needs_restart=", ".join(needs_restart) or None
        )
        return Reloaded(taken=taken, needs_restart=needs_restart, problems=problems)

    def _tell(self, problems: Iterable[str]) -> tuple[str, ...]:
        """Log problems, and return them."""
        told = tuple(problems)
        for problem in told:
            self._log.error("configuration-not-reloaded", problem=problem)
        return told


def differences(old: BaseModel, new: BaseModel, prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of settings that differ."""
    for name in type(old).model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if isinstance(before, BaseModel) and isinstance(after, BaseModel):
            yield from differences(before, after, f"{prefix}{name}.")
        elif before != after:
            yield prefix + name


def merged(old: SectionT, new: SectionT, taken: Collection[str], prefix: str = "") -> SectionT:
    """Return the old settings, with the new values of those whose names are in ``taken``."""
    values: dict[str, object] = {}
    for name in type(old).model_fields:
        before, after = getattr(old, name), getattr(new, name)
        if isinstance(before, BaseModel) and isinstance(after, BaseModel):
            values[name] = merged(before, after, taken, f"{prefix}{name}.")
        elif prefix + name in taken:
            values[name] = after
    return old.model_copy(update=values)
