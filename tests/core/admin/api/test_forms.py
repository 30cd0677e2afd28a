"""The list of operations from which the console makes its forms: what the caller may do, with every parameter."""

from typing import Any

from tests.kit.admin import Facts, client_of


async def forms(facts: Facts) -> dict[str, dict[str, Any]]:
    async with client_of(facts.application()) as client:
        answer = await client.get("/api/operations")
    assert answer.status_code == 200
    return {one["name"]: one for one in answer.json()}


async def test_every_operation_has_one_form_with_its_parameters():
    facts = Facts()
    found = await forms(facts)
    for entry in facts.api()[0].table.entries:
        own = entry.operation
        if own.answer.form == "events":
            assert own.name not in found
            continue
        form = found[own.name]
        assert (form["summary"], form["right"]) == (own.summary, own.right.value)
        taken = {one["name"]: one for one in form["parameters"]}
        assert taken.keys() == {one.name for one in own.parameters if not one.ignored}
        for parameter in own.parameters:
            if not parameter.ignored:
                control = taken[parameter.name]
                assert control["required"] == (parameter.required or parameter.in_path)
                assert control.get("choices", []) == list(parameter.choices)
                assert (f"/{{{parameter.name}}}" in form["path"]) == control.get("in_path", False)


async def test_a_form_names_what_it_needs_to_ask():
    found = await forms(Facts())
    declare = found["rabbitmq PUT /queues/{vhost}/{name}"]
    assert (declare["method"], declare["path"], declare["has_body"]) == ("PUT", "/api/queues/{vhost}/{name}", True)
    controls = {one["name"]: one for one in declare["parameters"]}
    assert controls.keys().isdisjoint({"node", "exclusive"})  # they have no effect
    assert {"x-max-length", "x-overflow", "x-max-age"} <= {*controls["arguments"]["suggests"]}
    assert controls["queue_type"]["suggests"] == ["classic", "quorum", "stream"]
    assert (
        "max-link-credit" in {one["name"]: one for one in found["policies.set"]["parameters"]}["definition"]["suggests"]
    )
    assert found["definitions.import"]["parameters"][0]["is_document"]
    count = found["queues.move"]["parameters"][-2]
    assert (count["name"], count["kind"], count["low"]) == ("count", "number", 1)


async def test_secrets_are_marked():
    found = await forms(Facts())
    secret = {name for name, one in found.items() if any(control.get("secret") for control in one["parameters"])}
    assert {"users.set", "rabbitmq POST /exchanges/{vhost}/{name}/publish"} <= secret
