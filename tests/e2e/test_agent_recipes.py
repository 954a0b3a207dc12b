"""The files in examples/agents: each in the shape of its program, and each starts the server."""

import asyncio
import json
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from hopsyncd.api.mcp.document_server import PATH
from hopsyncd.config.values import split_loopback_address
from tests.e2e.daemon import ROOT

RECIPES = ROOT / "examples/agents"
SECTIONS = {  # under which a program looks for its servers, by file
    "claude-code.json": "mcpServers",
    "codex.toml": "mcp_servers",
    "gemini-cli.json": "mcpServers",
    "cursor.json": "mcpServers",
    "vscode.json": "servers",
    "zed.json": "context_servers",
    "lm-studio.json": "mcpServers",
    "obsidian-smart-composer.json": None,  # the plug-in asks for the name
}
OVER_HTTP = "open-webui.json"
KEYS = {"type", "command", "args", "env"}


def read(name: str) -> Any:
    text = (RECIPES / name).read_text(encoding="utf-8")
    return tomllib.loads(text) if name.endswith(".toml") else json.loads(text)


async def tools_of(server: dict[str, Any], home: Path) -> list[str]:
    assert server["command"] == "hopsyncd"
    started = StdioServerParameters(
        command=sys.executable,
        args=["-m", "hopsyncd", *server["args"]],
        env={**os.environ, **server.get("env", {}), "HOPSYNCD_HOME": str(home)},
        cwd=ROOT,
    )
    async with stdio_client(started) as streams, ClientSession(*streams) as client:
        await client.initialize()
        return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize("name", SECTIONS)
def test_the_command_of_each_recipe_starts_the_server(name: str, tmp_path: Path) -> None:
    whole, section = read(name), SECTIONS[name]
    if section:
        assert [*whole] == [section]
        assert [*whole[section]] == ["hopsyncd"]
        whole = whole[section]["hopsyncd"]
    assert {"command", "args"} <= whole.keys() <= KEYS
    assert whole.get("type", "stdio") == "stdio"
    assert {"search", "ask", "get", "changes"} <= {*asyncio.run(tools_of(whole, tmp_path))}


def test_the_recipe_over_http_has_the_address_of_the_guide() -> None:
    (server,) = read(OVER_HTTP)
    assert server.keys() == {"type", "url", "path", "auth_type", "key", "config", "info"}
    assert (server["type"], server["auth_type"]) == ("mcp", "bearer")
    assert server["config"] == {"enable": True}
    scheme, _, rest = server["url"].partition("://")
    address, slash, path = rest.partition("/")
    assert (scheme, slash + path) == ("http", PATH)
    split_loopback_address(address)
    assert f"hopsyncd mcp --http {address}" in (ROOT / "docs/agents.md").read_text()


def test_the_guide_names_every_recipe() -> None:
    guide = (ROOT / "docs/agents.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\|[^|]*\| `([\w.-]+)` \|", guide, re.MULTILINE))
    files = {file.name for file in RECIPES.iterdir()}
    assert files == {*SECTIONS, OVER_HTTP}
    assert files <= named
