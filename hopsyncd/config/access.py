"""`[access]`: who may use the daemon, over which address; `[client]`: which server to ask."""

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from hopsyncd.config.values import (
    WHO_HINT,
    ConfigPath,
    GroupName,
    Section,
    WhoList,
    any_host_and_port,
    is_loopback,
)

_HOST_NAME = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:]+\]")


def _is_safe_to_listen_on(address: str, info: ValidationInfo) -> str:
    """Other machines may reach an address only over TLS: ours, or a named proxy's."""
    has_tls = [bool(info.data.get(key)) for key in ("tls_cert", "tls_key")]
    if has_tls == [True, False]:
        raise ValueError("`tls_cert` is set, but not `tls_key`")
    if has_tls == [False, True]:
        raise ValueError("`tls_key` is set, but not `tls_cert`")
    if address:
        host, _ = any_host_and_port(address)
        if not (is_loopback(host) or all(has_tls) or info.data.get("behind_proxy")):
            raise ValueError(f"other machines could reach {host} without TLS and read everything")
    return address


def _is_host_name(name: str) -> str:
    if not _HOST_NAME.fullmatch(name):
        raise ValueError("it should be a host name, without a scheme and a port")
    return name.lower()


def _is_network(network: str) -> str:
    return str(ipaddress.ip_network(network))


NetworkList = Annotated[
    tuple[Annotated[str, AfterValidator(_is_network)], ...], Field(strict=False)
]
HostList = Annotated[tuple[Annotated[str, AfterValidator(_is_host_name)], ...], Field(strict=False)]


class AccessConfig(Section):
    """Who may use the daemon besides its own user, who may do everything.

    `listen` comes after the keys that make it safe.
    """

    @model_validator(mode="before")
    @classmethod
    def _rename_tcp(cls, given: object) -> object:
        """`tcp` is the former name of `listen`."""
        if isinstance(given, dict) and "tcp" in given and "listen" not in given:
            return {"listen" if key == "tcp" else key: value for key, value in given.items()}
        return given

    group: GroupName = Field(
        default="", description="Write the name of a group of this machine, or nothing."
    )
    admins: WhoList = Field(default=(), description=WHO_HINT)
    tls_cert: ConfigPath | None = Field(
        default=None, description="Write a path in quotes, or leave the line out."
    )
    tls_key: ConfigPath | None = Field(
        default=None, description="Write a path in quotes, or leave the line out."
    )
    behind_proxy: NetworkList = Field(
        default=(), description='Write a list of addresses like ["127.0.0.1/32"].'
    )
    hosts: HostList = Field(
        default=(), description='Write a list of names like ["notes.example.org"].'
    )
    listen: Annotated[str, AfterValidator(_is_safe_to_listen_on)] = Field(
        default="",
        validate_default=True,
        description='Write it like "127.0.0.1:7717". For an address that other machines reach, like'
        ' "0.0.0.0:7717", also set tls_cert and tls_key, or behind_proxy.',
    )
    token_file: ConfigPath | None = Field(
        default=None, description="Write a path in quotes, or leave the line out."
    )
    backup_dir: ConfigPath | None = Field(
        default=None, description="Write a path in quotes, or leave the line out."
    )


class ClientConfig(Section):
    """The server that the commands ask instead of the daemon of this machine."""

    server: str = Field(
        default="",
        pattern=r"^(https?://[^/?#@\s]+/?)?$",
        description='Write it like "https://notes.example.org:7717", or nothing.',
    )
    token_file: ConfigPath | None = Field(
        default=None, description="Write a path in quotes, or leave the line out."
    )
    ca: ConfigPath | None = Field(
        default=None, description="Write a path in quotes, or leave the line out."
    )
