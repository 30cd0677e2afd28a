"""What keeps the virtual hosts and the users of a node in a cluster: both are agreed on with the other nodes first."""

from collections.abc import Mapping

from core.access.records import RabbitHash, UserRecord
from core.access.users import UserStore
from core.engine.routing.agreement import AgreedChange, Agreement, ChangeKind
from core.engine.storage import HostKeeper, Storage
from core.engine.virtual_hosts import DELETING
from core.errors import PreconditionFailed


class SharedHosts:
    """The :class:`core.engine.storage.HostKeeper` of a node. Beside what the keeper below raises, each method raises
    StillGoing while the nodes agree, and PreconditionFailed when they cannot."""

    def __init__(self, kept: HostKeeper, agreement: Agreement) -> None:
        self._kept = kept
        self._agreement = agreement

    @property
    def found(self) -> Mapping[str, Storage]:
        """See :class:`core.engine.storage.HostKeeper`, also for the methods below."""
        return self._kept.found

    @property
    def settings(self) -> Mapping[str, Mapping[str, object]]:
        return self._kept.settings

    def add(self, name: str) -> Storage | None:
        self._agree(ChangeKind.HOST, name)
        return self._kept.add(name)

    def remove(self, name: str) -> None:
        """Each node removes a virtual host when it has deleted its queues."""
        self._kept.remove(name)

    def set_settings(self, name: str, settings: Mapping[str, object]) -> None:
        if settings.get(DELETING):
            self._agree(ChangeKind.HOST_REMOVAL, name)
        else:
            self._agree(ChangeKind.HOST_SETTINGS, name, dict(settings))
        self._kept.set_settings(name, settings)

    def _agree(self, kind: ChangeKind, name: str, value: object = None) -> None:
        if not self._agreement.alone:
            self._agreement.ask(AgreedChange(kind, "", name, value))


class SharedUsers:
    """The :class:`core.access.users.UserStore` of a node. It raises as :class:`SharedHosts`."""

    def __init__(self, kept: UserStore, agreement: Agreement) -> None:
        self._kept = kept
        self._agreement = agreement

    def users(self) -> Mapping[str, str]:
        """See :class:`core.access.users.UserStore`, also for the methods below."""
        return self._kept.users()

    def set_user(self, name: str, keys: str) -> None:
        if not self._agreement.alone:
            if isinstance(UserRecord.parse(name, keys).secret, RabbitHash):
                raise PreconditionFailed(
                    f"user '{name}': a hash of RabbitMQ is not given to the other nodes, because it is quickly "
                    "guessed; set the password instead: headgate users set"
                )
            self._agreement.ask(AgreedChange(ChangeKind.USER, "", name, keys))
        self._kept.set_user(name, keys)

    def remove_user(self, name: str) -> None:
        if not self._agreement.alone:
            self._agreement.ask(AgreedChange(ChangeKind.USER_REMOVAL, "", name))
        self._kept.remove_user(name)
