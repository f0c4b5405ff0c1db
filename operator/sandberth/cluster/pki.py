"""The certificates and keys of one bed. Needs the package `cryptography` (the extra `cluster`)."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sandberth.cluster.errors import ClusterError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as error:
    raise ClusterError("the local bed needs cryptography: pip install 'sandberth[cluster]'") from error

_VALID_FOR = timedelta(days=365)
_CLOCK_SKEW = timedelta(hours=1)
SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


class Authority:
    """A certificate authority that writes what it issues into one folder: `<name>.crt` and `<name>.key`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("sandberth-bed-ca")
        self.certificate = directory / "ca.crt"
        directory.mkdir(parents=True, mode=0o700, exist_ok=True)
        self._certificate = self._sign(
            self._name,
            self._key.public_key(),
            (x509.BasicConstraints(ca=True, path_length=0), True),
            (_key_usage(signs_certificates=True), True),
        )
        self._write("ca", self._certificate, self._key)

    def issue_server(self, name: str, addresses: tuple[str, ...]) -> None:
        """Issue a serving certificate for SERVER_NAMES and IP addresses; it may also be shown as a client's."""
        names = [x509.DNSName(each) for each in SERVER_NAMES]
        numbers = [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        self._issue(name, _name(name), usages, (x509.SubjectAlternativeName([*names, *numbers]), False))

    def issue_client(self, name: str, user: str, group: str | None = None) -> None:
        """Issue a client certificate: the API server takes `user` and `group` from its subject."""
        self._issue(name, _name(user, group), [ExtendedKeyUsageOID.CLIENT_AUTH])

    def _issue(
        self,
        name: str,
        subject: x509.Name,
        usages: list[x509.ObjectIdentifier],
        *extensions: tuple[x509.ExtensionType, bool],
    ) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(
            subject,
            key.public_key(),
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_key_usage(signs_certificates=False), True),
            (x509.ExtendedKeyUsage(usages), False),
            *extensions,
        )
        self._write(name, certificate, key)

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *extensions: tuple[x509.ExtensionType, bool]
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + _VALID_FOR)
            # Python 3.13 verifies strictly and asks for both identifiers.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        (self.directory / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private_key(self.directory / f"{name}.key", key)


def write_service_account_keys(directory: Path) -> None:
    """Write the pair that signs and checks service-account tokens: `sa.key` and `sa.pub`."""
    key = ec.generate_private_key(ec.SECP256R1())
    _write_private_key(directory / "sa.key", key)
    (directory / "sa.pub").write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization is not None:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _write_private_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
