"""Checks that a repeated declaration of a queue or exchange equals the existing one, arguments included."""

from collections.abc import Mapping

from core.engine.options.arguments import frozen, queue_type
from core.errors import Inequivalent
from core.interface import ExchangeDeclaration, QueueDeclaration


def check_same_queue(existing: QueueDeclaration, wanted: QueueDeclaration) -> None:
    """Raises Inequivalent, which names the difference."""
    about = f"queue '{existing.name}'"
    _check_same(about, "durable", existing.durable, wanted.durable)
    _check_same(about, "exclusive", existing.exclusive, wanted.exclusive)
    _check_same(about, "auto_delete", existing.auto_delete, wanted.auto_delete)
    _check_same_arguments(
        about,
        {**existing.arguments, "x-queue-type": queue_type(existing.arguments)},
        {**wanted.arguments, "x-queue-type": queue_type(wanted.arguments)},
    )


def check_same_exchange(existing: ExchangeDeclaration, wanted: ExchangeDeclaration) -> None:
    """Raises Inequivalent, which names the difference."""
    about = f"exchange '{existing.name}'"
    _check_same(about, "type", existing.type.value, wanted.type.value)
    _check_same(about, "durable", existing.durable, wanted.durable)
    _check_same(about, "auto_delete", existing.auto_delete, wanted.auto_delete)
    _check_same(about, "internal", existing.internal, wanted.internal)
    _check_same_arguments(about, existing.arguments, wanted.arguments)


def _check_same_arguments(about: str, existing: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    for name in sorted(existing.keys() | wanted.keys()):
        _check_same(about, f"argument {name}", existing.get(name), wanted.get(name))


def _check_same(about: str, field: str, existing: object, wanted: object) -> None:
    if frozen(existing) != frozen(wanted):
        raise Inequivalent(f"{about}: {field} is {_shown(existing)}, the declaration asks for {_shown(wanted)}")


def _shown(value: object) -> str:
    return "not set" if value is None else repr(value)
