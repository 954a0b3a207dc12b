"""The OpenAPI 3.1 document, made from the table of endpoints."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from hopsyncd import __version__
from hopsyncd.answers.changed import Accepted
from hopsyncd.answers.found import ErrorEvent, Event, Failed
from hopsyncd.api.endpoints import ENDPOINTS, Endpoint

NDJSON = "application/x-ndjson"
_REF = "#/components/schemas/{model}"
_EVENTS = "Event"
_ACCEPTED = "Accepted"


@cache
def openapi_document() -> dict[str, Any]:
    """Every endpoint with its request, its answer and its errors."""
    answers, schemas = _answer_schemas(ENDPOINTS)
    bodies = [one.request for one in ENDPOINTS if one.method == "POST"]
    _, found = models_json_schema([(one, "validation") for one in bodies], ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for one in ENDPOINTS:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, answers)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hopsyncd",
            "version": __version__,
            "description": "A versioned multi-hop knowledge graph of a person's documents.",
        },
        "servers": [{"url": "http://hopsyncd", "description": "the daemon's Unix socket"}],
        "paths": paths,
        "components": {"schemas": schemas | found["$defs"]},
    }


def _answer_schemas(
    endpoints: Iterable[Endpoint],
) -> tuple[Mapping[str, dict[str, Any]], dict[str, Any]]:
    """The schema of each operation's answer, and those that they refer to."""
    wanted = {one.operation: one.answer for one in endpoints}
    wanted |= {"": Failed, _EVENTS: Event | ErrorEvent, _ACCEPTED: Accepted}
    made, whole = TypeAdapter.json_schemas(
        [(name, "serialization", TypeAdapter(answer)) for name, answer in wanted.items()],
        ref_template=_REF,
    )
    return {name: schema for (name, _), schema in made.items()}, whole["$defs"]


def _operation(one: Endpoint, answers: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    failure = {"content": {"application/json": {"schema": answers[""]}}}
    content = {one.media_type: {"schema": answers[one.operation]}}
    if one.streams:
        content[NDJSON] = {"schema": answers[_EVENTS]}
    responses = {
        "200": {"description": one.summary, "content": content},
        "4XX": {"description": "The request was refused", **failure},
        "5XX": {"description": "The daemon could not answer", **failure},
    }
    if one.may_accept:
        accepted = {"application/json": {"schema": answers[_ACCEPTED]}}
        responses["202"] = {"description": "It has begun", "content": accepted}
    made: dict[str, Any] = {
        "operationId": one.operation,
        "summary": one.summary,
        "description": f"Needs the right `{one.right}`.",
        "responses": responses,
    }
    if one.method == "POST":
        schema = {"$ref": _REF.format(model=one.request.__name__)}
        made["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        made["requestBody"]["required"] = _has_required(one)
    else:
        made["parameters"] = _parameters(one)
    return made


def _has_required(one: Endpoint) -> bool:
    return any(field.is_required() for field in one.request.model_fields.values())


def _parameters(one: Endpoint) -> list[dict[str, Any]]:
    schema = one.request.model_json_schema()
    required = schema.get("required", ())
    return [
        {
            "name": name,
            "in": "path" if f"{{{name}}}" in one.path else "query",
            "required": name in required,
            "schema": _given(field),
        }
        for name, field in schema.get("properties", {}).items()
    ]


def _given(field: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter where it is given: it has no way to be null."""
    kinds = [one for one in field.pop("anyOf", ()) if one != {"type": "null"}]
    whole = field | dict(*kinds)
    return {key: value for key, value in whole.items() if key != "title" and value is not None}
