"""``headgate bindings``: lists, shows, creates and deletes bindings."""

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
    help_text="Bindings from exchanges to queues and other exchanges: list, show, create and delete bindings.",
)

Key = Annotated[str, Parameter(help="The binding key. Its meaning depends on the type of the exchange.")]
ToExchange = Annotated[bool, Parameter(negative="", help="DESTINATION is an exchange, not a queue.")]


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
    """Bind a queue or an exchange to an exchange. It is no error when the same binding exists.

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
    """Delete the binding with exactly this key and these arguments. It is no error when there is no such binding.

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
    """Make the request that ``headgate definitions apply`` would make for this binding, and print the result."""
    from amqp10.cli.definition_requests import request_of  # here and not above: only these commands need them
    from core.definitions_file import Action, Step, label, shown

    method, path, body = request_of(Step(Action(action), binding))
    with_broker(url, lambda broker: broker.request(method, path, body))
    tell(f"{label(binding)} {done}", shown(binding), as_json=as_json)
