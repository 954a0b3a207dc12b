"""Writes a file for support: the state of hopsyncd, without content of documents.

Every text passes through `Redactor`, except the metrics, the versions of the system and of the
packages that hopsyncd requires, and the names of tables that it creates.
"""

import io
import json
import os
import platform
import re
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from hopsyncd import __version__
from hopsyncd.client import Client
from hopsyncd.config.configuration import Config, load_config
from hopsyncd.doctor.examine import examine
from hopsyncd.doctor.redaction import Redactor
from hopsyncd.errors import HopsyncdError
from store.copying import count_rows
from store.exceptions import StoreError
from store.open_database import SCHEMA_VERSION, describe_library, exists, open_reader

ABOUT = """\
These files describe the state of a hopsyncd installation, for the people who help with a problem.
They contain no text, title, path or name of a document or source, and no question, address or key.
Each of these is replaced with text-1, text-2 and so on, or with "…" within a message. Look through
the files before you send them.
"""
_LOG_BYTES, _LOG_LINES = 1 << 20, 2000
_ANSWER_S = 10.0
_REQUIREMENT = re.compile(r"[A-Za-z0-9_.-]+")

Part = tuple[str, Callable[[], str]]


def write_bundle(path: Path, config_file: Path | None) -> list[str]:
    """Write the bundle to a new file that only its owner can read. Returns the names of its parts.

    Raises OSError if the file cannot be written. If a part of the bundle cannot be made, the part
    only names the type of the error.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    names = []
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as bundle:
        for name, collect in _make_parts(config_file):
            try:
                text = collect()
            except Exception as error:  # noqa: BLE001 - the other parts may say why
                text = f"This part could not be collected: {type(error).__name__}\n"
            data = text.encode()
            info = tarfile.TarInfo(f"hopsyncd-support/{name}")
            info.size, info.mode, info.mtime = len(data), 0o600, int(time.time())
            bundle.addfile(info, io.BytesIO(data))
            names.append(name)
    return names


def _make_parts(config_file: Path | None) -> Iterator[Part]:
    redactor = Redactor()
    yield "README.txt", lambda: ABOUT
    yield "versions.json", lambda: _format_json(_list_versions())
    yield (
        "doctor.json",
        lambda: _format_json(
            redactor.redact_value([asdict(finding) for finding in examine(config_file)])
        ),
    )
    try:
        config = load_config(config_file)
    except HopsyncdError as error:
        why = str(error)
        yield "config.json", lambda: _format_json({"error": redactor.redact_text(why)})
        return
    client = Client(config.daemon.socket, timeout_s=_ANSWER_S)
    yield "config.json", lambda: _format_json(redactor.redact_value(config.model_dump(mode="json")))
    yield "machine.json", lambda: _format_json(_describe_machine(config))
    yield "status.json", lambda: _format_json(redactor.redact_value(client.status()))
    yield "stats.json", lambda: _format_json(redactor.redact_value(client.stats()))
    yield "schedule.json", lambda: _format_json(redactor.redact_value(client.schedule()))
    yield "metrics.txt", client.metrics
    yield "database.json", lambda: _format_json(_describe_database(config, redactor))
    yield "log.txt", lambda: _read_log(config, redactor)


def _format_json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _list_versions() -> dict[str, Any]:
    library = describe_library()
    return {
        "hopsyncd": __version__,
        "schema": SCHEMA_VERSION,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "sqlite": asdict(library),
        "packages": _list_packages("hopsyncd"),
    }


def _list_packages(name: str) -> dict[str, str]:
    """Return the installed packages that a package requires, at any depth."""
    versions: dict[str, str] = {}
    waiting = [name]
    while waiting:
        package_name = waiting.pop()
        if package_name in versions:
            continue
        with suppress(metadata.PackageNotFoundError):
            package = metadata.distribution(package_name)
            versions[package_name] = package.version
            for requirement in package.requires or ():
                if match := _REQUIREMENT.match(requirement):
                    waiting.append(match[0].lower())
    return dict(sorted(versions.items()))


def _describe_machine(config: Config) -> dict[str, Any]:
    usage = shutil.disk_usage(config.daemon.data_dir)
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "processors": os.cpu_count(),
        "memory_bytes": pages * size,
        "load": os.getloadavg(),
        "disk_bytes": usage.total,
        "disk_free_bytes": usage.free,
    }


def _describe_database(config: Config, redactor: Redactor) -> dict[str, Any]:
    if not exists(config.database):
        return {"exists": False}
    try:
        with closing(open_reader(config.database)) as connection:
            return {
                "engine": connection.engine,
                "bytes": connection.measure_size(),
                "rows": count_rows(connection),
            }
    except StoreError as error:
        return {"error": redactor.redact_text(error.why)}


def _read_log(config: Config, redactor: Redactor) -> str:
    """Return the last lines of the log file, without the fields that hopsyncd's source does not
    name."""
    if config.daemon.log_file is None:
        return (
            "This bundle has no log, because daemon.log_file is not set. Attach the output of"
            " journalctl, or of the terminal in which the daemon runs.\n"
        )
    with config.daemon.log_file.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()[-_LOG_LINES:]
    return "".join(f"{_redact_log_line(line, redactor)}\n" for line in lines)


def _redact_log_line(line: str, redactor: Redactor) -> str:
    try:
        event = json.loads(line)
    except ValueError:
        return redactor.redact_text(line)
    if not isinstance(event, dict):
        return redactor.redact_text(line)
    trace = redactor.redact_traceback(str(event.pop("exception", "")))
    redacted = redactor.redact_value(event)
    return json.dumps({**redacted, "exception": trace} if trace else redacted, ensure_ascii=False)
