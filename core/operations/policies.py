"""Operations on policies: what holds for which queues and exchanges, by patterns of their names.

Which keys a definition has, and which values they take, the engine knows and checks.
"""

from typing import TYPE_CHECKING

from core.engine.options.policies import PRIORITY_MAX
from core.errors import NotFound
from core.operations.operation import (
    DONE,
    Answer,
    Arguments,
    Example,
    Field,
    Operation,
    Parameter,
    Right,
    Shape,
    quoted,
)
from core.store.definitions import PolicyDeclaration

if TYPE_CHECKING:
    from core.control_plane import BrokerControl

VIRTUAL_HOST = "/"
POLICY = Parameter(name="policy", sentence="The policy's name.", in_path=True)
VHOST = Parameter(name="vhost", sentence="The virtual host; there is only /.", default=VIRTUAL_HOST)
SET = (
    POLICY,
    Parameter(
        name="pattern",
        sentence="A regular expression; a name matches when it contains a match.",
        required=True,
    ),
    Parameter(name="definition", sentence="The keys and values.", kind="map", required=True),
    Parameter(
        name="priority",
        sentence="The policy with the highest priority applies to a queue.",
        kind="number",
        low=-PRIORITY_MAX,
        high=PRIORITY_MAX,
        default=0,
    ),
    Parameter(
        name="apply_to",
        sentence="all, queues, classic_queues, quorum_queues, streams or exchanges.",
        default="all",
    ),
    VHOST,
)
"""The parameters of a policy that is set."""


def _check_host(arguments: Arguments) -> None:
    host = arguments.text("vhost")
    if host != VIRTUAL_HOST:
        raise NotFound(f"there is no virtual host {quoted(host)}; there is {quoted(VIRTUAL_HOST)}")


def set_(control: "BrokerControl", arguments: Arguments) -> Answer:
    """Make or change a policy. Raises NotFound for another virtual host, and what the engine raises."""
    _check_host(arguments)
    control.broker.policies.set(
        PolicyDeclaration(
            name=arguments.text("policy"),
            pattern=arguments.text("pattern"),
            priority=arguments.number("priority"),
            apply_to=arguments.text("apply_to"),
            definition=arguments.map("definition"),
        )
    )
    return DONE


def _show(control: "BrokerControl", arguments: Arguments) -> Answer:
    _check_host(arguments)
    name = arguments.text("policy")
    for row in control.snapshot("policies", name):
        return Answer(200, row)
    raise NotFound(f"there is no policy {quoted(name)}")


def clear(control: "BrokerControl", arguments: Arguments) -> Answer:
    """Remove a policy. Raises NotFound."""
    _check_host(arguments)
    control.broker.policies.clear(arguments.text("policy"))
    return DONE


def _explain(control: "BrokerControl", arguments: Arguments) -> Answer:
    _check_host(arguments)
    return Answer(200, control.broker.explain_policies(arguments.text("queue")))


OPERATIONS = (
    Operation(
        name="policies.set",
        method="PUT",
        path="/policies/{policy}",
        summary="Make a policy, or change the policy with this name; it applies at once.",
        handler=set_,
        right=Right.CONFIGURE,
        parameters=SET,
        example=Example(
            parameters={
                "policy": "limit",
                "pattern": "^work",
                "definition": {"max-length": 100000, "overflow": "reject-publish"},
            }
        ),
    ),
    Operation(
        name="policies.show",
        method="GET",
        path="/policies/{policy}",
        summary="Show one policy.",
        handler=_show,
        right=Right.MONITOR,
        parameters=(POLICY, VHOST),
        answer=Shape(
            "map",
            (
                Field("name", "text", "Its name."),
                Field("pattern", "text", "The regular expression for names."),
                Field("apply_to", "text", "What it applies to."),
                Field("priority", "number", "Its priority."),
                Field("definition", "map", "Its keys and values."),
            ),
        ),
        example=Example(parameters={"policy": "short"}, answer={"name": "short", "priority": 0}),
    ),
    Operation(
        name="policies.clear",
        method="DELETE",
        path="/policies/{policy}",
        summary="Remove a policy; its settings end at once.",
        handler=clear,
        right=Right.CONFIGURE,
        parameters=(POLICY, VHOST),
        example=Example(parameters={"policy": "short"}),
    ),
    Operation(
        name="policies.explain",
        method="GET",
        path="/policies/explain/{queue}",
        summary="Show which policy applies to a queue, the effect of each key, and why other policies do not apply.",
        handler=_explain,
        right=Right.MONITOR,
        parameters=(Parameter(name="queue", sentence="The queue's name.", in_path=True), VHOST),
        answer=Shape(
            "map",
            (
                Field("queue", "text", "The queue's name."),
                Field("policy", "text", "The policy that applies; null for none."),
                Field("keys", "list", "Maps of ``key``, ``value``, ``effect`` and ``why``."),
                Field("losers", "list", "Maps of ``name`` and ``why``: the other policies."),
            ),
        ),
        example=Example(parameters={"queue": "orders"}, answer={"queue": "orders", "policy": "short"}),
    ),
)
