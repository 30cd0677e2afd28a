"""The table of operations as a page needs it to make a form for each: what may be asked, and what each parameter is."""

from core.admin.api.requests import has_body
from core.operations.operation import Parameter
from core.operations.table import PathEntry


def form_of(entry: PathEntry) -> dict[str, object]:
    """Return an operation in plain values: where it is asked for, what it does, and the parameters that it takes.
    Parameters that have no effect are left out."""
    operation = entry.operation
    return {
        "name": operation.name,
        "method": entry.spelling.method,
        "path": entry.path,
        "summary": operation.summary,
        "answer": operation.answer.form,
        "right": operation.right.value,
        "has_body": has_body(operation),
        "parameters": [_control_of(one) for one in operation.parameters if not one.ignored],
    }


def _control_of(parameter: Parameter) -> dict[str, object]:
    control: dict[str, object] = {
        "name": parameter.name,
        "sentence": parameter.sentence.replace("``", ""),
        "kind": parameter.kind,
        "required": parameter.required or parameter.in_path,
        "default": parameter.default,
    }
    if parameter.kind == "number":
        control |= {"low": parameter.low, "high": parameter.high}
    if parameter.kind == "text":
        control["characters_max"] = parameter.characters_max
    for mark in ("in_path", "is_document", "secret"):
        if getattr(parameter, mark):
            control[mark] = True
    for values in ("choices", "suggests"):
        if getattr(parameter, values):
            control[values] = list(getattr(parameter, values))
    return control
