"""Logs users in with a company's account: OpenID Connect, authorization code flow with PKCE.

PyJWT checks the signature and the claims of the ID token. This module contacts the provider and
identifies the user. Calls of this module block, so they must not run in the event loop.
"""

import hashlib
import json
import math
import ssl
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
import jwt

from hopsyncd.config.access import OidcConfig, PageRole
from hopsyncd.config.secret_file import read_secret
from hopsyncd.config.values import PERSON
from hopsyncd.errors import SocketRefused
from hopsyncd.printable import make_printable
from hopsyncd.web.sessions import Person

_WHOLE_S = 15.0  # the time limit of a response of the provider
_WAIT_S = 5.0  # the time limit of each read
_MAX_BYTES = 1 << 20
_KEPT_S = 3600.0  # how long the provider's description and keys are cached
_FAILURE_KEPT_S = 3.0
_LEEWAY_S = 60  # the tolerated difference between the clocks
_MAX_KEYS = 64
_MAX_GROUPS = 2000
# No algorithm with a shared secret, and never "none".
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
               "EdDSA")  # fmt: skip
_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_REQUIRED = ("iss", "sub", "aud", "exp", "iat")
_BY_POWER: Sequence[PageRole] = ("read", "write", "admin")


class LoginFailed(Exception):
    """The login failed, with the reason, what to do, and the HTTP status of the error page.

    detail: an explanation only for the server's log.
    """

    def __init__(self, why: str, hint: str, status: int = 403, detail: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.hint = hint
        self.status = status
        self.detail = detail


def provider_down_error(detail: str) -> LoginFailed:
    """Create the error for a provider that gives no usable response."""
    return LoginFailed(
        "Your company's login service does not answer",
        "Try again in a minute. Open sessions are not affected",
        503,
        detail,
    )


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses of a provider.

    by_body: whether hopsyncd sends its client secret in the body of the token request.
    """

    authorization: str
    token: str
    keys: str
    end_session: str
    by_body: bool


class Provider:
    """Logs users in at the provider of `access.oidc`.

    The provider's description and keys are cached for an hour. `redirect_uri` is the address to
    which the provider redirects browsers. Raises SocketRefused if the client secret or the file of
    certificate authorities cannot be used.
    """

    def __init__(
        self,
        settings: OidcConfig,
        redirect_uri: str,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._redirect_uri = redirect_uri
        self._now_s = now_s
        file = settings.client_secret_file
        self._secret = read_secret(file, "client secret", 1) if file else ""
        self._http = httpx2.Client(
            verify=_make_tls_context(settings),
            headers={"accept": "application/json", "accept-encoding": "identity"},
            timeout=httpx2.Timeout(_WAIT_S),
            follow_redirects=False,
        )
        self._lock = threading.Lock()
        self._endpoints: tuple[Endpoints | LoginFailed | None, float] = None, -math.inf
        self._keys: tuple[list[dict[str, Any]], float] = [], -math.inf

    @property
    def name(self) -> str:
        """The host of the provider."""
        return urlsplit(self._settings.issuer).hostname or ""

    def make_login_address(self, state: str, nonce: str, verifier: str) -> str:
        """Return the address at which the browser logs in. Raises LoginFailed."""
        challenge = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        fields = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *self._settings.scopes))),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        return _with_fields(self.load_endpoints().authorization, fields)

    def make_logout_address(self) -> str:
        """Return the address at which the browser logs out of the provider.

        Returns "" if the provider has no such address.
        """
        try:
            address = self.load_endpoints().end_session
        except LoginFailed:
            return ""
        return _with_fields(address, {"client_id": self._settings.client_id}) if address else ""

    def log_in(self, fields: Mapping[str, str], verifier: str, nonce: str) -> Person:
        """Complete a login and return the person. Raises LoginFailed.

        `fields` has the fields with which the provider redirected the browser.
        """
        if error := fields.get("error"):
            raise LoginFailed(
                "Your company's login service refused the login",
                "Log in again. If it fails again, ask your administrator for access",
                403,
                f"the provider reports {error!r}",
            )
        if fields.get("iss", self._settings.issuer) != self._settings.issuer:
            raise _refusal_error("another issuer redirected the browser")
        token = self._redeem(fields.get("code", ""), verifier)
        return make_person(self._check_claims(token, nonce), self._settings)

    def load_endpoints(self) -> Endpoints:
        """Return the addresses of the provider. Raises LoginFailed."""
        with self._lock:
            cached, read_s = self._endpoints
            kept_s = _FAILURE_KEPT_S if isinstance(cached, LoginFailed) else _KEPT_S
            if cached is None or self._now_s() - read_s > kept_s:
                try:
                    cached = self._discover()
                except LoginFailed as error:
                    # Without a new description, the cached one stays in use.
                    cached = error if not isinstance(cached, Endpoints) else cached
                self._endpoints = cached, self._now_s()
        if isinstance(cached, LoginFailed):
            raise provider_down_error(cached.detail)
        return cached

    def _discover(self) -> Endpoints:
        issuer = self._settings.issuer
        metadata = self._fetch("GET", issuer.rstrip("/") + "/.well-known/openid-configuration")
        if metadata.get("issuer") != issuer:
            raise provider_down_error(
                f"the provider's issuer is {metadata.get('issuer')!r} instead of {issuer!r}"
            )
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        return Endpoints(
            self._read_address(metadata, "authorization_endpoint"),
            self._read_address(metadata, "token_endpoint"),
            self._read_address(metadata, "jwks_uri"),
            self._read_address(metadata, "end_session_endpoint")
            if "end_session_endpoint" in metadata
            else "",
            "client_secret_basic" not in methods,
        )

    def _read_address(self, description: Mapping[str, Any], name: str) -> str:
        """Return an address in the provider's description, `description`. Raises LoginFailed.

        The address must use https, or http if the issuer's address does.
        """
        address = description.get(name)
        schemes = {"https", urlsplit(self._settings.issuer).scheme}
        if not isinstance(address, str) or urlsplit(address).scheme not in schemes:
            raise provider_down_error(f"the provider's description has no usable {name}")
        return address

    def _redeem(self, code: str, verifier: str) -> str:
        """Exchange an authorization code for the ID token. Raises LoginFailed."""
        endpoints, settings = self.load_endpoints(), self._settings
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
        }
        auth = None
        if self._secret and not endpoints.by_body:
            auth = httpx2.BasicAuth(
                _encode_form_value(settings.client_id), _encode_form_value(self._secret)
            )
        else:
            fields["client_id"] = settings.client_id
            fields |= {"client_secret": self._secret} if self._secret else {}
        reply = self._fetch("POST", endpoints.token, fields, auth)
        token = reply.get("id_token")
        if not isinstance(token, str):
            raise _refusal_error(f"the response has no ID token ({reply.get('error')!r})")
        return token

    def _check_claims(self, token: str, nonce: str) -> Mapping[str, Any]:
        """Check an ID token, and return its claims. Raises LoginFailed."""
        settings = self._settings
        try:
            header = jwt.get_unverified_header(token)
            algorithm = header.get("alg")
            if algorithm not in _ALGORITHMS:
                raise jwt.InvalidAlgorithmError(f"the algorithm {algorithm!r}")
            claims: Mapping[str, Any] = jwt.decode(
                token,
                self._find_key(header.get("kid"), algorithm),
                algorithms=[algorithm],
                issuer=settings.issuer,
                audience=settings.client_id,
                leeway=_LEEWAY_S,
                options={"require": [*_REQUIRED]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise _refusal_error(f"{type(error).__name__}: {error}") from error
        if claims.get("nonce") != nonce:
            raise _refusal_error("the nonce of the ID token belongs to another login")
        audience, authorized = claims["aud"], claims.get("azp")
        is_shared = isinstance(audience, list) and len(audience) > 1
        if (authorized is not None or is_shared) and authorized != settings.client_id:
            raise _refusal_error("the ID token was issued to another client")
        return claims

    def _find_key(self, kid: object, algorithm: str) -> jwt.PyJWK:
        """Return the provider's key with the id `kid`. If that key is not cached, reload the
        keys."""
        for refresh in (False, True):
            keys = self._read_keys(refresh)
            fitting = [
                key
                for key in keys
                if key.get("kty") == _KEY_TYPES[algorithm[:2]]
                and key.get("use", "sig") == "sig"
                and key.get("alg", algorithm) == algorithm
                and (kid is None or key.get("kid") == kid)
            ]
            if len(fitting) == 1:
                return jwt.PyJWK(fitting[0], algorithm)
        raise jwt.InvalidKeyError(
            f"the provider has {len(fitting)} keys with the id {kid!r} for {algorithm}"
        )

    def _read_keys(self, again: bool) -> list[dict[str, Any]]:
        keys, read_s = self._keys
        if again or not keys or self._now_s() - read_s > _KEPT_S:
            key_list = self._fetch("GET", self.load_endpoints().keys).get("keys")
            listed = key_list if isinstance(key_list, list) else []
            keys = [key for key in listed if isinstance(key, dict)][:_MAX_KEYS]
            self._keys = keys, self._now_s()
        return keys

    def _fetch(
        self,
        method: str,
        address: str,
        fields: Mapping[str, str] | None = None,
        auth: httpx2.BasicAuth | None = None,
    ) -> dict[str, Any]:
        """Fetch a JSON object from the provider. Raises LoginFailed."""
        until_s, body = time.monotonic() + _WHOLE_S, bytearray()
        try:
            with self._http.stream(method, address, data=fields, auth=auth) as response:
                for part in response.iter_raw():
                    body += part
                    if len(body) > _MAX_BYTES or time.monotonic() > until_s:
                        raise provider_down_error(
                            f"{address}: the response is too long or too slow"
                        )
                status = response.status_code
        except (httpx2.HTTPError, OSError) as error:
            raise provider_down_error(f"{address}: {type(error).__name__}: {error}") from error
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError):
            reply = None
        if status == 200 and isinstance(reply, dict):
            return reply
        if method == "POST" and 400 <= status < 500:
            kind = reply.get("error") if isinstance(reply, dict) else None
            raise _refusal_error(f"the provider's token endpoint returned {status}, error {kind!r}")
        raise provider_down_error(f"{address}: the response with status {status} is not usable")


def make_person(claims: Mapping[str, Any], settings: OidcConfig) -> Person:
    """Return the person with these verified claims. Raises LoginFailed.

    If several roles apply, the person gets the most powerful role.
    """
    for name, required in settings.required_claims.items():
        if _claim(claims, name) != required:
            raise _no_access_error(f"the claim {name} is not {required!r}")
    user = _claim(claims, settings.user_claim)
    is_verified = claims.get("email_verified", True) in (True, "true")
    if settings.user_claim == "email" and not is_verified:
        raise _no_access_error("the email address is not verified")
    if not isinstance(user, str) or not PERSON.fullmatch(user):
        raise _no_access_error(
            f"the claim {settings.user_claim} is not a name: {make_printable(repr(user))}"
        )
    groups = _read_groups(_claim(claims, settings.groups_claim))
    roles = [settings.roles[group] for group in groups if group in settings.roles]
    roles += [settings.role] if settings.role != "none" else []
    if not roles:
        raise _no_access_error(f"{user} is in no group of access.oidc.roles")
    # Keycloak's group names start with "/". Names that `visible_to` cannot contain are dropped.
    names = {group.removeprefix("/") for group in groups}
    return Person(
        user,
        max(roles, key=_BY_POWER.index),
        tuple(sorted(name for name in names if PERSON.fullmatch(name))),
    )


def _claim(claims: Mapping[str, Any], name: str) -> object:
    """Return a claim by its name, or by a path with dots such as `realm_access.roles`."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _read_groups(value: object) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        return []
    return [group for group in listed[:_MAX_GROUPS] if isinstance(group, str)]


def _no_access_error(detail: str) -> LoginFailed:
    why = "You logged in, but you have no access to this server"
    return LoginFailed(why, "Ask the administrator of this server for access", 403, detail)


def _refusal_error(detail: str) -> LoginFailed:
    return LoginFailed("The login was not accepted", "Log in again", 403, detail)


def _with_fields(address: str, fields: Mapping[str, str]) -> str:
    return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(fields)}"


def _encode_form_value(text: str) -> str:
    """Encode a value for the client's header, as RFC 6749 requires."""
    return urlencode({"": text})[1:]


def _make_tls_context(settings: OidcConfig) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca)
    except (OSError, ValueError) as error:
        raise SocketRefused(
            f"Cannot use the CA certificate in {settings.ca}",
            str(getattr(error, "strerror", None) or error).lower(),
            "Set access.oidc.ca to the certificate of the provider's CA, in PEM format",
        ) from error
