"""Adds sources to the configuration file and removes them, and compares configurations at a reload.

Edits keep comments and all text that they do not change.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hopsyncd.config.configuration import Config, check_config, choose_free_name
from hopsyncd.config.mistakes import format_toml_value, map_key_lines
from hopsyncd.config.source_kinds import SourceConfig
from hopsyncd.errors import ConfigError
from hopsyncd.responses.changes import ReloadAnswer
from store.files import replace_file

_PLACE_KEYS = {"kind", "path", "url", "start", "host", "user", "table", "query"}
_WEB_PAGE = re.compile(r"^https?://(?:www\.)?")
_AT_ONCE = ("query", "watch", "schedule", "retention", "backup", "audit")
_MODELS = ("models", "llm")
_KEYS_AT_ONCE = {"daemon": ("log_level",), "access": ("admins", "backup_dir")}


def add_source(
    file: Path, keys: Mapping[str, Any], name: str | None, *, dry_run: bool = False
) -> tuple[str, str]:
    """Append a `[[source]]` with these keys to the file. Returns its name and the added text.
    Without a name, the name is derived from the path or address. In this case, no source may have
    the same path or address. Raises ConfigError. After an error or in a dry run, the file is
    unchanged.
    """
    text = _read_valid(file)
    names = {str(source.get("name", "")) for source in tomllib.loads(text).get("source", [])}
    chosen = name or choose_free_name(_derive_name(keys), names - {""})
    block = "[[source]]\n" + "".join(
        f"{key} = {format_toml_value(escape_dollars(value))}\n"
        for key, value in {"name": chosen, **keys}.items()
    )
    new = f"{text.rstrip()}\n\n{block}"
    *old_sources, added = check_config(file, new).sources
    same_place = [old.name for old in old_sources if _get_place(old) == _get_place(added)]
    if same_place and not name:
        raise ConfigError(
            f"Cannot add {added.location}",
            f"the source {same_place[0]!r} already has this path or address",
            "Use --name to add it again under another name",
        )
    if not dry_run:
        _replace(file, new)
    return chosen, block


def _get_place(source: SourceConfig) -> dict[str, Any]:
    return source.model_dump(include=_PLACE_KEYS)


def _derive_name(keys: Mapping[str, Any]) -> str:
    """Derive a name for a source: the last part of its path, the host, or the user."""
    if keys["kind"] == "imap":
        return str(keys["user"]).replace("@", " at ")
    if keys["kind"] == "web":
        return _WEB_PAGE.sub("", keys["start"][0]).rstrip("/").replace("/", " ")
    if keys["kind"] == "sqlite" and "table" in keys:
        return str(keys["table"])
    place = str(keys.get("path") or keys["url"]).rstrip("/").removesuffix("/.git")
    return re.split(r"[/:]", place)[-1].removesuffix(".git")


def escape_dollars(value: Any) -> Any:
    """Write `$` as `$$` in all strings, so that it does not start a variable."""
    if isinstance(value, str):
        return value.replace("$", "$$")
    return [escape_dollars(part) for part in value] if isinstance(value, list | tuple) else value


def remove_source(file: Path, name: str) -> None:
    """Remove the `[[source]]` of that name from the file.

    If the source cannot be removed, raises ConfigError, and the file is unchanged.
    """
    text = _read_valid(file)
    sources = tomllib.loads(text).get("source", [])
    names = [source.get("name") for source in sources]
    if name not in names:
        listed = ", ".join(str(name) for name in names) or "none"
        raise ConfigError(
            f"Cannot remove {name}",
            f"{file} has no source of that name",
            f"The sources in the file are: {listed}",
        )
    new = _remove_lines(text, names.index(name), sources[names.index(name)])
    if new is None:
        raise ConfigError(
            f"Cannot remove {name}",
            f"the lines of this source in {file} are mixed with other keys",
            "Edit the file by hand",
        )
    check_config(file, new)
    _replace(file, new)


def ignore_document(file: Path, name: str, path: str) -> None:
    """Add a document to the `ignore` patterns of a source. Raises ConfigError."""
    text = _read_valid(file)
    sources = tomllib.loads(text).get("source", [])
    index = next(
        (position for position, source in enumerate(sources) if source.get("name") == name), None
    )
    failed = f"Cannot ignore {path}"
    if index is None:
        raise ConfigError(
            failed, f"{file} has no source {name!r}", "`hopsyncd status` lists the sources"
        )
    patterns = sources[index].get("ignore", [])
    new_patterns = [*patterns, escape_dollars(make_exact_pattern(path))]
    new = _with_ignored(text, index, patterns, f"ignore = {format_toml_value(new_patterns)}\n")
    sources[index] = {**sources[index], "ignore": new_patterns}
    if new is None or (_parse(new) or {}).get("source") != sources:
        raise ConfigError(
            failed,
            f"{name!r} in {file} is written in a way that hopsyncd cannot edit",
            "Edit the file by hand",
        )
    check_config(file, new)
    _replace(file, new)


def make_exact_pattern(path: str) -> str:
    """Return the gitignore pattern that matches only this path.

    >>> make_exact_pattern("a/[1] b*.md")
    '/a/\\\\[1\\\\] b\\\\*.md'
    """
    escaped = re.sub(r"([\\*?\[\]!#])", r"\\\1", path)
    return "/" + re.sub(r" +$", lambda match: "\\ " * len(match[0]), escaped)


def _with_ignored(text: str, index: int, patterns: Sequence[str], line: str) -> str | None:
    """Replace or insert the line of `ignore` in a source.

    Returns None if the line's position cannot be found.
    """
    places, lines = map_key_lines(text), text.splitlines(keepends=True)
    table, key = ("source", index), ("source", index, "ignore")
    if table not in places:
        return None
    if key not in places:
        position = places[table]
        return "".join([*lines[:position], line, *lines[position:]])
    first = places[key] - 1
    for end in range(first + 1, len(lines) + 1):
        if _parse("".join(lines[first:end])) == {"ignore": patterns}:
            return "".join([*lines[:first], line, *lines[end:]])
    return None


def _remove_lines(text: str, index: int, source: Mapping[str, Any]) -> str | None:
    """Remove the lines of a source. Returns None if these lines are mixed with other keys.

    Comments below the source's last key stay, because they belong to the next table.
    """
    place: tuple[str | int, ...] = ("source", index)
    lines = text.splitlines(keepends=True)
    lines_by_key = map_key_lines(text)
    if place not in lines_by_key:
        return None
    first = lines_by_key[place] - 1
    later_lines = [
        line for path, line in lines_by_key.items() if path[:2] != place and line > first + 1
    ]
    for end in range(first + 1, min(later_lines, default=len(lines) + 1)):
        if _parse("".join(lines[first:end])) == {"source": [source]}:
            shortened = "".join([*lines[:first], *lines[end:]])
            return re.sub(r"\n{3,}", "\n\n", shortened).rstrip() + "\n"
    return None


def _parse(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_valid(file: Path) -> str:
    """Return the text of a valid configuration file. Raises ConfigError."""
    try:
        text = file.read_bytes().decode()
    except FileNotFoundError as error:
        raise ConfigError(
            f"Cannot read {file}", "there is no such file", "`hopsyncd init` writes the file."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"Cannot read {file}", str(error), "Make the file readable, and save it as UTF-8."
        ) from error
    check_config(file, text)
    return text


def _replace(file: Path, text: str) -> None:
    """Replace the file atomically, keeping its permissions. If the path is a symbolic link, the
    link's target is replaced.
    """
    real = file.resolve()
    try:
        replace_file(real, text.encode(), mode=real.stat().st_mode & 0o777)
    except OSError as error:
        raise ConfigError(
            f"Cannot write {file}",
            (error.strerror or str(error)).lower(),
            "Check the permissions of the file.",
        ) from error


@dataclass(slots=True)
class Reloaded:
    """The difference between the configuration in force and the file after a reload.

    refused: the reason why the file was rejected.
    """

    refused: str | None = None
    restart_needed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The difference between the configuration in force and a new configuration.

    config: the new configuration without the changes that need a restart. taken: changed keys that
    are now in force, such as "query.k". waiting: changed keys that need a restart. added, changed,
    removed: names of sources.
    """

    config: Config
    taken: tuple[str, ...]
    waiting: tuple[str, ...]
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def to_json(self, *, pending: bool) -> ReloadAnswer:
        return {
            "changed": list(self.taken),
            "restart_needed": list(self.waiting),
            "sources": {
                "added": list(self.added),
                "changed": list(self.changed),
                "removed": list(self.removed),
            },
            "pending": pending,
        }


def compare_configs(
    in_force: Config, new_config: Config, *, with_models: bool = False
) -> ConfigChange:
    """Compare the configuration that the daemon uses, `in_force`, with a new one.

    With `with_models`, changes of models do not need a restart, because the caller has loaded the
    new models.
    """
    sections = (*_AT_ONCE, *(_MODELS if with_models else ()), "sources")
    new_sections = {section: getattr(new_config, section) for section in sections}
    for section, keys in _KEYS_AT_ONCE.items():
        values = {key: getattr(getattr(new_config, section), key) for key in keys}
        new_sections[section] = getattr(in_force, section).model_copy(update=values)
    config = in_force.model_copy(update=new_sections)
    before, after = _index_by_name(in_force), _index_by_name(new_config)
    both = before.keys() & after.keys()
    return ConfigChange(
        config,
        _list_changed_keys(in_force, config),
        _list_changed_keys(config, new_config),
        tuple(name for name in after if name not in both),
        tuple(name for name in after if name in both and after[name] != before[name]),
        tuple(name for name in before if name not in both),
    )


def _index_by_name(config: Config) -> dict[str, SourceConfig]:
    return {source.name: source for source in config.sources}


def _list_changed_keys(config: Config, other: Config) -> tuple[str, ...]:
    """List the keys that differ, except keys of sources."""
    return tuple(
        f"{section}.{key}"
        for section in type(config).model_fields
        if section != "sources"
        for key, value in getattr(config, section)
        if getattr(getattr(other, section), key) != value
    )
