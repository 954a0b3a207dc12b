"""The owner's requests, without a socket to tell who sends them."""

from starlette.types import ASGIApp, Receive, Scope, Send

from hopsyncd.api.access_rules import Caller
from hopsyncd.retrieve.visible_sources import EVERYTHING

OWNER = Caller("owner", "owner", EVERYTHING)


def as_owner(app: ASGIApp) -> ASGIApp:
    """The app for the owner alone."""

    async def owned(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["caller"] = OWNER
        await app(scope, receive, send)

    return owned
