"""The table of operations as an OpenAPI 3.1 description [https://spec.openapis.org/oas/v3.1.0]."""

from collections.abc import Iterable, Mapping

from core.admin.api.live import MEDIA_TYPE
from core.admin.api.requests import has_body
from core.operations.operation import AnswerField, Kind, Operation, Parameter
from core.operations.table import PathEntry

TYPES: Mapping[Kind, str] = {"text": "string", "number": "integer", "flag": "boolean", "map": "object", "list": "array"}
PROBLEM = "#/components/schemas/Problem"


def description(entries: Iterable[PathEntry], *, version: str) -> dict[str, object]:
    """Return the description of all operations. A parameter may come in the query or in the body, so both have it."""
    paths: dict[str, dict[str, object]] = {}
    for entry in entries:
        paths.setdefault(entry.path, {})[entry.spelling.method.lower()] = _described(entry)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headgate", "version": version, "description": "See docs/operating/http-api.md."},
        "security": [{"token": []}, {"password": []}, {}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic", "description": "The token as password."},
            },
        },
    }


def _described(entry: PathEntry) -> dict[str, object]:
    operation, spelling = entry.operation, entry.spelling
    problem = {"description": "A problem.", "content": {"application/json": {"schema": {"$ref": PROBLEM}}}}
    described: dict[str, object] = {
        "operationId": f"{spelling.method.lower()} {entry.path}",
        "summary": operation.summary,
        "parameters": [
            _parameter(one, elsewhere=has_body(operation))
            for one in operation.parameters
            if one.kind not in ("map", "list")
        ],
        "responses": {str(spelling.status or operation.answer.status): _answer(entry), "default": problem},
    }
    if has_body(operation) and any(not one.in_path for one in operation.parameters):
        described["requestBody"] = _body(operation)
    return described


def _answer(entry: PathEntry) -> dict[str, object]:
    shape, within = entry.operation.answer, entry.spelling.within
    answer: dict[str, object] = {"description": "As asked."}
    if shape.form == "nothing":
        return answer
    schema: dict[str, object] = {}
    if shape.fields:
        schema = {"type": "object", "properties": {field.name: _field(field) for field in shape.fields}}
    if shape.form == "rows":
        schema = {"type": "array", "items": schema}
    if within:
        schema = {"type": "object", "properties": {within: schema}}
    media_type = MEDIA_TYPE if shape.form == "events" else "application/json"
    return answer | {"content": {media_type: {"schema": schema} if schema else {}}}


def _field(field: AnswerField) -> dict[str, object]:
    return {"description": field.sentence, "type": [TYPES[field.kind] if field.kind != "number" else "number", "null"]}


def _parameter(parameter: Parameter, *, elsewhere: bool) -> dict[str, object]:
    return {
        "name": parameter.name,
        "in": "path" if parameter.in_path else "query",
        "required": parameter.in_path or (parameter.required and not elsewhere),
        "description": parameter.sentence,
        "schema": _schema(parameter),
    }


def _schema(parameter: Parameter) -> dict[str, object]:
    schema: dict[str, object] = {"type": TYPES[parameter.kind]}
    if parameter.kind == "number":
        schema |= {"minimum": parameter.low, "maximum": parameter.high}
    if parameter.choices:
        schema["enum"] = list(parameter.choices)
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema


def _body(operation: Operation) -> dict[str, object]:
    free = [parameter for parameter in operation.parameters if not parameter.in_path]
    schema: dict[str, object] = {"type": "object"}
    if operation.document is None:
        schema |= {
            "properties": {one.name: _schema(one) | {"description": one.sentence} for one in free},
            "additionalProperties": False,
        }
    return {"required": operation.document is not None, "content": {"application/json": {"schema": schema}}}


_PROBLEM: dict[str, object] = {
    "type": "object",
    "required": ["error", "reason"],
    "properties": {"error": {"type": "string"}, "reason": {"type": "string"}},
}
