"""A company's login for tests: an OpenID Connect provider on loopback, over TLS if it has a key.

    with LoginProvider(authority) as provider:
        provider.people["ann"] = {"groups": ["board"]}
        ...

Its page has a button for each person. A code is good once, for the client, the address and the
PKCE challenge that it was asked with. `spoil` changes the claims or the whole ID token, as an
attacker would.
"""

import base64
import hashlib
import json
import secrets
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.fakes.certificates import Authority

CLIENT_ID = "hopsyncd-test"
CLIENT_SECRET = "secret of the client: 100% & more"
Claims = dict[str, Any]


class SigningKey:
    """A key of the provider with its public half as a JWK."""

    def __init__(self, kid: str) -> None:
        self.kid = kid
        self.private = rsa.generate_private_key(65_537, 2048)
        public = json.loads(RSAAlgorithm.to_jwk(self.private.public_key()))
        self.jwk = {**public, "kid": kid, "use": "sig", "alg": "RS256"}

    def sign(self, claims: Claims, kid: str | None = None) -> str:
        return jwt.encode(claims, self.private, "RS256", headers={"kid": kid or self.kid})


class LoginProvider:
    """The provider. `people` has the claims of each person who can log in.

    requests: the paths that were asked for. down: whether it answers with nothing but errors.
    description: what changes in its description.
    """

    def __init__(self, authority: Authority | None = None) -> None:
        self.people: dict[str, Claims] = {}
        self.keys = [SigningKey("first")]
        self.requests: list[str] = []
        self.down = False
        self.description: dict[str, Any] = {}
        self.spoil: Callable[[Claims], Claims | str] = lambda claims: claims
        self.redeemed: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        scheme = "http"
        if authority:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*authority.issue(file_name="provider"))
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.issuer = f"{scheme}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def describe(self) -> dict[str, Any]:
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "end_session_endpoint": f"{self.issuer}/end?where=here",
            "response_types_supported": ["code"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }
        return {**found, **self.description}

    def choose(self, query: str) -> str:
        """The page on which somebody says who they are."""
        buttons = "".join(
            f'<p><a href="/chosen?{escape(query)}&amp;person={name}">{name}</a></p>'
            for name in self.people
        )
        return f"<!doctype html><title>Company login</title><h1>Who are you?</h1>{buttons}"

    def issue_code(self, asked: dict[str, str]) -> str:
        """Where the browser goes back to, with a code for the person whom it chose."""
        assert asked["response_type"] == "code" and asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256" and "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        fields = {"code": code, "state": asked["state"], "iss": self.issuer}
        return f"{asked['redirect_uri']}?{urlencode(fields)}"

    def redeem(self, given: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """The response of the token endpoint."""
        kind, _, packed = authorization.partition(" ")
        pair = base64.b64decode(packed).decode() if kind == "Basic" else ""
        client, _, secret = (unquote(part.replace("+", " ")) for part in pair.partition(":"))
        if (client, secret) != (CLIENT_ID, CLIENT_SECRET):
            return 401, {"error": "invalid_client"}
        asked = self._codes.pop(given.get("code", ""), None)
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        challenge = urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            asked is None
            or asked["redirect_uri"] != given.get("redirect_uri")
            or asked["code_challenge"] != challenge
        ):
            return 400, {"error": "invalid_grant"}
        self.redeemed.append(given)
        now_s = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": f"id of {asked['person']}",
            "aud": CLIENT_ID,
            "iat": now_s,
            "exp": now_s + 300,
            "nonce": asked["nonce"],
            "preferred_username": asked["person"],
            **self.people[asked["person"]],
        }
        spoilt = self.spoil(claims)
        token = spoilt if isinstance(spoilt, str) else self.keys[-1].sign(spoilt)
        return 200, {"id_token": token, "access_token": "unused", "token_type": "Bearer"}


def _handler(provider: LoginProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            provider.requests.append(parts.path)
            if provider.down:
                self._send(500, "text/plain", "out of order")
            elif parts.path == "/.well-known/openid-configuration":
                self._send(200, "application/json", json.dumps(provider.describe()))
            elif parts.path == "/keys":
                keys = {"keys": [key.jwk for key in provider.keys]}
                self._send(200, "application/json", json.dumps(keys))
            elif parts.path == "/authorize":
                self._send(200, "text/html", provider.choose(parts.query))
            elif parts.path == "/chosen":
                asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self._send(302, "text/plain", "", provider.issue_code(asked))
            else:
                self._send(404, "text/plain", "nothing is here")

        def do_POST(self) -> None:
            provider.requests.append(self.path)
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            given = {name: values[0] for name, values in parse_qs(body).items()}
            if provider.down:
                self._send(500, "text/plain", "out of order")
                return
            status, answer = provider.redeem(given, self.headers.get("Authorization", ""))
            self._send(status, "application/json", json.dumps(answer))

        def _send(self, status: int, media_type: str, text: str, to: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            if to:
                self.send_header("Location", to)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    return Handler
