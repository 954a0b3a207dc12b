"""Checks this machine: Python, limits, libraries, disk, configuration, data and models."""

import os
import platform
import resource
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from hopsyncd.config.configuration import Config, find_former_keys
from hopsyncd.config.privacy import collect_secrets, describe_other_writers
from hopsyncd.config.source_kinds import FolderSource
from hopsyncd.display import pluralise
from hopsyncd.doctor import Finding, report_ok
from hopsyncd.errors import (
    EncoderUnavailable,
    HopsyncdError,
    ModelUnavailable,
    ReaderUnavailable,
)
from hopsyncd.formats.images import encode_gray_png
from hopsyncd.formats.sandbox.messages import Died
from hopsyncd.formats.sandbox.reader_process import WORKER, try_readers
from hopsyncd.formats.sandbox.samples import SAMPLES
from hopsyncd.ingest.connector_setup import create_tesseract
from hopsyncd.ingest.folder_observer import list_folders
from hopsyncd.models.embedding.http_encoder import HttpEncoder
from hopsyncd.models.language import SpacyLanguage
from hopsyncd.models.loading import load_encoder, load_reranker
from hopsyncd.models.rerank_endpoint import HttpReranker
from store.check import check
from store.exceptions import OlderSchema, StoreError
from store.open_database import (
    SCHEMA_VERSION,
    describe_library,
    find_loss,
    format_place,
    open_reader,
)
from store.versions import read_head

_FEW_DESCRIPTORS, _TOO_FEW_DESCRIPTORS = 512, 128
_LITTLE_BYTES, _TOO_LITTLE_BYTES = 1 << 30, 100 << 20
_LEAST_YEAR = 2026  # an earlier year means that the clock was never set
_CLOCK_SLACK_MS = 60_000
_COUNT_S = 5.0  # the time limit for counting folders
_INOTIFY = Path("/proc/sys/fs/inotify")


def check_python() -> Iterator[Finding]:
    version, system = platform.python_version(), platform.system()
    yield report_ok("python", f"Python {version} on {system} {platform.machine()}")


def check_descriptors() -> Iterator[Finding]:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit_text = f"up to {limit} files and connections can be open"
    remedy = "Raise the limit: `ulimit -n 4096`, or LimitNOFILE= in the unit"
    yield _check_enough(
        "descriptors", limit, _TOO_FEW_DESCRIPTORS, _FEW_DESCRIPTORS, limit_text, remedy
    )


def _check_enough(
    check: str, amount: int, too_few: int, few: int, measured: str, remedy: str
) -> Finding:
    if amount >= few:
        return report_ok(check, measured)
    return Finding(check, "fail" if amount < too_few else "warn", measured, remedy)


def check_clock() -> Iterator[Finding]:
    now = datetime.fromtimestamp(time.time(), UTC)
    now_text = now.isoformat(timespec="seconds")
    if now.year < _LEAST_YEAR:
        remedy = "Set the clock, preferably from the network: `timedatectl set-ntp true`"
        yield Finding("clock", "fail", f"the clock says {now_text}", remedy)
    else:
        yield report_ok("clock", now_text)


def check_libraries() -> Iterator[Finding]:
    library = describe_library()
    versions = f"SQLite {library.sqlite} ({library.module}), sqlite-vec {library.vec or 'missing'}"
    if not library.vec or not library.fts5:
        missing = "full-text search" if library.vec else "the vector extension"
        remedy = "Reinstall: `pip install --force-reinstall pysqlite3 sqlite-vec`"
        yield Finding("sqlite", "fail", f"{versions}; without {missing}", remedy)
    elif not library.keeps_wal_whole:
        remedy = "Install pysqlite3, which includes a newer SQLite: `pip install pysqlite3`"
        why = "this SQLite version can corrupt a database in WAL mode that two connections write"
        yield Finding("sqlite", "warn", f"{versions}: {why}", remedy)
    else:
        yield report_ok("sqlite", f"{versions}, with full-text search")


def check_readers(command: Sequence[str] = WORKER) -> Iterator[Finding]:
    """Check that a worker process can read a sample of each type of document."""
    unavailable: dict[str, ReaderUnavailable] = {}
    try_readers(unavailable, command)
    failed: dict[tuple[str, str], list[str]] = {}
    for kind, error in unavailable.items():
        failed.setdefault((error.why, error.hint), []).append(kind)
    for (why, remedy), kinds in failed.items():
        yield Finding("readers", "fail", f"{', '.join(kinds)} cannot be read: {why}", remedy)
    if not failed:
        yield report_ok("readers", f"samples of {len(SAMPLES)} types can be read")


def check_text_recognition(config: Config) -> Iterator[Finding]:
    """Check that text in pictures can be recognized, by processing an empty picture."""
    tesseract = create_tesseract(config)
    if config.formats.ocr == "off":
        yield report_ok("ocr", "off: the text of pictures is not read")
        return
    if not tesseract:
        yield report_ok("ocr", "tesseract is not installed: the text of pictures is not read")
        return
    try:
        tesseract.recognise_text(encode_gray_png(100, 100, [b"\xff" * 100] * 100))
    except Died as death:
        remedy = (
            f"Check that {tesseract.program} runs and has the languages {tesseract.languages},"
            " or set formats.ocr to off"
        )
        yield Finding("ocr", "fail", f"reading a picture {death.why}", remedy)
        return
    yield report_ok("ocr", f"{tesseract.program} reads pictures, in {tesseract.languages}")


def check_disk(config: Config) -> Iterator[Finding]:
    """Check the free space on the disk of the data folder."""
    place = config.daemon.data_dir
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    free_space = f"{free / 1e9:.1f} GB free for {config.daemon.data_dir}"
    remedy = "Free some space, or set daemon.data_dir to a folder on a larger disk"
    yield _check_enough("disk", free, _TOO_LITTLE_BYTES, _LITTLE_BYTES, free_space, remedy)


def check_file_events(config: Config) -> Iterator[Finding]:
    """Check that the kernel allows enough watches for all folders."""
    roots = [source.path for source in config.sources if isinstance(source, FolderSource)]
    limits = {name: _read_limit(name) for name in ("max_user_watches", "max_user_instances")}
    if not (config.watch.enabled and roots and None not in limits.values()):
        return
    watched, counted = _count_folders(roots)
    counts = f"{'' if counted else 'over '}{watched} folders, {limits['max_user_watches']} watches"
    remedies = (
        "Run `sysctl fs.inotify.{}={}`, and set it in /etc/sysctl.d. Until then, scans find changes"
    )
    if watched > (limits["max_user_watches"] or 0):
        remedy = remedies.format("max_user_watches", max(1 << 20, 2 * watched))
        yield Finding("file events", "fail", f"{counts} allowed", remedy)
    elif len(roots) > (limits["max_user_instances"] or 0):
        why = f"{len(roots)} folders to watch, {limits['max_user_instances']} watchers allowed"
        remedy = remedies.format("max_user_instances", 2 * len(roots))
        yield Finding("file events", "fail", why, remedy)
    elif 2 * watched > (limits["max_user_watches"] or 0):
        remedy = remedies.format("max_user_watches", max(1 << 20, 4 * watched))
        yield Finding("file events", "warn", f"{counts} allowed for all programs together", remedy)
    else:
        yield report_ok("file events", f"{counts} allowed")


def _read_limit(name: str) -> int | None:
    """Return the inotify limit `name`, or None on a system without inotify."""
    try:
        return int((_INOTIFY / name).read_text())
    except (OSError, ValueError):
        return None


def _count_folders(roots: list[Path]) -> tuple[int, bool]:
    """Count the folders in `roots`, with all subfolders. Also returns whether all folders were
    counted before the time limit."""
    count, end_s = 0, time.monotonic() + _COUNT_S
    for root in roots:
        stack = [os.fsencode(root)]
        while stack:
            stack.extend(list_folders(stack.pop()))
            count += 1
            if time.monotonic() > end_s:
                return count, False
    return count, True


def check_configuration(file: Path, config: Config) -> Iterator[Finding]:
    """Check that the configuration file is missing or safe to use, and that it has a source."""
    if not file.exists():
        remedy = "`hopsyncd init --folder DIR` writes the file"
        yield Finding("configuration", "warn", f"there is no {file}; defaults apply", remedy)
    elif writers := describe_other_writers(file):
        why = f"{file} decides what the daemon reads and runs, and {writers} can write to it"
        yield Finding("configuration", "fail", why, f"Check the file, then run: chmod 600 {file}")
    elif file.stat().st_mode & 0o077 and collect_secrets(config):
        why = f"{file} contains secrets, and others can read the file"
        yield Finding("configuration", "warn", why, f"`chmod 600 {file}`")
    elif former := find_former_keys(file):
        names = ", ".join(f"{old} is now {new}" for old, new in former.items())
        yield Finding("configuration", "warn", f"{file}: {names}", "Use the new names")
    elif config.is_client_only:
        yield report_ok("configuration", f"{file}, for the server {config.client.server}")
    elif not config.sources:
        remedy = "`hopsyncd add PATH` adds a source"
        yield Finding("configuration", "warn", f"{file} has no source", remedy)
    else:
        yield report_ok("configuration", f"{file}, {pluralise(len(config.sources), 'source')}")


def check_data_folder(config: Config) -> Iterator[Finding]:
    folder = config.daemon.data_dir
    if not folder.exists():
        yield report_ok("data folder", f"{folder} is created at the first start")
        return
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        remedy = "Move the file away, or set daemon.data_dir to another folder"
        yield Finding("data folder", "fail", f"{folder} is not a folder", remedy)
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        command = "chmod u+rwx" if status.st_uid == os.geteuid() else "sudo chown -R $USER"
        remedy = f"Run `{command} {folder}`, or set daemon.data_dir to another folder"
        yield Finding("data folder", "fail", f"you may not write to {folder}", remedy)
    elif writers := describe_other_writers(folder):
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        why = f"{folder} has mode {mode}, so {writers} can write to it, and the daemon refuses it"
        yield Finding("data folder", "fail", why, f"Check the folder, then run: chmod 700 {folder}")
    elif status.st_mode & 0o077:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        why = f"{folder} has mode {mode}, so others can read your documents in it"
        yield Finding("data folder", "warn", why, f"`chmod 700 {folder}`")
    else:
        yield report_ok("data folder", str(folder))


def check_database(config: Config) -> Iterator[Finding]:
    """Check that the database opens, is sound, and has no version dated in the future."""
    place, path = config.database, format_place(config.database)
    if isinstance(place, Path) and not place.exists() and find_loss(place) is None:
        yield report_ok("database", f"{path} is created at the first start")
        return
    try:
        with closing(open_reader(place)) as connection:
            report = check(connection, deep=False)
            newest = read_head(connection)
    except OlderSchema as error:
        yield Finding("database", "warn", f"{path}: {error.why}", error.hint)
        return
    except StoreError as error:
        yield Finding("database", "fail", f"{error.what}: {error.why}", error.hint)
        return
    for finding in report:
        detail = f"{finding.where}: {finding.detail} (invariant: {finding.invariant})"
        yield Finding("database", "fail", detail, finding.hint)
    now_ms = time.time_ns() // 1_000_000
    if newest and newest.created_ms > now_ms + _CLOCK_SLACK_MS:
        remedy = "Set the clock. Versions are ordered by number, so nothing is lost"
        yield Finding("database", "warn", f"version {newest.id} is dated in the future", remedy)
    if not report:
        served = f"version {newest.id}" if newest else "no version yet"
        yield report_ok("database", f"{path}, schema {SCHEMA_VERSION}, {served}")


def _check_encoder_endpoint(encoder: HttpEncoder, language: str) -> Finding:
    """Check the encoder's endpoint, by requesting the vector of a fixed sentence."""
    try:
        encoder.verify()
    except EncoderUnavailable as error:
        return Finding("models", "fail", f"{error.what}: {error.why}", error.hint)
    finally:
        encoder.close()
    return report_ok(
        "models",
        f"{encoder.model} at {encoder.host} ({encoder.dimensions} dimensions), which receives every"
        f" passage and question, and {language}",
    )


def check_models(config: Config) -> Iterator[Finding]:
    """Check that the configured models are installed."""
    try:
        encoder = load_encoder(config)
        language = SpacyLanguage(config.models.language_model)
        reranker = load_reranker(config)
    except HopsyncdError as error:
        yield Finding("models", "fail", f"{error.what}: {error.why}", error.hint)
        return
    if isinstance(encoder, HttpEncoder):
        yield _check_encoder_endpoint(encoder, language.name)
    else:
        yield report_ok("models", f"{encoder.name} and {language.name}")
    if isinstance(reranker, HttpReranker):
        yield _check_reranker_endpoint(reranker)
    elif config.query.rerank and reranker is None:
        why = "query.rerank is set, but no reranker is configured"
        yield Finding("reranker", "warn", why, "Set `reranker` or `reranker_url` in [models]")


def _check_reranker_endpoint(reranker: HttpReranker) -> Finding:
    """Check the reranker's endpoint, by requesting the scores of two fixed texts."""
    try:
        reranker.score_texts("Which animal barks?", ["A dog barks.", "A table stands."])
    except ModelUnavailable as error:
        return Finding("reranker", "warn", f"{error.what}: {error.why}", error.hint)
    finally:
        reranker.close()
    detail = (
        f"{reranker.model or 'the model'} at {reranker.host}, which receives the passages found"
    )
    return report_ok("reranker", detail)
