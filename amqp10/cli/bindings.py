"""``headgate bindings``: creates and deletes bindings, with the requests of ``headgate definitions apply``."""

from typing import Literal

from amqp10.cli.definition_requests import request_of
from amqp10.cli.printing import tell
from amqp10.cli.remote import with_broker
from amqp10.cli.requests import arguments_of
from core.definitions_file import Action, Step, label, shown
from core.interface import Binding

DONE = {"declare": "is there", "delete": "is deleted"}


def carry_out(
    action: Literal["declare", "delete"],
    *,
    source: str,
    destination: str,
    key: str,
    to_exchange: bool,
    arguments: tuple[str, ...],
    json: bool,
    url: str,
) -> None:
    """Create or delete one binding."""
    binding = Binding(
        source=source,
        destination=destination,
        destination_is_queue=not to_exchange,
        binding_key=key,
        arguments=arguments_of(arguments),
    )
    method, path, body = request_of(Step(Action(action), binding))
    with_broker(url, lambda broker: broker.request(method, path, body))
    tell(f"{label(binding)} {DONE[action]}", shown(binding), as_json=json)
