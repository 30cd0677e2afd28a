"""The rights that acts on queues and exchanges need, and users that have all of them, or all but one."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from core.access.rights import EVERYTHING, AccessKind, Permission, Rights
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from tests.kit.wire import InProcessBroker

Need = tuple[AccessKind, str]
"""What has to be allowed, and the name of the queue or exchange."""

DYNAMIC = "amq.dyn"
"""Stands for the name of a dynamic node, which begins so."""


def place() -> InProcessBroker:
    """A broker with the queue q, the exchanges x and topic, and bindings from them to q."""
    broker = InProcessBroker()
    broker.engine.declare_queue(QueueDeclaration(name="q", arguments={}), None)
    broker.engine.declare_exchange(ExchangeDeclaration(name="x", arguments={}))
    broker.engine.declare_exchange(ExchangeDeclaration(name="topic", type=ExchangeType.TOPIC, arguments={}))
    broker.engine.bind(binding_of("x"), None)
    broker.engine.bind(binding_of("topic", "#"), None)
    return broker


def binding_of(source: str, key: str = "k") -> Binding:
    """A binding from this exchange to q."""
    return Binding(source=source, destination="q", destination_is_queue=True, binding_key=key, arguments={})


def only(needs: Collection[Need], tags: Collection[str] = ()) -> Rights:
    """The rights of a user who may do this and nothing else."""
    patterns = {
        what: "|".join(
            f"^{re.escape(name)}" + ("" if name == DYNAMIC else "$") for needed, name in needs if needed == what
        )
        for what in ("configure", "write", "read")
    }
    return Rights("guest", Permission(**patterns), tags=frozenset(tags))


def all_but(need: Need, tags: Collection[str] = ()) -> Rights:
    """The rights of a user who may do everything, except for this."""
    what, name = need
    patterns = dict.fromkeys(("configure", "write", "read"), EVERYTHING)
    others = ["q", "x", "topic", "new", "amq.default", DYNAMIC]
    allowed = [other for other in others if other != name]
    patterns[what] = "|".join(f"^{re.escape(other)}" + ("" if other == DYNAMIC else "$") for other in allowed)
    return Rights("guest", Permission(**patterns), tags=frozenset(tags))


@dataclass(frozen=True)
class Trial:
    """A user who tries an act, and whether it must be allowed."""

    rights: Rights
    allowed: bool
    told: str = ""
    """What the refusal names."""


def trials(needs: Collection[Need], tags: Collection[str] = ()) -> Iterator[Trial]:
    """The user with the rights that are needed, and for each of these one who lacks it."""
    yield Trial(only(needs, tags), allowed=True)
    for what, name in needs:
        yield Trial(all_but((what, name), tags), allowed=False, told=f"{what} access to ")
