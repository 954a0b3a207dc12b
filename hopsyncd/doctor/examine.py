"""Runs all checks in order. Contains the checks of sources, the LLM endpoint and the daemon."""

import asyncio
import os
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import httpx2

from hopsyncd.api.tls import load_certificate
from hopsyncd.api.tokens import TokenFile
from hopsyncd.api.watch_delivery import ACTIONS_NAME, WatchActions
from hopsyncd.client import Client, RequestFailed
from hopsyncd.config.configuration import Config, find_config_path, load_config
from hopsyncd.config.source_kinds import GitSource, ImapSource, RemoteSource, SourceConfig
from hopsyncd.config.values import MEMBERS, is_on_this_machine
from hopsyncd.display import KEPT_CLOSED, TO_OPEN, pluralise
from hopsyncd.doctor import Finding, machine, report_ok
from hopsyncd.doctor.backup_checks import check_backups
from hopsyncd.doctor.local_llms import find_local_llms
from hopsyncd.doctor.server_check import Connect, check_server
from hopsyncd.errors import (
    ConfigError,
    DaemonUnavailable,
    DaemonUntrusted,
    HopsyncdError,
    SocketRefused,
)
from hopsyncd.ingest.connector_setup import create_connector
from hopsyncd.models.llm.attempts import find_endpoint_host
from hopsyncd.models.llm.transport import make_bounded_http
from hopsyncd.printable import make_printable
from hopsyncd.web.provider import LoginFailed, Provider

_ENDPOINT_S = 5.0
_EXPIRES_SOON_S = 14 * 86400
_CONNECT_S, _ANSWER_S = 1.0, 5.0
_MAX_PATH_BYTES = 107  # the limit for a Unix socket


def check_sources(config: Config) -> Iterator[Finding]:
    """Check the requirements of each source on this machine. Sends nothing over a network."""
    for source in config.sources:
        yield _check_source(source, config) or report_ok(f"source {source.name}", source.location)


def _check_source(source: SourceConfig, config: Config) -> Finding | None:
    """Return why the source cannot be read, or None if no reason is known."""
    name = f"source {source.name}"
    place = getattr(source, "path", None)
    if isinstance(place, Path) and not os.access(place, os.R_OK):
        why, remedy = "does not exist", "Mount the drive, or correct the path"
        if place.exists():
            why, remedy = "cannot be read", "Give the daemon's user read permission"
        remedy += "; the indexed documents are kept"
        return Finding(name, "fail", f"{place} {why}", remedy)
    if isinstance(source, GitSource) and not shutil.which("git"):
        return Finding(name, "fail", "the program git is missing", "Install git")
    if isinstance(source, ImapSource) and not os.environ.get(source.password_env):
        why = f"the environment variable {source.password_env} is not set in this shell"
        return Finding(name, "warn", why, "Set the variable for the daemon")
    if isinstance(source, RemoteSource):
        return _check_driver(name, source)
    try:
        create_connector(source, config).close()
    except HopsyncdError as error:
        return Finding(name, "fail", f"{error.what}: {error.why}", error.hint)
    return None


def _check_driver(name: str, source: RemoteSource) -> Finding | None:
    import fsspec

    kind = source.url.partition("://")[0]
    try:
        fsspec.get_filesystem_class(kind)
    except (ImportError, ValueError) as error:
        remedy = (
            f"Install the driver for {kind}; for common kinds, `pip install 'hopsyncd[{kind}]'`"
        )
        return Finding(name, "fail", str(error), remedy)
    return None


def check_endpoint(config: Config) -> Iterator[Finding]:
    """Check the LLM endpoint, by requesting its list of models. Sends none of the user's text."""
    llm = config.llm
    if not llm.base_url:
        yield report_ok("llm", "none is configured")
        for server in find_local_llms():
            lines = " and ".join(server.settings)
            detail = f"{server.program} runs on this machine. To use it, set {lines} in [llm]"
            yield report_ok("local llm", detail)
        return
    key = os.environ.get(llm.api_key_env, "").strip()
    host = find_endpoint_host(llm.base_url)
    try:
        response = asyncio.run(_request_models(llm.base_url, key))
    except (httpx2.HTTPError, TimeoutError, UnicodeEncodeError) as error:
        remedy = "Check llm.base_url and the network; until then the built-in questions are used"
        late = f"no answer within {_ENDPOINT_S:g} s" if isinstance(error, TimeoutError) else ""
        yield Finding(
            "llm", "warn", f"{host}: {late or str(error) or type(error).__name__}", remedy
        )
        return
    if response.status_code in (401, 403):
        remedy = f"Set the environment variable {llm.api_key_env} to a valid key"
        if not llm.api_key_env:
            remedy = "Set llm.api_key_env to the environment variable with the key"
        why = "refuses the API key" if key else "needs an API key, and no key is set"
        yield Finding("llm", "fail", f"{host} {why}", remedy)
    elif not response.is_success:
        why = f"{host} answers with status {response.status_code} when asked for its models"
        yield Finding("llm", "warn", why, "Check llm.base_url; it usually ends in /v1")
    elif llm.model not in response.text:
        remedy = "Check llm.model; `curl BASE_URL/models` lists the models"
        yield Finding("llm", "warn", f"{host} lists no model {llm.model}", remedy)
    else:
        yield report_ok("llm", f"{llm.model} at {host}, which receives passages and questions")


def check_company_login(config: Config) -> Iterator[Finding]:
    """Check the login provider of access.oidc with one request for the provider's metadata."""
    oidc = config.access.oidc
    if oidc is None:
        return
    try:
        Provider(oidc, config.access.page).load_endpoints()
    except SocketRefused as error:
        yield Finding("login", "fail", f"{error.what}: {error.why}", error.hint)
    except LoginFailed as error:
        remedy = (
            "Check access.oidc.issuer and the network. Until the issuer answers, nobody can log in"
        )
        yield Finding("login", "fail", make_printable(f"{oidc.issuer}: {error.detail}"), remedy)
    else:
        yield report_ok("login", f"{oidc.issuer} answers")


async def _request_models(base_url: str, key: str) -> httpx2.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with asyncio.timeout(_ENDPOINT_S), make_bounded_http() as http:
        return await http.get(f"{base_url.rstrip('/')}/models", headers=headers)


def check_daemon(config: Config) -> Iterator[Finding]:
    """Check whether a daemon can serve. If a daemon runs, check its state."""
    yield from _check_place(config)
    match _explain_unreachable(config):
        case "":
            yield from _check_answer(config)
        case "nobody":
            yield Finding("daemon", "warn", "no daemon runs", "`hopsyncd serve` starts a daemon")
        case "stale":
            why = f"a crashed daemon has left the socket {config.daemon.socket}"
            yield Finding("daemon", "warn", why, "`hopsyncd serve` replaces the socket")
        case "denied":
            remedy = "Only the daemon's owner and the users in [access] may use the daemon"
            yield Finding("daemon", "fail", f"{config.daemon.socket}: permission denied", remedy)
        case why:
            yield Finding("daemon", "fail", f"{config.daemon.socket}: {why}", "Restart the daemon")


def _check_place(config: Config) -> Iterator[Finding]:
    path = config.daemon.socket
    remedy = "Set daemon.socket to another path"
    if len(bytes(path)) > _MAX_PATH_BYTES:
        yield Finding("socket", "fail", f"{path} is longer than {_MAX_PATH_BYTES} bytes", remedy)
    if path.exists() and not path.is_socket():
        yield Finding("socket", "fail", f"{path} is not a socket", f"Move the file away. {remedy}")
    folder = path.parent
    if folder.is_dir() and stat.S_IMODE(folder.stat().st_mode) & 0o007:
        yield Finding("socket", "fail", f"everyone can enter {folder}", f"`chmod 700 {folder}`")


def _explain_unreachable(config: Config) -> str:
    """Return why no daemon accepts a connection, or "" if a daemon accepts one."""
    path = config.daemon.socket
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probing:
            probing.settimeout(_CONNECT_S)
            probing.connect(str(path))
    except FileNotFoundError:
        return "nobody"
    except ConnectionRefusedError:
        return "stale" if path.is_socket() else "nobody"
    except PermissionError:
        return "denied"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def _check_answer(config: Config) -> Iterator[Finding]:
    try:
        status = Client(config.daemon.socket, timeout_s=_ANSWER_S).status()
    except RequestFailed as error:
        yield Finding("daemon", "fail", error.why, error.hint)
        return
    except DaemonUntrusted as error:
        yield Finding("daemon", "fail", error.why, error.hint)
        return
    except DaemonUnavailable as error:
        remedy = "Restart the daemon; after `hopsyncd service install`, systemd does that"
        yield Finding("daemon", "fail", error.why, remedy)
        return
    yield report_ok("daemon", f"process {status['pid']} serves version {status['version']}")
    if status["error"]:
        yield Finding(
            "daemon", "fail", status["error"], "The daemon will retry; its log has the details"
        )
    yield from _check_reload(status["configuration"])
    for problem in status["watch_problems"]:
        yield Finding("watched questions", "warn", problem, "See docs/history.md")
    if problems := sum(source["problems"] for source in status["sources"]):
        detail = f"{pluralise(problems, 'document')} cannot be read"
        yield Finding(
            "documents", "warn", detail, "`hopsyncd sources NAME` lists up to 100 of them"
        )
    for source in status["sources"]:
        name = f"source {source['name']}"
        if source["problem"]:
            yield Finding(
                name, "warn", f"the source is paused: {source['problem']}", source["hint"] or ""
            )
        if source["watch_problem"]:
            remedy = "The next scan finds the changes"
            yield Finding(name, "warn", source["watch_problem"], remedy)
        if source["rights"] and source["rights"].get("kept_closed"):
            yield Finding(name, "warn", f"the source is {KEPT_CLOSED}", TO_OPEN)


def _check_reload(configuration: Mapping[str, Any]) -> Iterator[Finding]:
    if configuration["refused"]:
        remedy = "Correct the file, then run `hopsyncd reload`"
        yield Finding("configuration", "warn", configuration["refused"], remedy)
    if waiting := configuration["restart_needed"]:
        detail = f"changed since the daemon started: {', '.join(waiting)}"
        yield Finding("configuration", "warn", detail, "Restart the daemon")


def check_watch_actions(config: Config) -> Iterator[Finding]:
    """Check whether the daemon may use the programs and webhooks of watched questions."""
    if problem := WatchActions(config.daemon.data_dir / ACTIONS_NAME).problem:
        yield Finding("watched questions", "fail", problem, "See docs/history.md")


def check_viewers(config: Config) -> Iterator[Finding]:
    """Check that each name in visible_to is in a token, or is a user or group of this machine."""
    tokens = TokenFile.from_config(config).read()
    names = {f"user:{token.user}" for token in tokens}
    names |= {f"group:{group}" for token in tokens for group in token.groups} | {MEMBERS}
    for source in config.sources:
        lists = [source.visible_to, *(folder.visible_to for folder in source.paths)]
        for entry in dict.fromkeys(chain.from_iterable(lists)):
            if entry not in names and not is_on_this_machine(entry):
                detail = f"visible_to names {entry}, but no user, group or token has that name"
                remedy = "Correct the name, or make a token: `hopsyncd token create`"
                yield Finding(f"source {source.name}", "warn", detail, remedy)


def check_certificate(config: Config) -> Iterator[Finding]:
    """Check the certificate of the TCP address."""
    access = config.access
    if not (access.tls_cert and access.tls_key):
        return
    try:
        _, certificate = load_certificate(access.tls_cert, access.tls_key)
    except SocketRefused as error:
        yield Finding("certificate", "fail", f"{error.what}: {error.why}", error.hint)
        return
    left_s = certificate.expires_s - time.time()
    names = ", ".join(sorted(certificate.names))
    remedy = "Renew the certificate; the daemon uses the new files at once"
    if left_s <= 0:
        yield Finding("certificate", "fail", f"{access.tls_cert} has expired", remedy)
    elif not names:
        detail = f"{access.tls_cert} names no host (subjectAltName), so clients refuse it"
        remedy = "Make a certificate that names this host, as docs/team.md shows"
        yield Finding("certificate", "warn", detail, remedy)
    elif left_s < _EXPIRES_SOON_S:
        days = f"{access.tls_cert} expires in {pluralise(round(left_s / 86400), 'day')}"
        yield Finding("certificate", "warn", days, remedy)
    else:
        yield report_ok("certificate", f"for {names}, valid for {left_s / 86400:.0f} days")


Check = Callable[[], Iterator[Finding]]


def examine(config_file: Path | None, connect: Connect | None = None) -> Iterator[Finding]:
    """Run all checks, whether or not a daemon runs. Changes nothing.

    `connect` makes a client of the server in the configuration. Without it, the server is not
    checked. If the configuration is only for a server, this machine's daemon is not checked.
    """
    yield from _run_guarded("python", machine.check_python)
    yield from _run_guarded("descriptors", machine.check_descriptors)
    yield from _run_guarded("clock", machine.check_clock)
    yield from _run_guarded("sqlite", machine.check_libraries)
    yield from _run_guarded("readers", machine.check_readers)
    try:
        config = load_config(config_file)
    except ConfigError as error:
        yield Finding("configuration", "fail", f"{error.what}: {error.why}", error.hint)
        return
    file = find_config_path(config_file)
    yield from _run_guarded("configuration", partial(machine.check_configuration, file, config))
    if connect and config.client.server:
        yield from _run_guarded("server", partial(check_server, config.client.server, connect))
    if not config.is_client_only:
        yield from _examine_daemon(config)


def _examine_daemon(config: Config) -> Iterator[Finding]:
    yield from _run_guarded("ocr", partial(machine.check_text_recognition, config))
    yield from _run_guarded("data folder", partial(machine.check_data_folder, config))
    yield from _run_guarded("disk", partial(machine.check_disk, config))
    yield from _run_guarded("database", partial(machine.check_database, config))
    yield from _run_guarded("backups", partial(check_backups, config))
    yield from _run_guarded("models", partial(machine.check_models, config))
    yield from _run_guarded("daemon", partial(check_daemon, config))
    yield from _run_guarded("sources", partial(check_sources, config))
    yield from _run_guarded("access", partial(check_viewers, config))
    yield from _run_guarded("certificate", partial(check_certificate, config))
    yield from _run_guarded("file events", partial(machine.check_file_events, config))
    yield from _run_guarded("watched questions", partial(check_watch_actions, config))
    yield from _run_guarded("login", partial(check_company_login, config))
    yield from _run_guarded("llm", partial(check_endpoint, config))


def _run_guarded(name: str, check: Check) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:  # noqa: BLE001 - reported as a finding; the other checks go on
        why = f"the check failed: {type(error).__name__}: {error}"
        yield Finding(
            name, "fail", why, "This is a bug in hopsyncd: report it with the whole output"
        )
