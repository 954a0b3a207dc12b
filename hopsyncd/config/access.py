"""`[access]`: who may use the daemon, over which address; `[client]`: which server to ask."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from hopsyncd.config.values import (
    WHO_HINT,
    GroupName,
    OptionalPath,
    Section,
    WhoList,
    is_loopback,
    split_address,
)

_HERE = ("127.0.0.1", "::1", "localhost")
_HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:]+\]")


def _check_listen_address(address: str, info: ValidationInfo) -> str:
    """Refuse an address that other machines can reach, unless hopsyncd or a configured proxy uses
    TLS."""
    has_tls = [bool(info.data.get(key)) for key in ("tls_cert", "tls_key")]
    if has_tls == [True, False]:
        raise ValueError("`tls_cert` is set, but not `tls_key`")
    if has_tls == [False, True]:
        raise ValueError("`tls_key` is set, but not `tls_cert`")
    if address:
        host, _ = split_address(address)
        if not (is_loopback(host) or all(has_tls) or info.data.get("behind_proxy")):
            raise ValueError(f"other machines could reach {host} without TLS and read everything")
    return address


def _check_host_name(name: str) -> str:
    if not _HOST_NAME.fullmatch(name):
        raise ValueError(
            "the value must be a host name without a scheme or port, such as search.example.org"
        )
    return name.lower()


def _check_network(network: str) -> str:
    return str(ipaddress.ip_network(network))


NetworkList = Annotated[
    tuple[Annotated[str, AfterValidator(_check_network)], ...], Field(strict=False)
]
HostList = Annotated[
    tuple[Annotated[str, AfterValidator(_check_host_name)], ...], Field(strict=False)
]


def _check_page_address(address: str, info: ValidationInfo) -> str:
    """Check that the web interface's address uses TLS. Returns the origin as browsers write it."""
    if not address:
        return address
    parts = urlsplit(address)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    has_more = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme != "https" or not host or has_more or address != address.strip():
        raise ValueError("the value must be the https address of a server")
    if not info.data.get("listen"):
        raise ValueError("`listen` is not set, so no browser could open the web interface")
    if not (info.data.get("tls_cert") or info.data.get("behind_proxy")):
        raise ValueError(
            "the web interface needs TLS: set `tls_cert` and `tls_key`, or `behind_proxy`"
        )
    name = f"[{host}]" if ":" in host else host
    return f"https://{name}" + (f":{port}" if port not in (None, 443) else "")


def _check_issuer(address: str) -> str:
    """Accept an https address, or the http address of a provider on this machine."""
    parts = urlsplit(address)
    is_here = parts.scheme == "http" and parts.hostname in _HERE
    if not (parts.scheme == "https" or is_here) or not parts.hostname:
        raise ValueError("the issuer must be an https address, or an http address on this machine")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("the issuer must not have a query, a fragment or a user name")
    return address


PageRole = Literal["read", "write", "admin"]


class OidcConfig(Section):
    """Single sign-on for the web interface at `access.page`, with an OpenID Connect provider."""

    issuer: Annotated[str, AfterValidator(_check_issuer)] = Field(
        description='Write the address as the provider does, like "https://login.example.org".'
    )
    client_id: str = Field(
        min_length=1, description="Write the id that the provider gave to this client."
    )
    client_secret_file: OptionalPath = None
    ca: OptionalPath = None
    scopes: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=("openid", "profile", "email"),
        description='Write a list like ["openid", "profile", "groups"].',
    )
    user_claim: str = Field(default="preferred_username", min_length=1)
    groups_claim: str = "groups"
    role: Literal["read", "write", "none"] = "read"
    roles: Mapping[str, PageRole] = Field(
        default={}, description='Write a table like { editors = "write", ops = "admin" }.'
    )
    required_claims: Mapping[str, str] = Field(
        default={}, description='Write a table like { hd = "example.org" }.'
    )


def _require_page(oidc: OidcConfig | None, info: ValidationInfo) -> OidcConfig | None:
    if oidc and not info.data.get("page"):
        raise ValueError("`page` in [access] is not set, so there is no web interface with a login")
    return oidc


class AccessConfig(Section):
    """The rights of users other than the daemon's own, and the network address.

    `listen` is validated after the keys that make it safe.
    """

    @model_validator(mode="before")
    @classmethod
    def _rename_tcp(cls, section: object) -> object:
        """Accept `tcp`, the former name of `listen`."""
        if isinstance(section, dict) and "tcp" in section and "listen" not in section:
            return {"listen" if key == "tcp" else key: value for key, value in section.items()}
        return section

    group: GroupName = Field(
        default="",
        description="Write the name of a group on this machine, or leave the value empty.",
    )
    admins: WhoList = Field(default=(), description=WHO_HINT)
    tls_cert: OptionalPath = None
    tls_key: OptionalPath = None
    behind_proxy: NetworkList = Field(
        default=(), description='Write a list of addresses like ["127.0.0.1/32"].'
    )
    hosts: HostList = Field(
        default=(), description='Write a list of names like ["notes.example.org"].'
    )
    listen: Annotated[str, AfterValidator(_check_listen_address)] = Field(
        default="",
        validate_default=True,
        description='Write an address like "127.0.0.1:7717". For an address that other machines'
        ' reach, like "0.0.0.0:7717", also set tls_cert and tls_key, or behind_proxy.',
    )
    token_file: OptionalPath = None
    backup_dir: OptionalPath = None
    page: Annotated[str, AfterValidator(_check_page_address)] = Field(
        default="",
        description='Write the address that browsers open, like "https://notes.example.org:7717",'
        " or leave the value empty.",
    )
    oidc: Annotated[OidcConfig | None, AfterValidator(_require_page)] = Field(
        default=None, description="Set `page` in [access] too, or remove the section."
    )


class ClientConfig(Section):
    """The server that commands contact instead of the daemon of this machine."""

    server: str = Field(
        default="",
        pattern=r"^(https?://[^/?#@\s]+/?)?$",
        description='Write an address like "https://notes.example.org:7717", or leave it empty.',
    )
    token_file: OptionalPath = None
    ca: OptionalPath = None
