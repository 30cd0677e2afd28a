"""The operations of RabbitMQ's management API that change queues, exchanges, bindings, policies and connections.

The engine decides what is allowed. The API calls it as a front end does for a client: with no further rights, and
without owning any queue.
"""

from collections.abc import Callable, Sequence
from urllib.parse import quote

from starlette.types import ASGIApp

from core.admin.api.bodies import BindingBody, DefinitionsBody, ExchangeBody, PolicyBody, QueueBody
from core.admin.api.operations import OPERATOR, Call, Operation, Parameter, write
from core.admin.api.rabbitmq import check_vhost, destination_type
from core.admin.api.rabbitmq_rows import properties_key
from core.admin.api.refusals import bad_request, not_found
from core.admin.api.rendering import Walked, done
from core.admin.api.sources import ApiSources
from core.declaring import once_gone
from core.errors import NotFound, PreconditionFailed
from core.interface import Binding, ExchangeDeclaration, ExchangeType, QueueDeclaration
from core.slices import Walk

MADE, WAS_THERE = 201, 204
CLOSED_BY_OPERATOR = "closed by the operator"
REASON_CHARACTERS_MAX = 100
"""The same limit as in :mod:`core.admin.api.headgate`."""
IF_UNUSED = Parameter("if-unused", "Only when nothing uses it.", "boolean")
IF_EMPTY = Parameter("if-empty", "Only when it has no messages.", "boolean")


class RabbitmqWrites:
    """RabbitMQ's operations that change something."""

    def __init__(self, sources: ApiSources) -> None:
        self._sources = sources
        self._control = sources.control
        self._topology = sources.topology

    def operations(self) -> Sequence[Operation]:
        """Return all operations."""
        queue, exchange = "/api/queues/{vhost}/{name}", "/api/exchanges/{vhost}/{name}"
        between, policy = "/api/bindings/{vhost}/e/{source}/{kind}/{destination}", "/api/policies/{vhost}/{name}"
        in_vhost, walk_in_vhost = self._in_vhost, self._walk_in_vhost
        return [
            write("PUT", queue, "Declare a queue.", walk_in_vhost(self._declare_queue), body=QueueBody, status=MADE),
            write("DELETE", queue, "Delete a queue.", in_vhost(self._delete_queue), query=(IF_EMPTY, IF_UNUSED)),
            write("DELETE", f"{queue}/contents", "Remove what is ready.", walk_in_vhost(self._purge)),
            write(
                "PUT",
                exchange,
                "Declare an exchange.",
                walk_in_vhost(self._declare_exchange),
                body=ExchangeBody,
                status=MADE,
            ),
            write("DELETE", exchange, "Delete an exchange.", in_vhost(self._delete_exchange), query=(IF_UNUSED,)),
            write("POST", between, "Bind.", in_vhost(self._bind), body=BindingBody, status=MADE),
            write("DELETE", f"{between}/{{properties_key}}", "Unbind.", walk_in_vhost(self._unbind)),
            write("PUT", policy, "Make or change a policy.", in_vhost(self._set_policy), body=PolicyBody, status=MADE),
            write("DELETE", policy, "Remove a policy.", in_vhost(self._clear_policy)),
            write(
                "POST",
                "/api/definitions",
                "Make what is missing.",
                lambda call: self._walked(self._apply(call)),
                body=DefinitionsBody,
            ),
            write(
                "POST",
                "/api/definitions/{vhost}",
                "The same.",
                walk_in_vhost(self._apply),
                body=DefinitionsBody,
            ),
            write("DELETE", "/api/connections/{name}", "Close a connection.", self._close),
        ]

    def _in_vhost(self, change: Callable[[Call], int]) -> Callable[[Call], ASGIApp]:
        """Return an answer that checks the virtual host, makes the change, and gives the engine a turn for the work
        that the change has left."""

        def checked(call: Call) -> ASGIApp:
            check_vhost(call)
            _check_said_again(call)
            status = change(call)
            self._sources.turn()
            return done(status)

        return checked

    def _walk_in_vhost(self, change: Callable[[Call], Walk[int]]) -> Callable[[Call], ASGIApp]:
        """Do the same for a change that takes several slices."""

        def checked(call: Call) -> ASGIApp:
            check_vhost(call)
            _check_said_again(call)
            return self._walked(change(call))

        return checked

    def _walked(self, change: Walk[int]) -> ASGIApp:
        def walk() -> Walk[ASGIApp]:
            try:
                status = yield from change
            finally:
                self._sources.turn()  # work that was left before a refusal has to be done too
            return done(status)

        return Walked(walk())

    # --- queues ------------------------------------------------------------------------------------------------------

    def _declare_queue(self, call: Call) -> Walk[int]:
        body = call.taken(QueueBody)
        declaration = QueueDeclaration(
            name=call.path["name"], durable=body.durable, auto_delete=body.auto_delete, arguments=body.arguments
        )
        _, made = yield from once_gone(lambda: self._topology.declare_queue(declaration, OPERATOR))
        return MADE if made else WAS_THERE

    def _delete_queue(self, call: Call) -> int:
        info = self._topology.queue_info(call.path["name"], OPERATOR)
        if call.flag("if-empty") and info.ready + info.unacknowledged:
            raise PreconditionFailed(f"queue '{call.path['name']}' is not empty")
        if call.flag("if-unused") and info.consumers:
            raise PreconditionFailed(f"queue '{call.path['name']}' has consumers")
        self._topology.delete_queue(call.path["name"], OPERATOR)
        return 204

    def _purge(self, call: Call) -> Walk[int]:
        for _ in self._topology.purge_queue(call.path["name"], OPERATOR):
            self._sources.turn()
            yield
        return 204

    # --- exchanges and bindings --------------------------------------------------------------------------------------

    def _declare_exchange(self, call: Call) -> Walk[int]:
        body = call.taken(ExchangeBody)
        try:
            kind = ExchangeType(body.type)
        except ValueError:
            there_are = ", ".join(kind.value for kind in ExchangeType)
            raise bad_request(f"type: there is no {body.type[:64]!r}; there are {there_are}") from None
        declaration = ExchangeDeclaration(
            name=call.path["name"],
            type=kind,
            durable=body.durable,
            auto_delete=body.auto_delete,
            internal=body.internal,
            arguments=body.arguments,
        )
        made = yield from once_gone(lambda: self._topology.declare_exchange(declaration))
        return MADE if made else WAS_THERE

    def _delete_exchange(self, call: Call) -> int:
        name = call.path["name"]
        self._topology.exchange_info(name)
        if call.flag("if-unused") and self._topology.exchange_in_use(name):
            raise PreconditionFailed(f"exchange '{name}' has bindings")
        self._topology.delete_exchange(name)
        return 204

    def _bind(self, call: Call) -> int:
        body = call.taken(BindingBody)
        self._topology.bind(
            Binding(
                source=call.path["source"],
                destination=call.path["destination"],
                destination_is_queue=destination_type(call) == "queue",
                binding_key=body.routing_key,
                arguments=body.arguments,
            ),
            OPERATOR,
        )
        return MADE

    def _unbind(self, call: Call) -> Walk[int]:
        is_queue, wanted = destination_type(call) == "queue", call.path["properties_key"]
        for row in self._sources.rows("bindings"):
            yield
            ends = row["source"], row["destination"], row["destination_is_queue"]
            key, arguments = str(row["binding_key"]), row["arguments"]
            assert isinstance(arguments, dict)
            if ends != (call.path["source"], call.path["destination"], is_queue):
                continue
            if properties_key(key, arguments) in (wanted, quote(wanted, safe="")):
                self._topology.unbind(
                    Binding(
                        source=call.path["source"],
                        destination=call.path["destination"],
                        destination_is_queue=is_queue,
                        binding_key=key,
                        arguments=arguments,
                    ),
                    OPERATOR,
                )
                return 204
        raise not_found(f"there is no binding {wanted!r} between these")

    # --- policies and connections ------------------------------------------------------------------------------------

    def _set_policy(self, call: Call) -> int:
        body, name = call.taken(PolicyBody), call.path["name"]
        was_there = self._control.policy(name) is not None
        self._control.set_policy(
            name=name,
            pattern=body.pattern,
            priority=body.priority,
            apply_to=body.apply_to,
            definition=body.definition,
        )
        return WAS_THERE if was_there else MADE

    def _clear_policy(self, call: Call) -> int:
        self._control.clear_policy(call.path["name"])
        return 204

    def _apply(self, call: Call) -> Walk[int]:
        yield from self._sources.definitions.apply(call.taken(DefinitionsBody).model_extra or {})
        return 204

    def _close(self, call: Call) -> ASGIApp:
        reason = (call.headers.get("x-reason") or CLOSED_BY_OPERATOR)[:REASON_CHARACTERS_MAX]
        if not self._control.close_connection(call.path["name"], reason):
            raise NotFound(f"there is no connection '{call.path['name']}'")
        self._sources.turn()
        return done()


def _check_said_again(call: Call) -> None:
    """Raise HttpRefusal if the body contradicts the path."""
    in_path: dict[str, object] = dict(call.path)
    if "kind" in in_path:
        in_path["destination_type"] = destination_type(call)
    for field, expected in in_path.items():
        said = getattr(call.body, field, None)
        if said is not None and said != expected:
            raise bad_request(f"{field}: the path says {expected!r}")
