"""The server that commands contact instead of the local daemon, and the token for it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from hopsyncd.client import Client
from hopsyncd.config.configuration import load_config
from hopsyncd.config.secret_file import read_secret
from hopsyncd.errors import ConfigError

OPTIONS = ("--server", "--token-file", "--ca")
_KEYRING_SERVICE = "hopsyncd"

HERE = frozenset(
    "add remove try init serve reload service token completion eval doctor llm copy recover check"
    " backup support-bundle".split()
)
"""The commands that work on this machine only: on its configuration, its files or its daemon."""


@dataclass(frozen=True, slots=True)
class Server:
    """A daemon on another machine that the command line or the configuration names."""

    address: str
    token_file: Path | None
    ca: Path | None

    def connect(self) -> Client:
        """A client of the server. Raises ConfigError if there is no token for it."""
        return Client(self.address, self._token(), ca=self.ca)

    def _token(self) -> str:
        if self.token_file:
            return read_secret(self.token_file)
        if token := _keyring_token(self.address):
            return token
        raise ConfigError(
            f"Cannot ask {self.address}",
            "there is no token for it",
            "Give the file of your token: --token-file FILE, HOPSYNCD_TOKEN_FILE or"
            " client.token_file; or, with the package keyring, run"
            f" `keyring set {_KEYRING_SERVICE} {self.address}`",
        )


def server_of(context: click.Context) -> Server | None:
    """The server to ask; None for the daemon of this machine.

    Options and environment variables override the configuration.
    """
    given = context.find_root().params
    if given["server"]:
        return Server(given["server"], given["token_file"], given["ca"])
    try:
        client = load_config(context.obj).client
    except ConfigError:
        return None  # client_of tells the mistake
    if not client.server:
        return None
    return Server(client.server, given["token_file"] or client.token_file, given["ca"] or client.ca)


def refuse_elsewhere(context: click.Context, command: str | None) -> None:
    """Raise UsageError for a command that works only on this machine, if the user named a
    server."""
    if context.params["server"] and command in HERE:
        raise click.UsageError(
            f"`hopsyncd {command}` works on this machine only. Run it on the server, or leave out"
            " --server and HOPSYNCD_SERVER."
        )


def hoist_options(arguments: Sequence[str]) -> list[str]:
    """Move the options of the server in front of the command, where click expects them.

    >>> hoist_options(["query", "who", "--server", "https://a.example", "--", "--ca"])
    ['--server', 'https://a.example', 'query', 'who', '--', '--ca']
    """
    ended = arguments.index("--") if "--" in arguments else len(arguments)
    moved, stay = list[str](), list[str]()
    left = iter(arguments[:ended])
    for argument in left:
        if argument in OPTIONS:
            moved += [argument, *([value] if (value := next(left, None)) is not None else [])]
        elif argument.startswith(tuple(f"{option}=" for option in OPTIONS)):
            moved.append(argument)
        else:
            stay.append(argument)
    return [*moved, *stay, *arguments[ended:]]


def _keyring_token(address: str) -> str | None:
    """The token in the system's keyring, if the package keyring is installed and has one."""
    try:
        keyring: Any = importlib.import_module("keyring")
    except ImportError:
        return None
    try:
        found = keyring.get_password(_KEYRING_SERVICE, address)
    except Exception as error:
        raise ConfigError(
            f"Cannot ask {address}",
            f"the keyring cannot be read: {error}",
            "Give the file of your token: --token-file FILE",
        ) from error
    return str(found) if found else None
