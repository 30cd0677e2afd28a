"""The virtual hosts of a data folder: made, removed, and found again by the next start."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from core.engine.storage import Recorder, Storage
from core.store.definitions import DEFAULT_HOST, Definitions, DefinitionsDatabase


class HostsOnDisk:
    """The :class:`core.engine.storage.HostKeeper` of an open data folder."""

    def __init__(
        self,
        definitions: DefinitionsDatabase,
        first: Storage,
        found: Mapping[str, Definitions],
        tend: Callable[[str, DefinitionsDatabase], None],
        recorder: Callable[[str, DefinitionsDatabase], Recorder],
    ) -> None:
        """``first`` is the storage of the default virtual host, ``found`` what a start has found of each. ``tend`` is
        called with the definitions of each other one, and ``recorder`` returns what records these."""
        self._recorder = recorder
        self._definitions = definitions
        self._first = first
        self._tend = tend
        self._kept: dict[str, DefinitionsDatabase] = {DEFAULT_HOST: definitions}
        self.settings = dict(definitions.host_settings())
        self.found: Mapping[str, Storage] = {
            name: self._storage(name, one) for name, one in found.items() if name != DEFAULT_HOST
        }

    def add(self, name: str) -> Storage:
        """Record a new virtual host. Raises PreconditionFailed."""
        return self._storage(name, Definitions())

    def remove(self, name: str) -> None:
        """Remove what is recorded of a virtual host, after its queues. Raises PreconditionFailed."""
        self._kept[name].remove_host()
        del self._kept[name]
        self.settings.pop(name, None)

    def set_settings(self, name: str, settings: Mapping[str, object]) -> None:
        """Record the settings of a virtual host. Raises PreconditionFailed."""
        self._kept[name].set_host_settings(settings)
        self.settings[name] = settings

    def _storage(self, name: str, found: Definitions) -> Storage:
        definitions = self._definitions.for_host(name)
        self._tend(name, definitions)
        self._kept[name] = definitions
        return replace(self._first, found=found, recorder=self._recorder(name, definitions))
