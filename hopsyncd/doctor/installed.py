"""What is configured and stored: the file itself, the data folder, the database, the models."""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from hopsyncd.config import DATABASE_NAME, Config
from hopsyncd.config_secrets import secrets_of
from hopsyncd.doctor.finding import Finding, well
from hopsyncd.errors import HopsyncdError
from hopsyncd.text.encoder import SentenceEncoder
from hopsyncd.text.language import SpacyLanguage
from hopsyncd.text.reranker import CrossReranker
from store.check import check
from store.database import lost_from, open_reader
from store.errors import OlderSchema, StoreError
from store.migrations import SCHEMA_VERSION
from store.versions import head

_CLOCK_SLACK_MS = 60_000


def configuration(file: Path, config: Config) -> Iterator[Finding]:
    """Of a file that was read, or is absent."""
    if not file.exists():
        remedy = "`hopsyncd init --folder DIR` writes one"
        yield Finding("configuration", "warn", f"there is no {file}: all defaults hold", remedy)
    elif file.stat().st_mode & 0o077 and secrets_of(config):
        why = f"{file} names secrets, and others can read it"
        yield Finding("configuration", "warn", why, f"`chmod 600 {file}`")
    elif not config.sources:
        remedy = "`hopsyncd add PATH` adds one"
        yield Finding("configuration", "warn", f"{file} names no source", remedy)
    else:
        yield well("configuration", f"{file}, {len(config.sources)} sources")


def data_folder(config: Config) -> Iterator[Finding]:
    folder = config.daemon.data_dir
    if not folder.exists():
        yield well("data folder", f"{folder} is made at the first start")
        return
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        remedy = "Move it away, or set daemon.data_dir"
        yield Finding("data folder", "fail", f"{folder} is no folder", remedy)
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        remedy = f"`chown -R $USER {folder}`, or set daemon.data_dir"
        yield Finding("data folder", "fail", f"{folder} may not be written by you", remedy)
    elif found.st_mode & 0o077:
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        why = f"{folder} is {mode}: others can read your documents in it"
        yield Finding("data folder", "warn", why, f"`chmod 700 {folder}`")
    else:
        yield well("data folder", str(folder))


def database(config: Config) -> Iterator[Finding]:
    """It opens, its schema is known, its structure is whole, no version is from the future."""
    path = config.daemon.data_dir / DATABASE_NAME
    if not path.exists() and lost_from(path) is None:
        yield well("database", f"{path} is made at the first start")
        return
    try:
        with closing(open_reader(path)) as connection:
            found = check(connection, deep=False)
            newest = head(connection)
    except OlderSchema as error:
        yield Finding("database", "warn", f"{path}: {error.why}", error.hint)
        return
    except StoreError as error:
        yield Finding("database", "fail", f"{error.what}: {error.why}", error.hint)
        return
    for one in found:
        detail = f"{one.where}: {one.detail} (it must hold that {one.invariant})"
        yield Finding("database", "fail", detail, one.hint)
    now_ms = time.time_ns() // 1_000_000
    if newest and newest.created_ms > now_ms + _CLOCK_SLACK_MS:
        remedy = "Set the clock. Versions go by their number, so nothing is lost"
        yield Finding("database", "warn", f"version {newest.id} is from the future", remedy)
    if not found:
        served = f"version {newest.id}" if newest else "no version yet"
        yield well("database", f"{path}, schema {SCHEMA_VERSION}, {served}")


def models(config: Config) -> Iterator[Finding]:
    """They are here, and are those that are named."""
    named = config.models
    try:
        encoder = SentenceEncoder(named.encoder, named.encoder_sha256, named.threads)
        language = SpacyLanguage(named.language_model)
        if named.reranker:
            CrossReranker(named.reranker, named.threads)
    except HopsyncdError as error:
        yield Finding("models", "fail", f"{error.what}: {error.why}", error.hint)
    else:
        yield well("models", f"{encoder.name} and {language.name}")
