"""The login at a company's provider: what a code and an ID token must be to log anybody in."""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hopsyncd.config.access import OidcConfig
from hopsyncd.errors import SocketRefused
from hopsyncd.web.provider import LoginFailed, Provider, make_person
from tests.fakes.provider import CLIENT_ID, CLIENT_SECRET, Claims, LoginProvider, SigningKey

BACK = "https://notes.example.org/login/callback"
ANN: Claims = {"groups": ["board"]}


@pytest.fixture
def company() -> Iterator[LoginProvider]:
    with LoginProvider() as made:
        made.people["ann"] = ANN
        yield made


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def settings_for(company: LoginProvider, folder: Path, **more: Any) -> OidcConfig:
    secret = folder / "secret"
    secret.touch(0o600)
    secret.write_text(CLIENT_SECRET)
    given = {"issuer": company.issuer, "client_id": CLIENT_ID, "client_secret_file": str(secret)}
    return OidcConfig.model_validate({**given, **more})


class Login:
    """One login of ann, from the address of the provider to the person."""

    def __init__(self, company: LoginProvider, provider: Provider) -> None:
        self._provider = provider
        self.verifier, self.nonce = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        place = provider.make_login_address("the state", self.nonce, self.verifier)
        asked = {name: values[0] for name, values in parse_qs(urlsplit(place).query).items()}
        assert place.startswith(company.issuer) and asked["redirect_uri"] == BACK
        back = urlsplit(company.issue_code({**asked, "person": "ann"})).query
        self.brought = {name: values[0] for name, values in parse_qs(back).items()}

    def finish(self, **more: str) -> str:
        return self._provider.log_in({**self.brought, **more}, self.verifier, self.nonce).user


@pytest.fixture
def provider(company: LoginProvider, tmp_path: Path) -> Provider:
    return Provider(settings_for(company, tmp_path), BACK)


def refused(login: Login, **more: str) -> str:
    """Why nobody was logged in, as the server's log says it."""
    with pytest.raises(LoginFailed) as error:
        login.finish(**more)
    assert error.value.status == 403
    return error.value.detail


def test_a_code_logs_its_person_in_once(company: LoginProvider, provider: Provider) -> None:
    login = Login(company, provider)
    assert login.finish() == "ann"
    assert "invalid_grant" in refused(login)
    assert len(company.redeemed) == 1


def test_a_stolen_code_is_useless_without_the_verifier_of_its_login(
    company: LoginProvider, provider: Provider
) -> None:
    stolen, own = Login(company, provider), Login(company, provider)
    assert "invalid_grant" in refused(own, code=stolen.brought["code"])
    assert not company.redeemed


def _unsigned(claims: Claims) -> str:
    return jwt.encode(claims, "", "none")


def _signed_with_the_public_key(company: LoginProvider) -> Callable[[Claims], str]:
    """As a key of HMAC, which a verifier uses that lets the token choose the algorithm."""
    public = company.keys[0].private.public_key()
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    key = public.public_bytes(*form)

    def sign(claims: Claims) -> str:
        head, body = (
            base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
            for part in ({"alg": "HS256", "typ": "JWT", "kid": "first"}, claims)
        )
        signature = hmac.digest(key, head + b"." + body, hashlib.sha256)
        return b".".join((head, body, base64.urlsafe_b64encode(signature).rstrip(b"="))).decode()

    return sign


def _changed(**more: Any) -> Callable[[Claims], Claims]:
    return lambda claims: {
        name: value for name, value in {**claims, **more}.items() if value is not None
    }


def _now(seconds: float) -> int:
    return int(time.time() + seconds)


SPOILT: dict[str, tuple[Callable[[Claims], Claims | str], str]] = {
    "another nonce": (_changed(nonce="of another login"), "nonce"),
    "no nonce": (_changed(nonce=None), "nonce"),
    "another issuer": (_changed(iss="https://evil.example"), "InvalidIssuerError"),
    "no issuer": (_changed(iss=None), "MissingRequiredClaimError"),
    "another audience": (_changed(aud="another client"), "InvalidAudienceError"),
    "no audience": (_changed(aud=None), "MissingRequiredClaimError"),
    "several audiences": (_changed(aud=[CLIENT_ID, "another"]), "another client"),
    "another party": (_changed(aud=[CLIENT_ID], azp="another client"), "another client"),
    "expired": (_changed(exp=_now(-300), iat=_now(-900)), "ExpiredSignatureError"),
    "no expiry": (_changed(exp=None), "MissingRequiredClaimError"),
    "from the future": (_changed(iat=_now(3000), exp=_now(4000)), "ImmatureSignatureError"),
    "no subject": (_changed(sub=None), "MissingRequiredClaimError"),
    "alg none": (_unsigned, "InvalidAlgorithmError"),
    "not a token": (lambda _: "abc", "DecodeError"),
    "empty": (lambda _: "", "DecodeError"),
    "three dots": (lambda _: "...", "DecodeError"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_an_id_token_that_is_not_for_this_login_is_refused(
    company: LoginProvider, provider: Provider, what: str
) -> None:
    company.spoil, why = SPOILT[what]
    assert why in refused(Login(company, provider))
    company.spoil = lambda claims: claims
    assert Login(company, provider).finish() == "ann"


def test_a_signature_of_another_key_is_refused(company: LoginProvider, provider: Provider) -> None:
    foreign, own = SigningKey("foreign"), company.keys[0]
    company.spoil = foreign.sign
    assert "has 0 keys with the id 'foreign'" in refused(Login(company, provider))
    company.spoil = lambda claims: foreign.sign(claims, own.kid)
    assert "InvalidSignatureError" in refused(Login(company, provider))
    company.spoil = _signed_with_the_public_key(company)
    assert "InvalidAlgorithmError" in refused(Login(company, provider))

    def change(claims: Claims) -> str:
        head, body, signature = own.sign(claims).split(".")
        changed = json.dumps({**claims, "preferred_username": "root"}).encode()
        body = base64.urlsafe_b64encode(changed).rstrip(b"=").decode()
        return f"{head}.{body}.{signature}"

    company.spoil = change
    assert "InvalidSignatureError" in refused(Login(company, provider))

    def with_key(claims: Claims) -> str:
        """A header that brings its own key, and an address of keys."""
        more = {"kid": own.kid, "jwk": foreign.jwk, "jku": "http://127.0.0.1:1/keys"}
        return jwt.encode(claims, foreign.private, "RS256", headers=more)

    company.spoil = with_key
    assert "InvalidSignatureError" in refused(Login(company, provider))


def test_a_key_of_another_type_or_use_does_not_count(
    company: LoginProvider, provider: Provider
) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    company.spoil = lambda claims: jwt.encode(claims, private, "ES256", headers={"kid": "first"})
    assert "has 0 keys with the id 'first'" in refused(Login(company, provider))
    company.spoil = lambda claims: claims
    company.keys[0].jwk["use"] = "enc"
    assert "has 0 keys with the id 'first'" in refused(
        Login(company, Provider(provider._settings, BACK))
    )


def test_keys_are_read_again_once_when_the_provider_has_changed_them(
    company: LoginProvider, provider: Provider
) -> None:
    assert Login(company, provider).finish() == "ann"
    company.keys = [SigningKey("second")]
    assert Login(company, provider).finish() == "ann"
    assert company.requests.count("/keys") == 2
    company.spoil = SigningKey("foreign").sign
    refused(Login(company, provider))
    assert company.requests.count("/keys") == 3
    assert company.requests.count("/.well-known/openid-configuration") == 1


def test_a_key_without_an_id_is_used_if_it_is_the_only_one(
    company: LoginProvider, provider: Provider
) -> None:
    del company.keys[0].jwk["kid"]
    key = company.keys[0].private
    company.spoil = lambda claims: jwt.encode(claims, key, "RS256")
    assert Login(company, provider).finish() == "ann"
    company.keys.append(SigningKey("second"))
    refused(Login(company, Provider(provider._settings, BACK)))


def test_a_browser_that_comes_from_another_issuer_is_refused(
    company: LoginProvider, provider: Provider
) -> None:
    assert "another issuer" in refused(Login(company, provider), iss="https://evil.example")
    login = Login(company, provider)
    del login.brought["iss"]
    assert login.finish() == "ann"
    assert "access_denied" in refused(Login(company, provider), error="access_denied")


@pytest.mark.parametrize(
    "description",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "ftp://127.0.0.1/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"jwks_uri": None},
        {"end_session_endpoint": "javascript:alert(1)"},
    ],
)
def test_a_description_that_leads_elsewhere_is_refused(
    company: LoginProvider, provider: Provider, description: dict[str, Any]
) -> None:
    company.description = description
    with pytest.raises(LoginFailed) as error:
        Login(company, provider)
    assert error.value.status == 503


def test_a_provider_that_is_down_is_asked_again_soon(
    company: LoginProvider, tmp_path: Path
) -> None:
    clock = Clock()
    provider = Provider(settings_for(company, tmp_path), BACK, clock)
    company.down = True
    for _ in range(3):
        with pytest.raises(LoginFailed) as error:
            Login(company, provider)
        assert error.value.status == 503 and "does not answer" in error.value.why
    assert len(company.requests) == 1  # a crowd of browsers does not make a crowd of requests
    assert provider.make_logout_address() == ""
    company.down = False
    clock.now_s += 10
    login = Login(company, provider)
    company.down = True
    with pytest.raises(LoginFailed) as error:
        login.finish()
    assert error.value.status == 503
    company.down = False
    # The description is a day old, and the provider is down: the one that is known is used.
    clock.now_s += 86_400
    company.down = True
    assert provider.make_login_address("s", "n", "v").startswith(company.issuer)


def test_the_secret_is_sent_as_the_provider_and_the_settings_say(
    company: LoginProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[tuple[dict[str, str], str]]()

    def redeem(given: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        sent.append((given, authorization))
        return 400, {"error": "invalid_grant"}

    monkeypatch.setattr(company, "redeem", redeem)
    public = settings_for(company, tmp_path, client_secret_file=None)
    refused(Login(company, Provider(public, BACK)))
    company.description = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    refused(Login(company, Provider(settings_for(company, tmp_path), BACK)))
    (first, header), (second, other) = sent
    assert first["client_id"] == CLIENT_ID and "client_secret" not in first
    assert second["client_secret"] == CLIENT_SECRET and not (header or other)


def test_a_secret_that_others_can_read_is_refused(company: LoginProvider, tmp_path: Path) -> None:
    settings = settings_for(company, tmp_path)
    assert settings.client_secret_file
    settings.client_secret_file.chmod(0o644)
    with pytest.raises(SocketRefused, match="client secret"):
        Provider(settings, BACK)
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(SocketRefused, match=r"ca\.pem"):
        public = settings_for(company, tmp_path, client_secret_file=None, ca=f"{tmp_path}/ca.pem")
        Provider(public, BACK)


def _person(claims: Claims, **more: Any) -> tuple[str, str, tuple[str, ...]]:
    settings = OidcConfig.model_validate(
        {"issuer": "https://login.example.org", "client_id": "x", **more}
    )
    found = make_person({"preferred_username": "ann", **claims}, settings)
    return found.user, found.role, found.groups


ROLES = {"editors": "write", "/ops": "admin"}


def test_the_most_powerful_role_of_all_groups_counts() -> None:
    assert _person({}) == ("ann", "read", ())
    assert _person({"groups": ["editors"]}, roles=ROLES) == ("ann", "write", ("editors",))
    found = _person({"groups": ["/ops", "editors", "x y", 3, None]}, roles=ROLES)
    assert found == ("ann", "admin", ("editors", "ops"))
    assert _person({"groups": "editors"}, roles=ROLES)[1] == "write"
    assert _person({"groups": {"editors": 1}}, roles=ROLES)[1] == "read"
    assert _person({"groups": ["ops"]}, roles=ROLES)[1] == "read"  # not the whole name
    with pytest.raises(LoginFailed, match="no access"):
        _person({"groups": ["interns"]}, roles=ROLES, role="none")
    assert _person({"groups": ["editors"]}, roles=ROLES, role="none")[1] == "write"


def test_claims_are_found_by_their_names_and_by_paths() -> None:
    nested = {"realm_access": {"roles": ["board"]}, "https://e.org/groups": ["ops"]}
    assert _person(nested, groups_claim="realm_access.roles")[2] == ("board",)
    assert _person(nested, groups_claim="https://e.org/groups")[2] == ("ops",)
    assert _person(nested, groups_claim="realm_access.roles.deeper")[2] == ()


@pytest.mark.parametrize(
    ("claims", "more"),
    [
        ({"preferred_username": None}, {}),
        ({"preferred_username": ""}, {}),
        ({"preferred_username": "ann\n"}, {}),
        ({"preferred_username": "a b"}, {}),
        ({"preferred_username": ["ann"]}, {}),
        ({"preferred_username": "a" * 200}, {}),
        ({"email": "ann@e.org", "email_verified": False}, {"user_claim": "email"}),
        ({"email": "ann@e.org", "email_verified": "false"}, {"user_claim": "email"}),
        ({"hd": "other.example"}, {"required_claims": {"hd": "example.org"}}),
        ({}, {"required_claims": {"hd": "example.org"}}),
    ],
)
def test_a_login_without_a_usable_name_or_from_elsewhere_is_refused(
    claims: Claims, more: dict[str, Any]
) -> None:
    with pytest.raises(LoginFailed) as error:
        _person(claims, **more)
    assert error.value.status == 403
    good: Claims = {"email": "ann@e.org", "email_verified": True, "hd": "example.org"}
    assert _person(good, **more)[1] == "read"
