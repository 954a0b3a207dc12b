"""Detects the kind of source at a path or an address, and the keys of its `[[source]]`."""

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from connectors.ignore import DEFAULT_INCLUDE
from connectors.remote_driver import install_hint
from connectors.sqlite_rows import Table, list_tables
from hopsyncd.config.source_kinds import list_known_kinds
from hopsyncd.errors import ConfigError

_PORT = re.compile("[0-9]{1,5}")
_SQLITE, _MBOX, _ZIP = b"SQLite format 3\0", b"From ", b"PK\x03\x04"
# Files by which an export is recognised, and the patterns of its other files.
_EXPORTS = (
    ("Slack", ("users.json", "channels.json"), ("*.json",)),
    ("Telegram", ("result.json",), ("*.json",)),
    ("ChatGPT or Claude", ("conversations.json",), ("*.json",)),
    ("Google Takeout", ("archive_browser.html",), ("*.ics", "*.vcf")),
)
_SECRETS = re.compile(r"://[^/@]*:[^/@]*@")
_SSH_SHORT = re.compile(r"[\w.-]+@[\w.-]+:.+")
_FORGES = ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org")
_BY_HAND = "`hopsyncd add --help` lists the forms of paths and addresses"


@dataclass(frozen=True, slots=True)
class DetectedSource:
    """The keys of a source, beginning with its kind, and notes about them for the user."""

    keys: dict[str, Any]
    notes: tuple[str, ...] = ()


def detect_source(
    place: str, kind: str = "", user_keys: Mapping[str, Any] | None = None
) -> DetectedSource:
    """Detect the source at a path or an address; `kind` overrides the detected kind.

    `user_keys` has the user's keys. Missing keys of a database are derived from its tables. Raises
    ConfigError if `place` has no usable source, or if the source needs more keys.
    """
    user_keys = user_keys or {}
    if _SECRETS.search(place) and not place.startswith("github://"):  # github://owner:name@branch
        hint = (
            "Leave out the password; the daemon reads it from an environment variable"
            if place.startswith(("imap://", "imaps://"))
            else 'Write the source into config.toml by hand, with "${NAME}" for the password'
        )
        raise _refusal_error(place, "the address contains a password", hint)
    if place.startswith("git+"):
        kind, place = kind or "git", place.removeprefix("git+")
    if place.startswith("file:///") and kind != "git" and not place.endswith(".git"):
        place = unquote(urlsplit(place).path)
    kind = kind or _detect_kind(place)
    if kind not in list_known_kinds():
        raise _refusal_error(
            place,
            f"there is no kind of source {kind!r}",
            f"Use one of {', '.join(list_known_kinds())}",
        )
    if kind != "sqlite" and user_keys:
        flags = ", ".join(f"--{key}" for key in user_keys)
        raise _refusal_error(
            place, f"{flags} can be used only with a SQLite database", "Leave out these options"
        )
    match kind:
        case "sqlite":
            return _detect_database(_expand_path(place), user_keys)
        case "imap":
            return _detect_mail_account(place)
        case "web":
            return _detect_web_site(place)
        case "remote":
            return DetectedSource({"kind": "remote", "url": place}, _suggest_driver(place))
        case "git" if _is_address(place):
            return DetectedSource({"kind": "git", "url": place})
        case "folder" | "git" | "maildir" | "mbox":
            return _detect_on_disk(kind, _expand_path(place))
        case _:
            keys = {"kind": kind, "url" if _is_address(place) else "path": place}
            return DetectedSource(
                keys, ("The documentation of the package for this kind lists the other keys.",)
            )


def _refusal_error(place: str, why: str, hint: str) -> ConfigError:
    return ConfigError(f"Cannot add {place}", why, hint)


def _detect_kind(place: str) -> str:
    scheme, separator, rest = place.partition("://")
    if _SSH_SHORT.fullmatch(place):
        return "git"
    if not separator:
        return _detect_kind_on_disk(_expand_path(place))
    parts = urlsplit(place)
    if scheme == "git" or (scheme in ("http", "https", "ssh", "file") and rest.endswith(".git")):
        return "git"
    if scheme in ("http", "https"):
        is_repository = parts.hostname in _FORGES and parts.path.strip("/").count("/") == 1
        return "git" if is_repository else "web"
    if scheme in ("imap", "imaps"):
        return "imap"
    import fsspec  # slow to import, and needed only here

    if scheme in fsspec.available_protocols():
        return "remote"
    raise _refusal_error(place, f"no kind of source has addresses with {scheme}://", _BY_HAND)


def _detect_kind_on_disk(path: Path) -> str:
    if path.is_dir():
        if all((path / name).exists() for name in ("HEAD", "objects", "refs")):
            return "git"
        is_maildir = all((path / name).is_dir() for name in ("cur", "new", "tmp"))
        return "maildir" if is_maildir else "folder"
    try:
        with path.open("rb") as file:
            start = file.read(len(_SQLITE))
    except FileNotFoundError as error:
        hint = "Check the spelling"
        raise _refusal_error(str(path), "there is no such file or folder", hint) from error
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise _refusal_error(str(path), reason, "Check the permissions") from error
    if start == _SQLITE:
        return "sqlite"
    if start.startswith(_MBOX):
        return "mbox"
    if start.startswith(_ZIP):
        raise _refusal_error(
            str(path), "the file is a ZIP archive", "Unpack it, and add the unpacked folder"
        )
    why = "the file is neither a mailbox nor a SQLite database"
    raise _refusal_error(
        str(path), why, "Add its folder as a source, and name the file in `include`"
    )


def _expand_path(place: str) -> Path:
    written = os.path.normpath(Path(place).expanduser().absolute())
    try:
        written.encode()
    except UnicodeEncodeError as error:
        raise _refusal_error(
            repr(written), "the name is not UTF-8", "Rename the file or folder"
        ) from error
    return Path(written)


def _is_address(place: str) -> bool:
    return "://" in place or bool(_SSH_SHORT.fullmatch(place))


def _detect_on_disk(kind: str, path: Path) -> DetectedSource:
    if not path.exists():
        raise _refusal_error(str(path), "there is no such file or folder", "Check the spelling")
    notes = []
    if kind == "folder" and (path / ".git").exists():
        notes.append(
            "The folder is the working tree of a git repository, and files that are not committed"
            " are added too. Use --kind git to add only committed files."
        )
    keys: dict[str, Any] = {"kind": kind, "path": str(path)}
    for program, names, patterns in _EXPORTS if kind == "folder" else ():
        if all((path / name).is_file() for name in names):
            keys["include"] = [*DEFAULT_INCLUDE, *patterns]
            notes.append(f"The folder has an export of {program}, so `include` has {patterns[0]}.")
            break
    return DetectedSource(keys, tuple(notes))


def _detect_database(path: Path, user_keys: Mapping[str, Any]) -> DetectedSource:
    """Add the keys that can be derived from the database's tables to the user's keys."""
    keys = {"kind": "sqlite", "path": str(path), **user_keys}
    if user_keys.get("query"):
        if missing := [f"--{key}" for key in ("key", "text") if key not in user_keys]:
            raise _refusal_error(
                str(path),
                f"a query needs {' and '.join(missing)} too",
                "Name the columns of the query",
            )
        return DetectedSource(keys)
    tables = list_tables(path)
    named = user_keys.get("table")
    likely = [t for t in tables if t.name == named or (not named and t.key and t.text)]
    complete = {"table", "key", "text"} <= user_keys.keys()
    if not complete and (len(likely) != 1 or not _fills(likely[0], user_keys)):
        listed = "; ".join(f"{table.name} ({', '.join(table.columns)})" for table in tables)
        raise _refusal_error(
            str(path),
            f"cannot tell which rows are documents. Tables: {listed or 'none'}",
            "Name a table with --table, the column that identifies a row with --key and the columns"
            " of its text with --text; or write a SELECT as --query, with --key and --text",
        )
    if complete:
        return DetectedSource(keys)
    match = likely[0]
    suggested = {"table": match.name, "key": match.key, "text": match.text, "title": match.title}
    chosen = {
        key: value
        for key, value in suggested.items()
        if value and key not in user_keys and not (key == "title" and "text" in user_keys)
    }
    words = "; ".join(
        f"{key} {value if isinstance(value, str) else ', '.join(value)}"
        for key, value in chosen.items()
    )
    return DetectedSource({**keys, **chosen}, (f"Chosen from the database: {words}.",))


def _fills(table: Table, user_keys: Mapping[str, Any]) -> bool:
    return bool(user_keys.get("key") or table.key) and bool(user_keys.get("text") or table.text)


def _detect_mail_account(place: str) -> DetectedSource:
    """Parse `imap://ann@example.org@imap.example.org/INBOX`. Folder and port are optional."""
    scheme, _, rest = place.partition("://")
    account, _, folder = rest.partition("/")
    user, _, server = account.rpartition("@")
    host, _, port = server.partition(":")
    user = unquote(user)
    if (
        scheme not in ("imap", "imaps")
        or not user
        or not host
        or (port and not _PORT.fullmatch(port))
    ):
        raise _refusal_error(
            place, "this is not the address of a mail account", "Write imap://user@host"
        )
    variable = "HOPSYNCD_IMAP_PASSWORD_" + re.sub(r"[^A-Za-z0-9]+", "_", user).strip("_").upper()
    keys: dict[str, Any] = {"kind": "imap", "host": host, "user": user, "password_env": variable}
    if port and int(port) != 993:
        keys["port"] = int(port)
        if scheme == "imap":
            keys["tls"] = "starttls"
    if folder:
        keys["folders"] = [unquote(folder)]
    note = f"Set {variable} to the account's password in the environment of the daemon."
    return DetectedSource(keys, (note,))


def _detect_web_site(place: str) -> DetectedSource:
    """Detect a web page or, for the address of a site or folder, the pages that it links to."""
    parts = urlsplit(place)
    if not parts.hostname:
        raise _refusal_error(
            place, "the address has no host", "Write an address like https://example.org/pages/"
        )
    keys: dict[str, Any] = {"kind": "web", "start": [place]}
    host = parts.netloc.rpartition("@")[2]
    notes = [
        f"Only pages at {host} are visited; set `hosts` in config.toml to add other hosts.",
        "Pages are fetched every six hours, unless --every or --at is given.",
    ]
    if parts.path in ("", "/") or parts.path.endswith("/"):
        keys["depth"] = 1
        notes.append(
            "Pages that this page links to are included. Set depth = 0 to add only this page."
        )
    if _is_private(parts.hostname or ""):
        keys["allow_private"] = True
        notes.append(
            "The host is in a private network, so requests to private addresses are allowed."
        )
    return DetectedSource(keys, tuple(notes))


def _is_private(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith((".local", ".internal", ".localhost"))


def _suggest_driver(url: str) -> tuple[str, ...]:
    """If the driver for the address is missing, say which package to install."""
    from fsspec import get_filesystem_class

    protocol = url.partition("://")[0]
    try:
        get_filesystem_class(protocol)
    except ImportError as error:
        return (f"The driver for {protocol}:// is missing ({error}). {install_hint(protocol)}",)
    except ValueError as error:
        raise _refusal_error(url, f"fsspec has no driver for {protocol}://", _BY_HAND) from error
    return ()
