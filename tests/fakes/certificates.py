"""A certificate authority for tests, and the certificates that it issues."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOCAL = ("localhost", "127.0.0.1")


class Authority:
    """An authority whose own certificate is in `file`."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        limits = x509.BasicConstraints(ca=True, path_length=0)
        self._made = (
            _builder(self._name, self._name, self._key.public_key(), timedelta(days=30))
            .add_extension(limits, critical=True)
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / f"{name.replace(' ', '-')}.pem"
        self.file.write_bytes(self._made.public_bytes(Encoding.PEM))

    def issue(
        self,
        names: tuple[str, ...] = LOCAL,
        valid: timedelta = timedelta(days=10),
        file_name: str = "server",
    ) -> tuple[Path, Path]:
        """The files of a certificate for these names and of its key, which replace older ones.

        A negative `valid` makes a certificate that has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            _builder(_name([*names, "nameless"][0]), self._name, key.public_key(), valid)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names:
            alternatives = x509.SubjectAlternativeName([*map(_general, names)])
            made = made.add_extension(alternatives, critical=False)
        signed = made.sign(self._key, hashes.SHA256())
        cert_file, key_file = self._folder / f"{file_name}.pem", self._folder / f"{file_name}.key"
        key_file.touch(0o600)
        form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        key_file.write_bytes(key.private_bytes(*form))
        cert_file.write_bytes(signed.public_bytes(Encoding.PEM))
        return cert_file, key_file


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer,
        subject,
        key,
        x509.random_serial_number(),
        now - timedelta(days=60),
        now + valid,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
