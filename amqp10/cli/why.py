"""``headgate why``: what holds a connection up."""

from amqp10.addresses import percent_encode
from amqp10.cli.listing import AsJson, print_json
from amqp10.cli.remote import DEFAULT_URL, Url, with_broker
from amqp10.client import ClientConnection


def why_command(connection: str, /, *, json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Tell what holds up the publishing of a connection: a channel, a queue, the message store, or an alarm.

    For example:

        headgate why c17
    """

    async def ask(broker: ClientConnection) -> object:
        return (await broker.request("GET", f"/headgate/connections/{percent_encode(connection)}/why")).body

    answer = with_broker(url, ask)
    if json or not isinstance(answer, dict):
        print_json(answer)
        return
    print(f"connection {connection} ({answer['protocol']}) is {answer['state']}")
    print(answer["sentence"])
