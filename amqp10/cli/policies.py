"""``headgate policies explain``: prints which policy applies to a queue, and why the others do not."""

import json as json_module
from collections.abc import Mapping

from amqp10.cli.printing import print_json
from amqp10.cli.remote import ask_once, row_of


def explain(queue: str, *, vhost: str | None, json: bool, url: str) -> None:
    """Print a line for each key of the policy that applies and for each policy that does not."""
    body = row_of(ask_once(url, "policies.explain", queue=queue, vhost=vhost))
    if json:
        print_json(body)
        return
    winner = body.get("policy")
    print(f"no policy holds for queue {queue}" if winner is None else f"policy {winner} holds for queue {queue}")
    for key in _rows(body.get("keys")):
        print(f"  {key.get('key')} = {json_module.dumps(key.get('value'))}: {key.get('effect')}, {key.get('why')}")
    for loser in _rows(body.get("losers")):
        print(f"policy {loser.get('name')} does not hold: {loser.get('why')}")
    if body.get("notice") is not None:
        print(f"{body.get('copies')}: {body.get('notice')}")


def _rows(value: object) -> list[Mapping[object, object]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
