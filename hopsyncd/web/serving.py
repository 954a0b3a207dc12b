"""Serves the web interface beside the daemon's application."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from hopsyncd.client import Client
from hopsyncd.config.configuration import Config
from hopsyncd.config.values import split_loopback_address
from hopsyncd.web.listener import KEPT_NAME, Door

if TYPE_CHECKING:
    from hopsyncd.web.team_page import TeamPage


def load_team_page(config: Config) -> TeamPage | None:
    """Create the web interface at `access.page`, or return None if `access.page` is not set.

    Raises SocketRefused if the secret or the CA file of the login provider cannot be used.
    """
    if not config.access.page:
        return None
    from hopsyncd.web.team_page import make_team_page  # slow to import

    return make_team_page(config)


@contextmanager
def with_page(app: ASGIApp, config: Config, config_file: Path | None = None) -> Iterator[ASGIApp]:
    """Serve the web interface beside the daemon's application, if web.listen is set."""
    address_file = config.daemon.data_dir / KEPT_NAME
    address_file.unlink(missing_ok=True)  # left by a daemon that was killed
    if not config.web.listen:
        yield app
        return
    from hopsyncd.web.pages import make_page  # slow to import

    door = Door(config.web.listen, address_file=address_file)
    page = make_page(Client(config.daemon.socket), door, config_file=config_file)
    server = split_loopback_address(config.web.listen)
    door.create_address()

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        await (page if scope["server"] == server else app)(scope, receive, send)

    try:
        yield dispatch
    finally:
        address_file.unlink(missing_ok=True)
