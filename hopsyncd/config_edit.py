"""Adding a `[[source]]` to a configuration file and taking one out, comments and all else kept."""

import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hopsyncd.config import check_config, free_name
from hopsyncd.config_mistakes import toml_value
from hopsyncd.errors import ConfigError
from hopsyncd.toml_lines import key_lines

_SQLITE = b"SQLite format 3\0"
_BUCKETS = ("s3", "gs", "gcs", "abfs", "az", "sftp", "ssh", "ftp", "webdav", "webdavs", "smb")
_SECRETS = re.compile(r"://[^/@]*:[^/@]*@")


def recognised(place: str) -> dict[str, str]:
    """The kind of source that a path or an address is, and the key that holds it.

    Raises ConfigError for what is neither, or needs more keys than its place.
    """
    scheme, separator, rest = place.partition("://")
    if _SECRETS.search(place):
        raise _refused(place, "it holds a password", 'Write it by hand, with "${NAME}" for that')
    if re.fullmatch(r"[\w.-]+@[\w.-]+:.+", place) or (separator and _is_repository(scheme, rest)):
        return {"kind": "git", "url": place}
    if scheme in _BUCKETS and separator:
        return {"kind": "remote", "url": place}
    if scheme in ("http", "https", "imap", "imaps") and separator:
        kind = "web" if scheme.startswith("http") else "mail"
        raise _refused(place, f'a source of kind "{kind}" needs more keys', _BY_HAND)
    if separator:
        raise _refused(place, f"no kind of source has addresses with {scheme}://", _BY_HAND)
    return _recognised_path(Path(place).expanduser().absolute())


_BY_HAND = "config.toml shows what to write by hand"


def _is_repository(scheme: str, rest: str) -> bool:
    return scheme == "git" or (scheme in ("http", "https", "ssh", "file") and rest.endswith(".git"))


def _recognised_path(path: Path) -> dict[str, str]:
    written = os.path.normpath(path)
    try:
        written.encode()
    except UnicodeEncodeError as error:
        raise _refused(repr(written), "its name is not UTF-8", "Rename it first") from error
    if path.is_dir():
        bare = all((path / name).exists() for name in ("HEAD", "objects", "refs"))
        return {"kind": "git" if bare else "folder", "path": written}
    if not path.exists():
        raise _refused(str(path), "there is no such file or folder", "Check its spelling")
    try:
        with path.open("rb") as file:
            start = file.read(len(_SQLITE))
    except OSError as error:
        raise _refused(str(path), (error.strerror or "").lower(), "Check its rights") from error
    why = "it is a file, and a source is a folder"
    if start == _SQLITE:
        why = "which table and columns of the database are wanted cannot be told"
    raise _refused(str(path), why, _BY_HAND)


def add_source(file: Path, keys: Mapping[str, str], name: str | None) -> str:
    """Append a `[[source]]` to the file; returns its name. Raises ConfigError, writing nothing."""
    text = _read(file)
    taken = {source.get("name") for source in tomllib.loads(text).get("source", [])}
    place = keys.get("path", keys.get("url", "")).rstrip("/")
    stem = re.split(r"[/:]", place)[-1].removesuffix(".git")
    chosen = name or free_name(stem, {one for one in taken if one})
    block = "".join(
        f"{key} = {toml_value(value.replace('$', '$$'))}\n"
        for key, value in {"name": chosen, **keys}.items()
    )
    new = f"{text.rstrip()}\n\n[[source]]\n{block}"
    check_config(file, new)
    _replace(file, new)
    return chosen


def remove_source(file: Path, name: str) -> None:
    """Take the `[[source]]` of that name out of the file. Raises ConfigError, writing nothing."""
    text = _read(file)
    sources = tomllib.loads(text).get("source", [])
    names = [source.get("name") for source in sources]
    if name not in names:
        known = ", ".join(str(one) for one in names) or "none"
        raise _refused(name, f"{file} has no source of that name", f"It has: {known}")
    new = _without(text, names.index(name), sources[names.index(name)])
    if new is None:
        raise _refused(
            name, f"{file} is written in a way that is not understood", "Edit it by hand"
        )
    check_config(file, new)
    _replace(file, new)


def _without(text: str, index: int, source: Mapping[str, Any]) -> str | None:
    """The text without the lines that are that source, None where they cannot be told.

    Comments below its last key stay: they are of the next table.
    """
    own: tuple[str | int, ...] = ("source", index)
    lines = text.splitlines(keepends=True)
    places = key_lines(text)
    if own not in places:
        return None
    first = places[own] - 1
    others = [line for path, line in places.items() if path[:2] != own and line > first + 1]
    for end in range(first + 1, min(others, default=len(lines) + 1)):
        if _parsed("".join(lines[first:end])) == {"source": [source]}:
            kept = "".join([*lines[:first], *lines[end:]])
            return re.sub(r"\n{3,}", "\n\n", kept).rstrip() + "\n"
    return None


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _read(file: Path) -> str:
    """The text of a file that is right as it is. Raises ConfigError."""
    try:
        text = file.read_bytes().decode()
    except FileNotFoundError as error:
        raise ConfigError(
            f"Cannot read {file}", "there is no such file", "`hopsyncd init` writes one."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {file}", str(error), "Check the file.") from error
    check_config(file, text)
    return text


def _replace(file: Path, text: str) -> None:
    """Whole or not at all, with the rights that the file had. A link stays one."""
    real = file.resolve()
    try:
        handle, beside = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as written:
                written.write(text)
                written.flush()
                os.fsync(written.fileno())
            Path(beside).chmod(real.stat().st_mode & 0o777)
            Path(beside).replace(real)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(
            f"Cannot write {file}", (error.strerror or str(error)).lower(), "Check its rights."
        ) from error


def _refused(place: str, why: str, hint: str) -> ConfigError:
    return ConfigError(f"Cannot do that with {place}", why, hint)
