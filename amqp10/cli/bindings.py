"""``headgate bindings``."""

from typing import Annotated

from cyclopts import Parameter

from amqp10.cli.arguments import Arguments, arguments_of
from amqp10.cli.listing import noun
from amqp10.cli.printing import AsJson, tell
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from core.interface import Binding

bindings_app = noun(
    "bindings",
    columns=("source", "binding_key", "destination", "destination_is_queue", "arguments"),
    help_text="Bindings, from exchanges to queues and other exchanges: list, show, create and delete them.",
)

Key = Annotated[str, Parameter(help="The binding key; what it means depends on the type of the exchange.")]
ToExchange = Annotated[bool, Parameter(negative="", help="DESTINATION is an exchange and not a queue.")]


@bindings_app.command
def create(
    source: str,
    destination: str,
    /,
    *,
    key: Key = "",
    to_exchange: ToExchange = False,
    argument: Arguments = (),
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Bind a queue or an exchange to an exchange. What is bound so already stays so.

    For example:

        headgate bindings create shop orders --key "order.*"
        headgate bindings create shop archive --to-exchange
    """
    binding = _binding(source, destination, key=key, to_exchange=to_exchange, argument=argument)
    _take(url, binding, "declare", done="is there", as_json=json)


@bindings_app.command
def delete(
    source: str,
    destination: str,
    /,
    *,
    key: Key = "",
    to_exchange: ToExchange = False,
    argument: Arguments = (),
    json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Remove the binding that has exactly this key and these arguments. One that does not exist is removed already.

    For example:

        headgate bindings delete shop orders --key "order.*"
    """
    binding = _binding(source, destination, key=key, to_exchange=to_exchange, argument=argument)
    _take(url, binding, "delete", done="is deleted", as_json=json)


def _binding(source: str, destination: str, *, key: str, to_exchange: bool, argument: tuple[str, ...]) -> Binding:
    return Binding(
        source=source,
        destination=destination,
        destination_is_queue=not to_exchange,
        binding_key=key,
        arguments=arguments_of(argument),
    )


def _take(url: str, binding: Binding, action: str, *, done: str, as_json: bool) -> None:
    """Take the step that a definitions file with this binding would take, and say so."""
    from amqp10.cli.definition_requests import request_of  # here and not above: only these commands need them
    from core.definitions_file import Action, Step, label, shown

    method, path, body = request_of(Step(Action(action), binding))
    with_broker(url, lambda broker: broker.request(method, path, body))
    tell(f"{label(binding)} {done}", shown(binding), as_json=as_json)
