"""The server that commands contact instead of the local daemon, and the token for it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click

from hopsyncd.client import Client, RequestFailed
from hopsyncd.config.access import ClientConfig
from hopsyncd.config.configuration import find_config_path, load_config
from hopsyncd.config.secret_file import read_secret
from hopsyncd.errors import ConfigError

OPTIONS = ("--server", "--token-file", "--ca")
_KEYRING_SERVICE = "hopsyncd"

HERE = frozenset(
    "add remove try init serve reload service token completion eval doctor llm copy recover check"
    " backup support-bundle".split()
)
"""The commands that work on this machine only: on its configuration, its files or its daemon."""

_FOR_ANY_MACHINE = frozenset("try init completion doctor support-bundle".split())
"""The commands of HERE that make sense on a machine whose configuration names a server."""


@dataclass(frozen=True, slots=True)
class Server:
    """A daemon on another machine that the command line or the configuration names."""

    address: str
    token_file: Path | None
    ca: Path | None
    configured: str = ""
    """The server that `client.token_file` is for, if it is not this server."""

    def connect(self) -> Client:
        """Make a client of the server. Raises ConfigError if there is no token for the server."""
        return Client(self.address, self._read_token(), ca=self.ca)

    def refused_token_error(self) -> RequestFailed:
        """Create the error for a token that the server refuses."""
        place = self.token_file or "from the keyring"
        return RequestFailed(
            HTTPStatus.UNAUTHORIZED,
            "unauthorized",
            f"Your token ({place}) is unknown to {self.address}, revoked or expired",
            "Ask the administrator of the server for a new token",
        )

    def _read_token(self) -> str:
        if self.token_file:
            return read_secret(self.token_file)
        if token := _read_keyring_token(self.address):
            return token
        if self.configured:
            raise ConfigError(
                f"Cannot contact {self.address}",
                f"the token in client.token_file is only for {self.configured}",
                "Give the token for this server: --token-file FILE or HOPSYNCD_TOKEN_FILE",
            )
        raise ConfigError(
            f"Cannot contact {self.address}",
            "there is no token for this server",
            "Give the file of your token: --token-file FILE, HOPSYNCD_TOKEN_FILE or"
            " client.token_file; or, with the package keyring, run"
            f" `keyring set {_KEYRING_SERVICE} {self.address}`",
        )


def find_server(context: click.Context) -> Server | None:
    """Return the server that commands contact, or None for the daemon of this machine.

    Options and environment variables override the configuration.
    """
    options = context.find_root().params
    try:
        client = load_config(options["config_file"]).client
    except ConfigError:
        client = ClientConfig()  # client_of reports the mistake
    address = options["server"] or client.server
    if not address:
        return None
    if address.rstrip("/") == client.server.rstrip("/"):
        token_file, ca = options["token_file"] or client.token_file, options["ca"] or client.ca
        return Server(address, token_file, ca)
    configured = client.server if client.token_file else ""
    return Server(address, options["token_file"], options["ca"], configured)


def refuse_elsewhere(context: click.Context, command: str | None) -> None:
    """Raise UsageError for a command that works only on this machine, if the user named a server.

    A server in the configuration does not count if the configuration also has a source or a TCP
    address, because it is then for a daemon on this machine too.
    """
    if command not in HERE:
        return
    if context.params["server"]:
        raise click.UsageError(
            f"`hopsyncd {command}` works on this machine only. Run it on the server, or leave out"
            " --server and HOPSYNCD_SERVER."
        )
    if command in _FOR_ANY_MACHINE:
        return
    try:
        config = load_config(context.params["config_file"])
    except ConfigError:
        return  # the command reports the mistake
    if config.is_client_only:
        raise click.UsageError(
            f"`hopsyncd {command}` works on this machine only, but client.server in"
            f" {find_config_path(context.params['config_file'])} names {config.client.server}."
            " Run it on"
            " the server, or remove client.server to use a daemon of this machine."
        )


@contextmanager
def refused_tokens_explained(context: click.Context) -> Iterator[None]:
    """Make the block's error name the token's file if the server refuses the user's token."""
    try:
        yield
    except RequestFailed as error:
        if error.status != HTTPStatus.UNAUTHORIZED or not (server := find_server(context)):
            raise
        raise server.refused_token_error() from error


def hoist_options(arguments: Sequence[str]) -> list[str]:
    """Move the options of the server in front of the command, where click expects them.

    >>> hoist_options(["query", "who", "--server", "https://a.example", "--", "--ca"])
    ['--server', 'https://a.example', 'query', 'who', '--', '--ca']
    """
    ended = arguments.index("--") if "--" in arguments else len(arguments)
    moved, stay = list[str](), list[str]()
    remaining = iter(arguments[:ended])
    for argument in remaining:
        if argument in OPTIONS:
            moved += [argument, *([value] if (value := next(remaining, None)) is not None else [])]
        elif argument.startswith(tuple(f"{option}=" for option in OPTIONS)):
            moved.append(argument)
        else:
            stay.append(argument)
    return [*moved, *stay, *arguments[ended:]]


def _read_keyring_token(address: str) -> str | None:
    """Return the token in the system's keyring.

    Returns None if the keyring has no token, or if the package keyring is not installed.
    """
    try:
        keyring: Any = importlib.import_module("keyring")
    except ImportError:
        return None
    try:
        token = keyring.get_password(_KEYRING_SERVICE, address)
    except Exception as error:
        raise ConfigError(
            f"Cannot contact {address}",
            f"the keyring cannot be read: {error}",
            "Give the file of your token: --token-file FILE",
        ) from error
    return str(token) if token else None
