"""Explains mistakes in a configuration: the line, the key, the reason, and a correction."""

import difflib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from hopsyncd.config.source_kinds import SourceBase, list_known_kinds
from hopsyncd.errors import ConfigError

KeyPath = tuple[str | int, ...]
"""A place in the file, as pydantic names it: `("source", 0, "path")`."""

Models = Mapping[str, type[BaseModel]]
"""The model of each section, by its name in the file, such as "access" or "access.oidc"; for a
source, by "source " + its kind."""

SOURCE_SECTION = "source "

_WRONG_FORM = "the value has the wrong form"
_EXPECTED = {
    "tuple_type": "the value must be a list",
    "bool_type": "the value must be true or false",
    "string_type": "the value must be text in quotes",
    "int_type": "the value must be an integer",
    "float_type": "the value must be a number",
    "string_pattern_mismatch": _WRONG_FORM,
    "too_short": "the value must not be empty",
    "string_too_short": "the value must not be empty",
}

_SPACE_OR_COMMENT = re.compile(r"(?:\s|#[^\n]*)*")
_KEY_PART = re.compile(r"[ \t]*(?:\"((?:[^\"\\\n]|\\.)*)\"|'([^'\n]*)'|([A-Za-z0-9_-]+))[ \t]*")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")' + r"|'''.*?'{3,5}(?!')"
    r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'",
    re.DOTALL,
)


def map_key_lines(text: str) -> dict[KeyPath, int]:
    """Map each table and key of a TOML text to its line, counted from 1.

    The text must be valid. Keys of inline tables are left out.

    >>> map_key_lines('a = 1\\n[[b]]\\nc = [\\n2]\\n[[b]]\\n')
    {('a',): 1, ('b', 0): 2, ('b', 0, 'c'): 3, ('b', 1): 5}
    """
    lines: dict[KeyPath, int] = {}
    arrays: Counter[KeyPath] = Counter()
    table: KeyPath = ()
    for start, header, keys, is_array in _find_statements(text):
        if header:
            table = _resolve(keys, arrays, is_array)
            path = table
        else:
            path = (*table, *keys)
        lines.setdefault(path, text.count("\n", 0, start) + 1)
    return lines


def find_line(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """Return the line of the path, or of the nearest table that contains it."""
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), None)


def _resolve(keys: KeyPath, arrays: Counter[KeyPath], is_array: bool) -> KeyPath:
    """Return the key path of a header, with the current index after each array of tables."""
    path: KeyPath = ()
    for depth, key in enumerate(keys, start=1):
        path = (*path, key)
        if is_array and depth == len(keys):
            arrays[path] += 1
        if arrays[path]:
            path = (*path, arrays[path] - 1)
    return path


def _find_statements(text: str) -> Iterator[tuple[int, bool, KeyPath, bool]]:
    """Yield each header and each `key =`.

    Each item is its offset, whether it is a header, its keys, and whether it begins with `[[`.
    """
    offset = _skip(text, 0)
    while offset < len(text):
        brackets = 2 if text.startswith("[[", offset) else int(text[offset] == "[")
        keys, end = _parse_keys(text, offset + brackets)
        if end == offset + brackets:
            return
        yield offset, brackets > 0, keys, brackets == 2
        end = end + brackets if brackets else _find_value_end(text, end + 1)
        offset = _skip(text, end)


def _parse_keys(text: str, offset: int) -> tuple[KeyPath, int]:
    keys: list[str] = []
    while match := _KEY_PART.match(text, offset):
        keys.append(next(part for part in match.groups() if part is not None))
        offset = match.end()
        if not text.startswith(".", offset):
            break
        offset += 1
    return tuple(keys), offset


def _find_value_end(text: str, offset: int) -> int:
    """Return where a value ends: at a newline outside strings and brackets."""
    depth = 0
    while offset < len(text):
        string = _STRING.match(text, offset)
        if string:
            offset = string.end()
            continue
        if text[offset] == "#":
            offset = text.find("\n", offset) if "\n" in text[offset:] else len(text)
            continue
        if text[offset] == "\n" and depth == 0:
            return offset
        depth += (text[offset] in "[{") - (text[offset] in "]}")
        offset += 1
    return offset


def _skip(text: str, offset: int) -> int:
    match = _SPACE_OR_COMMENT.match(text, offset)
    return match.end() if match else offset


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in the configuration.

    key_path: such as ("watch", "debounce_ms") or ("source", 0, "path").
    """

    key_path: KeyPath
    why: str
    hint: str


def explain_error(error: ErrorDetails, models: Models) -> Mistake:
    key_path, section = _locate(error["loc"], models)
    kind = error["type"]
    if kind == "unknown_kind":
        value = error["input"].get("kind")
        return Mistake(
            (*key_path, "kind"), f"unknown kind {format_toml_value(value)}", _suggest_kind(value)
        )
    if kind == "extra_forbidden":
        return Mistake(key_path, "unknown key", _suggest_key(key_path, section, models))
    if kind == "missing":
        field = models[section].model_fields[str(key_path[2])]
        return Mistake(key_path, "the key is missing", field.description or "Add the key.")
    if kind == "model_type":
        return Mistake(
            key_path,
            "the value must be a table",
            f"Write {_format_header(section)} and its keys below.",
        )
    if key_path == ("source",):
        return Mistake(
            key_path, "sources must be a list of tables", "Write [[source]], in two brackets."
        )
    why = error["msg"].removeprefix("Value error, ")
    if kind != "value_error":
        expected = _EXPECTED.get(kind) or why
        link = ":" if expected == _WRONG_FORM else ", not"
        why = f"{expected}{link} {format_toml_value(error['input'])}"
    hint = _suggest_value(key_path, section, error["input"], models)
    return Mistake(key_path, why.replace("Input should", "the value must"), hint)


def _locate(loc: KeyPath, models: Models) -> tuple[KeyPath, str]:
    """Return the key path in the file and the name of its model.

    pydantic inserts a source's kind into the path.
    """
    if loc[0] == "source" and len(loc) > 2:
        return (*loc[:2], *loc[3:]), SOURCE_SECTION + str(loc[2])
    return loc, _find_section(loc, models)


def _find_section(key_path: KeyPath, models: Models) -> str:
    """Return the section that has a key. A table in a section is a section too."""
    nested = ".".join(map(str, key_path[:2]))
    return nested if nested in models else str(key_path[0])


def _suggest_value(key_path: KeyPath, section: str, value: object, models: Models) -> str:
    is_deep = key_path[0] == "source" or ("." in section and len(key_path) > 2)
    if len(key_path) < 2 or (key_path[0] == "source" and len(key_path) < 3):
        return "docs/sources.md and config.toml show how to write it."
    model = models[section] if is_deep else models[str(key_path[0])]
    field = model.model_fields[key := str(key_path[2] if is_deep else key_path[1])]
    choices = getattr(field.annotation, "__args__", ())
    near_values = difflib.get_close_matches(
        str(value), [c for c in choices if isinstance(c, str)], n=1
    )
    if near_values:
        return f'Did you mean "{near_values[0]}"?'
    return field.description or f"The default is `{key} = {format_toml_value(field.default)}`."


def _suggest_kind(value: object) -> str:
    near_kinds = difflib.get_close_matches(str(value), list_known_kinds(), n=1)
    if near_kinds:
        return f'Did you mean "{near_kinds[0]}"?'
    return (
        f"Use one of {', '.join(list_known_kinds())}."
        " Install the package that provides another kind."
    )


def _suggest_key(key_path: KeyPath, section: str, models: Models) -> str:
    key = str(key_path[-1])
    model = models.get(section) if len(key_path) > 1 else None
    sections = dict.fromkeys(name.partition(" ")[0] for name in models)
    keys = list(model.model_fields) if model else list(sections)
    near_keys = difflib.get_close_matches(key, keys, n=1)
    sections_with_key = ["source"] if key in SourceBase.model_fields else []
    sections_with_key = sections_with_key or [
        n for n, candidate in models.items() if key in candidate.model_fields
    ]
    if near_keys:
        return f"Did you mean `{near_keys[0]}`?"
    if sections_with_key:
        return f"`{key}` belongs in {' or '.join(map(_format_header, sections_with_key))}."
    return f"Known keys: {', '.join(keys)}."


def config_error(file: Path, text: str, mistakes: Sequence[Mistake], models: Models) -> ConfigError:
    """Combine all mistakes into one error, in the order of their lines."""
    lines = map_key_lines(text)
    numbered = sorted(
        ((find_line(lines, m.key_path) or 1, m) for m in mistakes), key=lambda pair: pair[0]
    )
    parts = [
        (f"{file}:{line}: {_describe_place(m.key_path, models)}", m.why, m.hint)
        for line, m in numbered
    ]
    if len(parts) == 1:
        return ConfigError(*parts[0])
    listed = "".join(f"\n  {place}: {why}. {hint}" for place, why, hint in parts)
    return ConfigError(
        str(file), f"{len(parts)} mistakes{listed.removesuffix('.')}", "\nCorrect these lines."
    )


def syntax_error(file: Path, text: str, error: ValueError | RecursionError) -> ConfigError:
    if not isinstance(error, tomllib.TOMLDecodeError):
        if isinstance(error, ValueError):
            return ConfigError(str(file), "a number is too long", "Shorten the number.")
        return ConfigError(
            str(file), "brackets are nested too deeply", "Remove the inner brackets."
        )
    message = re.fullmatch(r"(.*?) \(at (?:line (\d+), column (\d+)|end of document)\)", str(error))
    why, line, column = message.groups() if message else (str(error), None, None)
    if twice := _explain_declared_twice(text, why, int(line or 0)):
        return ConfigError(f"{file}:{line}", *twice)
    place = f"{file}:{line or text.count(chr(10)) + 1}" + (f":{column}" if column else "")
    hint = 'This is not TOML: put text in "quotes", and close each quote and bracket.'
    return ConfigError(place, why[0].lower() + why[1:], hint)


def _explain_declared_twice(text: str, why: str, line: int) -> tuple[str, str] | None:
    """Explain that a section or key is in the file twice, and what to do.

    `line` is the line of the second occurrence. Returns None for other mistakes.
    """
    if not 1 <= line <= len(rows := text.splitlines()):
        return None
    if re.match(r"Cannot (declare|overwrite|mutate)", why) is None:
        return None
    name = rows[line - 1].partition("#")[0].partition("=")[0].strip()
    is_section = name.startswith("[")
    start = 0
    if not is_section:  # a key may also be in other sections
        headers = [
            index for index, row in enumerate(rows[: line - 1]) if row.lstrip().startswith("[")
        ]
        start = headers[-1] + 1 if headers else 0
    for number, row in enumerate(rows[start : line - 1], start + 1):
        if row.partition("#")[0].partition("=")[0].strip() == name:
            noun = name if is_section else f"`{name}`"
            hint = (
                f"Put the keys below line {number}, and remove the second {name}."
                if is_section
                else "Remove one of the two lines."
            )
            return f"{noun} is already at line {number}", hint
    return None


def _describe_place(key_path: KeyPath, models: Models) -> str:
    """Name the key and its section in words."""
    if key_path[0] == "source" and len(key_path) > 1 and isinstance(key_path[1], int):
        section, keys = f"[[source]] number {key_path[1] + 1}", key_path[2:3]
    elif len(key_path) > 2 and (nested := _find_section(key_path, models)) != key_path[0]:
        section, keys = _format_header(nested), key_path[2:3]
    else:
        section, keys = _format_header(str(key_path[0])), key_path[1:2]
    if len(key_path) == 1 and key_path[0] != "source" and key_path[0] not in models:
        return f"`{key_path[0]}`"
    return f"`{keys[0]}` in {section}" if keys else section


def _format_header(section: str) -> str:
    kind = section.removeprefix(SOURCE_SECTION)
    if kind != section:
        return f'[[source]] of kind "{kind}"'
    return "[[source]]" if section == "source" else f"[{section}]"


def format_toml_value(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda c: f"\\u{ord(c[0]):04x}", escaped) + '"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(format_toml_value, value)) + "]"
    return str(value)
