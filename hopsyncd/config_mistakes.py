"""Mistakes in a configuration, in words: the line, the key, why, and what to write instead."""

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from hopsyncd.errors import ConfigError
from hopsyncd.toml_lines import KeyPath, key_lines, line_of

Models = Mapping[str, type[BaseModel]]
"""The model of each section, by the section's name in the file."""

_WANTED = {
    "tuple_type": "it should be a list",
    "bool_type": "it should be true or false",
    "string_type": "it should be text in quotes",
    "int_type": "it should be a whole number",
    "float_type": "it should be a number",
    "string_pattern_mismatch": "it has another form than wanted",
    "too_short": "it should not be empty",
    "string_too_short": "it should not be empty",
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """`at` is the place in the file: ("watch", "debounce_ms") or ("source", 0, "path")."""

    at: KeyPath
    why: str
    hint: str


def mistake_of(error: ErrorDetails, models: Models) -> Mistake:
    """pydantic's finding in our words."""
    at = error["loc"]
    kind = error["type"]
    if kind == "extra_forbidden":
        return Mistake(at, "unknown key", _nearest_key(at, models))
    if kind == "missing":
        return Mistake(at, "it is missing", "Add it: a source needs a name and a path.")
    if kind == "model_type":
        return Mistake(
            at, "it should be a table", f"Write {_header(str(at[0]))} and its keys below."
        )
    if at == ("source",):
        return Mistake(at, "sources are a list of tables", "Write [[source]], in two brackets.")
    why = error["msg"].removeprefix("Value error, ")
    if kind != "value_error":
        why = f"{_WANTED.get(kind) or why}, not {toml_value(error['input'])}"
    return Mistake(
        at, why.replace("Input should", "it should"), _value_hint(at, error["input"], models)
    )


def _value_hint(at: KeyPath, got: object, models: Models) -> str:
    model, key = models[str(at[0])], str(at[2] if at[0] == "source" else at[1])
    field = model.model_fields[key]
    choices = getattr(field.annotation, "__args__", ())
    near = difflib.get_close_matches(str(got), [c for c in choices if isinstance(c, str)], n=1)
    if near:
        return f'Did you mean "{near[0]}"?'
    return field.description or f"The default is `{key} = {toml_value(field.default)}`."


def _nearest_key(at: KeyPath, models: Models) -> str:
    """A suggestion for an unknown key."""
    key = str(at[-1])
    model = models.get(str(at[0])) if len(at) > 1 else None
    known = list(model.model_fields) if model else list(models)
    near = difflib.get_close_matches(key, known, n=1)
    home_of_key = [name for name, other in models.items() if key in other.model_fields]
    if near:
        return f"Did you mean `{near[0]}`?"
    if home_of_key:
        return f"`{key}` belongs in {' or '.join(map(_header, home_of_key))}."
    return f"Known here: {', '.join(known)}."


def config_error(file: Path, text: str, mistakes: Sequence[Mistake], models: Models) -> ConfigError:
    """All mistakes as one error, in the order of the lines."""
    lines = key_lines(text)
    numbered = sorted(((line_of(lines, m.at) or 1, m) for m in mistakes), key=lambda pair: pair[0])
    told = [(f"{file}:{line}: {_place(m.at, models)}", m.why, m.hint) for line, m in numbered]
    if len(told) == 1:
        return ConfigError(*told[0])
    listed = "".join(f"\n  {place}: {why}. {hint}" for place, why, hint in told)
    return ConfigError(
        str(file), f"{len(told)} mistakes{listed.removesuffix('.')}", "\nCorrect these lines."
    )


def syntax_error(file: Path, text: str, error: tomllib.TOMLDecodeError) -> ConfigError:
    said = re.fullmatch(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
    why, line, column = said.groups() if said else (str(error), None, None)
    place = f"{file}:{line or text.count(chr(10)) + 1}" + (f":{column}" if column else "")
    hint = 'This is not TOML: text stands in "quotes", and each quote and bracket must be closed.'
    return ConfigError(place, why[0].lower() + why[1:], hint)


def _place(at: KeyPath, models: Models) -> str:
    """The key and its section, in words."""
    if at[0] == "source" and len(at) > 1 and isinstance(at[1], int):
        section, keys = f"[[source]] number {at[1] + 1}", at[2:3]
    else:
        section, keys = _header(str(at[0])), at[1:2]
    if len(at) == 1 and at[0] not in models:
        return f"`{at[0]}`"
    return f"`{keys[0]}` in {section}" if keys else section


def _header(section: str) -> str:
    return "[[source]]" if section == "source" else f"[{section}]"


def toml_value(value: object) -> str:
    """The value as TOML text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\u{ord(c[0]):04x}", escaped) + '"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return str(value)
