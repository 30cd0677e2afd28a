"""The table of operations as an OpenAPI 3.1 description [https://spec.openapis.org/oas/v3.1.0]."""

from collections.abc import Sequence

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from core.admin.api.operations import Operation, Parameter

REFERENCE = "#/components/schemas/{model}"


def description(operations: Sequence[Operation], *, version: str) -> dict[str, object]:
    """Return the description of all operations."""
    paths: dict[str, dict[str, object]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    bodies = {operation.body.__name__: operation.body for operation in operations if operation.body is not None}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headgate", "version": version, "description": "See docs/operating/http-api.md."},
        "security": [{"token": []}, {"password": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {**_schemas(list(bodies.values())), "Problem": _PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic", "description": "The token as password."},
            },
        },
    }


def _described(operation: Operation) -> dict[str, object]:
    answer: dict[str, object] = {"description": "As asked."}
    if operation.status != 204:
        answer["content"] = {operation.media_type: {}}
    problem = {"description": "A problem.", "content": {"application/json": {"schema": _reference("Problem")}}}
    described: dict[str, object] = {
        "operationId": f"{operation.method.lower()} {operation.path}",
        "summary": operation.summary,
        "parameters": [*map(_in_path, operation.names), *map(_in_query, operation.query)],
        "responses": {str(operation.status): answer, "default": problem},
    }
    if operation.body is not None:
        content = {"application/json": {"schema": _reference(operation.body.__name__)}}
        needed = any(field.is_required() for field in operation.body.model_fields.values())
        described["requestBody"] = {"required": needed, "content": content}
    return described


def _in_path(name: str) -> dict[str, object]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _in_query(parameter: Parameter) -> dict[str, object]:
    schema: dict[str, object] = {"type": parameter.kind}
    if parameter.kind == "integer":
        schema["minimum"] = parameter.low
        if parameter.high is not None:
            schema["maximum"] = parameter.high
    return {"name": parameter.name, "in": "query", "description": parameter.help, "schema": schema}


def _schemas(models: Sequence[type[BaseModel]]) -> dict[str, object]:
    _, schema = models_json_schema([(model, "validation") for model in models], ref_template=REFERENCE)
    return dict(schema.get("$defs", {}))


def _reference(model: str) -> dict[str, str]:
    return {"$ref": REFERENCE.format(model=model)}


_PROBLEM: dict[str, object] = {
    "type": "object",
    "required": ["error", "reason"],
    "properties": {"error": {"type": "string"}, "reason": {"type": "string"}},
}
