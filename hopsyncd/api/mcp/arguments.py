"""Reads the arguments of tools as agents write them, and describes mistakes in one plain line."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError

_FILTER_START = re.compile(r"(?<!\S)(?=-?[a-z][a-z-]*:\S)")
# Our parameters' names, by other names that agents use for them.
_OTHER_NAMES = {
    **dict.fromkeys(("query", "q", "text", "prompt"), "question"),
    **dict.fromkeys(("limit", "n", "top_k", "count", "max_results"), "k"),
    **dict.fromkeys(("id", "passage_id"), "passage"),
    **dict.fromkeys(("path", "file", "file_path", "name"), "document"),
    **dict.fromkeys(("filter", "where"), "filters"),
    **dict.fromkeys(("from", "old", "start", "date"), "since"),
    **dict.fromkeys(("to", "new", "end"), "until"),
    **dict.fromkeys(("topic", "subject"), "about"),
    **dict.fromkeys(("version",), "at"),
}


def rename_arguments(arguments: Mapping[str, Any], parameters: Collection[str]) -> dict[str, Any]:
    """Rename arguments that clients often give under another name.

    >>> rename_arguments({"query": "Who?", "limit": 3}, ["question", "k"])
    {'question': 'Who?', 'k': 3}
    """
    renamed = {}
    for name, value in arguments.items():
        new_name = _OTHER_NAMES.get(name, name)
        fits = name not in parameters and new_name in parameters and new_name not in arguments
        renamed[new_name if fits else name] = value
    return renamed


def read_filters(filters: Any) -> Any:
    """Read filters in any form: a list, a string with one or more filters, or an object.

    >>> read_filters("type:xlsx path:my notes since:2026-01")
    ['type:xlsx', 'path:my notes', 'since:2026-01']
    >>> read_filters({"type": "md", "tag": ["a", "b"]}), read_filters("")
    (['type:md', 'tag:a', 'tag:b'], [])
    """
    if isinstance(filters, str):
        text = filters.strip()
        if text[:1] in ("[", "{"):
            try:
                return read_filters(json.loads(text))
            except ValueError:
                return [text]
        return [part.strip().rstrip(",") for part in _FILTER_START.split(text) if part.strip()]
    if isinstance(filters, Mapping):
        pairs = (
            (key, value)
            for key, values in filters.items()
            for value in (values if isinstance(values, list) else [values])
        )
        return [f"{key}:{value}" for key, value in pairs]
    if isinstance(filters, list):
        return [
            text
            for filter_ in filters
            for text in (read_filters(filter_) if isinstance(filter_, Mapping) else [filter_])
        ]
    return filters


def lean_schema(schema: Any) -> Any:
    """Remove parts that a model does not need from a schema of parameters: titles and null.

    >>> lean_schema({"anyOf": [{"type": "string"}, {"type": "null"}], "title": "At"})
    {'type': 'string'}
    """
    if isinstance(schema, list):
        return [lean_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    lean = {
        name: lean_schema(part)
        for name, part in schema.items()
        if not (name in _UNNEEDED and not isinstance(part, dict))
    }
    variants = [variant for variant in lean.get("anyOf", ()) if variant != {"type": "null"}]
    if len(variants) == 1:
        lean |= variants[0]
        del lean["anyOf"]
    return lean


def describe_mistake(tool: str, error: ValidationError, parameters: Collection[str]) -> str:
    """Describe the first mistake in a tool's arguments, in one line."""
    first = error.errors(include_url=False)[0]
    name = ".".join(str(part) for part in first["loc"]) or "the arguments"
    if first["type"] == "missing":
        return f"{tool} needs `{name}`. Its parameters are {', '.join(parameters)}."
    limits = first.get("ctx", {})
    message = _MESSAGES.get(first["type"], "")
    text = (
        message.format(**limits)
        if message
        else f"is not valid ({first['msg'].removeprefix('Value error, ').lower()})"
    )
    value = repr(first["input"])[:_SHOWN]
    return f"`{name}` of {tool} {text}, but {value} was given."


_SHOWN = 60
_UNNEEDED = ("title", "maxLength", "minLength", "maxItems")
_MESSAGES = {
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "int_parsing": "must be an integer",
    "int_type": "must be an integer",
    "string_type": "must be a string",
    "string_too_short": "must not be empty",
    "literal_error": "must be {expected}",
    "list_type": "must be a list of strings",
    "string_pattern_mismatch": "must be an id from a search result",
}
