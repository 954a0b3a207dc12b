"""What lies elsewhere: the sources, and the LLM's endpoint."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx2

from hopsyncd.config import Config
from hopsyncd.config_sources import GitSource, ImapSource, RemoteSource, SourceConfig
from hopsyncd.doctor.finding import Finding, well
from hopsyncd.errors import HopsyncdError
from hopsyncd.llm.client import endpoint_host
from hopsyncd.llm.transport import bounded_http
from hopsyncd.sources import connector_of

_ENDPOINT_S = 5.0


def sources(config: Config) -> Iterator[Finding]:
    """What each source needs on this machine; nothing is asked over a network."""
    for source in config.sources:
        yield _source(source, config) or well(f"source {source.name}", source.location)


def _source(source: SourceConfig, config: Config) -> Finding | None:
    """What keeps it from being read; None if nothing is known."""
    name = f"source {source.name}"
    place = getattr(source, "path", None)
    if isinstance(place, Path) and not os.access(place, os.R_OK):
        gone = "may not be read" if place.exists() else "is not there"
        remedy = "Mount its drive, or correct its path; what is indexed of it is kept"
        return Finding(name, "fail", f"{place} {gone}", remedy)
    if isinstance(source, GitSource) and not shutil.which("git"):
        return Finding(name, "fail", "the program git is missing", "Install git")
    if isinstance(source, ImapSource) and not os.environ.get(source.password_env):
        why = f"the environment variable {source.password_env} is not set here"
        return Finding(name, "warn", why, "Set it where the daemon starts")
    if isinstance(source, RemoteSource):
        return _driver(name, source)
    try:
        connector_of(source, config).close()
    except HopsyncdError as error:
        return Finding(name, "fail", f"{error.what}: {error.why}", error.hint)
    return None


def _driver(name: str, source: RemoteSource) -> Finding | None:
    import fsspec

    kind = source.url.partition("://")[0]
    try:
        fsspec.get_filesystem_class(kind)
    except (ImportError, ValueError) as error:
        remedy = f"Install its driver; for the common kinds `pip install 'hopsyncd[{kind}]'`"
        return Finding(name, "fail", str(error), remedy)
    return None


def endpoint(config: Config) -> Iterator[Finding]:
    """One GET of the list of models, which holds no text of yours."""
    llm = config.llm
    if not llm.base_url:
        yield well("llm", "none is configured: nothing leaves this machine")
        return
    key = os.environ.get(llm.api_key_env, "").strip()
    host = endpoint_host(llm.base_url)
    try:
        response = asyncio.run(_models(llm.base_url, key))
    except (httpx2.HTTPError, TimeoutError, UnicodeEncodeError) as error:
        remedy = "Check llm.base_url and the network; without it the built-in questions serve"
        late = f"no answer within {_ENDPOINT_S:g} s" if isinstance(error, TimeoutError) else ""
        yield Finding(
            "llm", "warn", f"{host}: {late or str(error) or type(error).__name__}", remedy
        )
        return
    if response.status_code in (401, 403):
        remedy = f"Set the environment variable {llm.api_key_env} to a key that is valid"
        yield Finding("llm", "fail", f"{host} refuses the key", remedy)
    elif not response.is_success:
        why = f"{host} answers with status {response.status_code} when asked for its models"
        yield Finding("llm", "warn", why, "Check llm.base_url: mostly it ends in /v1")
    elif llm.model not in response.text:
        remedy = "Check llm.model: `curl` its /models for what there is"
        yield Finding("llm", "warn", f"{host} lists no model {llm.model}", remedy)
    else:
        yield well("llm", f"{llm.model} at {host}, where passages and questions are sent")


async def _models(base_url: str, key: str) -> httpx2.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with asyncio.timeout(_ENDPOINT_S), bounded_http() as http:
        return await http.get(f"{base_url.rstrip('/')}/models", headers=headers)
