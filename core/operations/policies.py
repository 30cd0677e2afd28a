"""Operations on policies: what holds for which queues and exchanges, by patterns of their names.

Which keys a definition has, and which values they take, the engine knows and checks.
"""

from core.control_plane import BrokerControl
from core.engine.options.policies import APPLY_TO, KEYS, PRIORITY_MAX
from core.errors import NotFound
from core.operations.operation import (
    DONE,
    VHOST,
    AnswerField,
    Arguments,
    Parameter,
    Reply,
    Right,
    Shape,
    operation,
    quoted,
)
from core.store.definitions import PolicyDeclaration

POLICY = Parameter("policy", "The policy's name.", in_path=True)
QUEUE = Parameter("queue", "The queue's name.", in_path=True)
PRIORITY = Parameter(
    "priority",
    "The policy with the highest priority applies to a queue.",
    "number",
    low=-PRIORITY_MAX,
    high=PRIORITY_MAX,
    default=0,
)
SET = (
    POLICY,
    Parameter("pattern", "A regular expression; a name matches when it contains a match.", required=True),
    Parameter("definition", "The keys and values.", "map", required=True, suggests=tuple(KEYS)),
    PRIORITY,
    Parameter(
        "apply_to",
        "all, queues, classic_queues, quorum_queues, streams or exchanges.",
        default="all",
        suggests=tuple(APPLY_TO),
    ),
    VHOST,
)
"""The parameters of a policy that is set."""
SHOWN = Shape(
    "map",
    (
        AnswerField("name", "text", "Its name."),
        AnswerField("pattern", "text", "The regular expression for names."),
        AnswerField("apply_to", "text", "What it applies to."),
        AnswerField("priority", "number", "Its priority."),
        AnswerField("definition", "map", "Its keys and values."),
    ),
)
EXPLAINED = Shape(
    "map",
    (
        AnswerField("queue", "text", "The queue's name."),
        AnswerField("policy", "text", "The policy that applies; null for none."),
        AnswerField("keys", "list", "Maps of ``key``, ``value``, ``effect`` and ``why``."),
        AnswerField("losers", "list", "Maps of ``name`` and ``why``: the other policies."),
    ),
)


@operation(
    "policies.set",
    "PUT",
    "/policies/{policy}",
    *SET,
    right=Right.CONFIGURE,
    example={"policy": "limit", "pattern": "^work", "definition": {"max-length": 100000}},
)
def set_(control: BrokerControl, arguments: Arguments) -> Reply:
    """Make a policy, or change the policy with this name; it applies at once."""
    arguments.host(control).policies.set(
        PolicyDeclaration(
            name=arguments.text("policy"),
            pattern=arguments.text("pattern"),
            priority=arguments.number("priority"),
            apply_to=arguments.text("apply_to"),
            definition=arguments.map("definition"),
        )
    )
    return DONE


@operation(
    "policies.show",
    "GET",
    "/policies/{policy}",
    *(POLICY, VHOST),
    answer=SHOWN,
    example={"policy": "short"},
    gives={"name": "short", "priority": 0},
)
def show(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show one policy."""
    for row in arguments.host(control).snapshot("policies", arguments.text("policy")):
        return Reply(200, row)
    raise NotFound(f"there is no policy {quoted(arguments.text('policy'))}")


@operation(
    "policies.clear", "DELETE", "/policies/{policy}", POLICY, VHOST, right=Right.CONFIGURE, example={"policy": "short"}
)
def clear(control: BrokerControl, arguments: Arguments) -> Reply:
    """Remove a policy; its settings end at once."""
    arguments.host(control).policies.clear(arguments.text("policy"))
    return DONE


@operation(
    "policies.explain",
    "GET",
    "/policies/explain/{queue}",
    *(QUEUE, VHOST),
    answer=EXPLAINED,
    example={"queue": "orders"},
    gives={"queue": "orders", "policy": "short"},
)
def explain(control: BrokerControl, arguments: Arguments) -> Reply:
    """Show which policy applies to a queue, the effect of each key, and why other policies do not apply."""
    return Reply(200, arguments.host(control).explain_policies(arguments.text("queue")))


OPERATIONS = (set_, show, clear, explain)
