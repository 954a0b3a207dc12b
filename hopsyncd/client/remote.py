"""The address of a daemon behind TCP, and error messages for failed TLS connections.

A token is sent in clear text only to this machine. To any other machine, a token is sent over TLS,
and only after the server's certificate is verified.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from hopsyncd.errors import DaemonUntrusted

_HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:]+\]|[^/:\s]+):(?P<port>[0-9]{1,5})")
_HTTPS, _HTTP = 443, 80
# Error codes of OpenSSL's X509_verify_cert.
_EXPIRED, _NOT_YET_VALID, _OTHER_HOST, _OTHER_ADDRESS = 10, 9, 62, 64
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")


@dataclass(frozen=True)
class Remote:
    """A daemon that is reached over TCP.

    ca: the file of the certificate authorities to trust instead of the system's.
    """

    host: str
    port: int
    tls: bool
    ca: Path | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https://' if self.tls else ''}{host}:{self.port}"

    @property
    def url(self) -> str:
        return str(self) if self.tls else f"http://{self}"

    @cached_property
    def context(self) -> ssl.SSLContext:
        """Return the TLS settings that verify the server.

        Raises DaemonUntrusted if the file `ca` cannot be used.
        """
        try:
            return ssl.create_default_context(cafile=self.ca)
        except (OSError, ValueError) as error:
            why = str(getattr(error, "strerror", None) or error).lower()
            if isinstance(error, ssl.SSLError):
                why = "not in PEM format"
            raise DaemonUntrusted(
                f"Nothing was sent to {self}",
                f"the CA file {self.ca} cannot be used: {why}",
                "Give the certificate of the CA that signed the server's certificate, as PEM",
            ) from error


def parse_remote_place(place: str, ca: Path | None = None) -> Remote | None:
    """Parse an https:// or http:// address, or HOST:PORT. Returns None for other text.

    Raises DaemonUntrusted for a place that would receive the token in clear text.

    >>> [str(parse_remote_place(text)) for text in ("https://notes.example.org", "127.0.0.1:7717")]
    ['https://notes.example.org:443', '127.0.0.1:7717']
    """
    if place.lower().startswith(("https://", "http://")):
        parts = urlsplit(place)
        tls = parts.scheme.lower() == "https"
        try:
            host, port = parts.hostname, parts.port or (_HTTPS if tls else _HTTP)
        except ValueError:
            host = None
        if not host or parts.path.strip("/") or parts.query or parts.fragment or parts.username:
            raise DaemonUntrusted(
                f"Nothing was sent to {place}",
                "the address of the server is not valid",
                "Write an address like https://notes.example.org:7717",
            )
        remote = Remote(host, port, tls, ca)
    elif match := _HOST_AND_PORT.fullmatch(place):
        remote = Remote(match["host"].strip("[]"), int(match["port"]), False)
    else:
        return None
    if not (remote.tls or _is_loopback(remote.host)):
        raise DaemonUntrusted(
            f"Nothing was sent to {place}",
            "without TLS, others on the network could read the token",
            f"Write https://{place.rpartition('/')[2]}",
        )
    return remote


def tls_error(place: Remote, error: ssl.SSLError) -> DaemonUntrusted:
    """Create the error for a server without TLS, or with a certificate that is not valid."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why, hint = _describe_certificate_problem(place, error)
    elif error.reason in _NO_TLS:
        why = "the server does not use TLS on this port"
        hint = "Check the port; access.tls_cert and access.tls_key of the server turn TLS on"
    else:
        why = f"TLS failed ({(error.reason or str(error)).lower().replace('_', ' ')})"
        hint = "Check the address, and whether a daemon of this version listens at it"
    return DaemonUntrusted(f"Nothing was sent to {place}", why, hint)


def _describe_certificate_problem(
    place: Remote, error: ssl.SSLCertVerificationError
) -> tuple[str, str]:
    if error.verify_code == _EXPIRED:
        return (
            "the server's certificate has expired",
            "Ask the server's administrator for a new certificate, or check your machine's clock",
        )
    if error.verify_code == _NOT_YET_VALID:
        return "the server's certificate is not valid yet", "Check the clock of this machine"
    if error.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
        return (
            f"the server's certificate is not for {place.host}",
            "Use the host name in the certificate; the server's administrator knows it",
        )
    return (
        "no authority that this machine trusts has signed the server's certificate",
        "If your company has its own authority, give the authority's certificate: --ca FILE",
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
