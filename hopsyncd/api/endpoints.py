"""Declares endpoints, and generates the OpenAPI document from the declarations.

A decorator makes a method of a service an endpoint and gives its path and right. Its type hints
define the request and the answer, and its docstring is the summary. The routes (api/app.py), both
clients (client/calls.py) and docs/reference/http-api.md are generated from the declarations.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from hopsyncd import __version__
from hopsyncd.api.tokens import Right
from hopsyncd.responses.changes import Accepted
from hopsyncd.responses.results import ErrorEvent, Event, Failed

NDJSON = "application/x-ndjson"
_DECLARED = "declared_endpoint"  # the attribute in which a method's Endpoint is stored
_REF = "#/components/schemas/{model}"
_FAILED, _EVENTS, _ACCEPTED = "Failed", "Event", "Accepted"

Method = Literal["GET", "POST", "DELETE"]
Operation = TypeVar("Operation", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The declaration of an endpoint. `service` names its service, and `operation` the method.

    request: the type of a POST's body, otherwise of the path and query parameters. listens: whether
    the method takes a Listener and stops if its client disconnects. streams: whether the client may
    ask for NDJSON events. may_accept: whether the client may ask for the answer `Accepted` before
    the work is done.
    """

    method: Method
    path: str
    right: Right
    operation: str
    summary: str
    request: type[BaseModel]
    answer: Any
    listens: bool = False
    streams: bool = False
    may_accept: bool = False
    media_type: str = "application/json"
    service: str = ""


def endpoint(
    method: Method,
    path: str,
    right: Right,
    *,
    streams: bool = False,
    may_accept: bool = False,
    media_type: str = "application/json",
) -> Callable[[Operation], Operation]:
    """Declare that the decorated method answers `method path` for callers with this right."""

    def declare(operation: Operation) -> Operation:
        hints = get_type_hints(operation)
        answer = hints["return"]
        declared = Endpoint(
            method,
            path,
            right,
            operation.__name__,
            (operation.__doc__ or "").partition("\n")[0].rstrip("."),
            hints["request"],
            get_args(answer)[0] if get_origin(answer) is Future else answer,
            "listener" in hints,
            streams,
            may_accept,
            media_type,
        )
        setattr(operation, _DECLARED, declared)
        return operation

    return declare


def list_endpoints(services: type) -> tuple[Endpoint, ...]:
    """List the endpoints of a dataclass of services, in the order of declaration."""
    return tuple(
        replace(getattr(method, _DECLARED), service=name)
        for name, service in get_type_hints(services).items()
        for method in vars(service).values()
        if hasattr(method, _DECLARED)
    )


@cache
def build_openapi_document(endpoints: tuple[Endpoint, ...]) -> dict[str, Any]:
    """Generate the OpenAPI 3.1 document: every endpoint with its request, answer and errors."""
    answers, schemas = _build_answer_schemas(endpoints)
    bodies = [endpoint.request for endpoint in endpoints if endpoint.method == "POST"]
    _, bodies_json = models_json_schema(
        [(body, "validation") for body in bodies], ref_template=_REF
    )
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _describe_operation(
            endpoint, answers
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hopsyncd",
            "version": __version__,
            "description": "Search, answers and history over your own documents.",
        },
        "servers": [{"url": "http://hopsyncd", "description": "the daemon's Unix socket"}],
        "paths": paths,
        "components": {"schemas": schemas | bodies_json["$defs"]},
    }


def _build_answer_schemas(
    endpoints: Sequence[Endpoint],
) -> tuple[Mapping[str, dict[str, Any]], dict[str, Any]]:
    """Return the schema of each operation's answer, and the schemas that they refer to."""
    answers = {endpoint.operation: endpoint.answer for endpoint in endpoints}
    answers |= {_FAILED: Failed, _EVENTS: Event | ErrorEvent, _ACCEPTED: Accepted}
    schemas, definitions = TypeAdapter.json_schemas(
        [(name, "serialization", TypeAdapter(answer)) for name, answer in answers.items()],
        ref_template=_REF,
    )
    return {name: schema for (name, _), schema in schemas.items()}, definitions["$defs"]


def _describe_operation(
    endpoint: Endpoint, answers: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    failure = {"content": {"application/json": {"schema": answers[_FAILED]}}}
    content = {endpoint.media_type: {"schema": answers[endpoint.operation]}}
    if endpoint.streams:
        content[NDJSON] = {"schema": answers[_EVENTS]}
    responses = {
        "200": {"description": endpoint.summary, "content": content},
        "4XX": {"description": "The request was refused", **failure},
        "5XX": {"description": "The daemon could not answer", **failure},
    }
    if endpoint.may_accept:
        accepted = {"application/json": {"schema": answers[_ACCEPTED]}}
        responses["202"] = {"description": "The work has begun", "content": accepted}
    operation: dict[str, Any] = {
        "operationId": endpoint.operation,
        "summary": endpoint.summary,
        "description": f"Needs the right `{endpoint.right}`.",
        "responses": responses,
    }
    if endpoint.method == "POST":
        schema = {"$ref": _REF.format(model=endpoint.request.__name__)}
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        operation["requestBody"]["required"] = any(
            field.is_required() for field in endpoint.request.model_fields.values()
        )
    else:
        operation["parameters"] = _describe_parameters(endpoint)
    return operation


def _describe_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    schema = endpoint.request.model_json_schema()
    required = schema.get("required", ())
    return [
        {
            "name": name,
            "in": "path" if f"{{{name}}}" in endpoint.path else "query",
            "required": name in required,
            "schema": _drop_null(field),
        }
        for name, field in schema.get("properties", {}).items()
    ]


def _drop_null(field: dict[str, Any]) -> dict[str, Any]:
    """Remove the null variant from a parameter's schema: a query string cannot express null."""
    kinds = [variant for variant in field.pop("anyOf", ()) if variant != {"type": "null"}]
    schema = field | dict(*kinds)
    return {key: value for key, value in schema.items() if key != "title" and value is not None}
