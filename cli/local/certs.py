"""`ytcaption certs init`: an authority of one's own, and a certificate for each service."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import click
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cli.exits import CommandError, Exit
from cli.local.mesh import SERVICES
from mesh.addresses import is_numeric

NAMES = (*SERVICES, "gateway", "nats", "client")
"""A certificate each; `client` is for the command and for other programs."""
LOCAL = ("localhost", "127.0.0.1", "::1")
CA_DAYS = 3650
CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_certificates(folder: Path, hosts: Sequence[str], days: int) -> None:
    """Gives each service a new certificate and key; hosts of earlier ones stay in them.

    An authority that is there signs them and is not replaced: others trust it already.
    """
    if clash := set(hosts) & set(NAMES):
        raise CommandError(
            f"--host {clash.pop()}: only the certificate of that service may have its name",
            Exit.USAGE,
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = _authority(folder)
        for name in NAMES:
            key = ec.generate_private_key(ec.SECP256R1())
            names = _names(folder / f"{name}.crt", name, hosts)
            certificate = _certificate(authority, key, names, days)
            _write(folder, name, key, certificate)
    except OSError as error:
        raise CommandError(f"cannot write {folder}: {error.strerror}", Exit.REFUSED) from error
    click.echo(f"certificates of {', '.join(NAMES)}, valid for {days} days: {folder}")
    click.echo(f"keep {folder / 'ca.key'} secret: it can make a certificate for any name")


def _authority(folder: Path) -> Authority:
    certificate_file, key_file = folder / "ca.crt", folder / "ca.key"
    if certificate_file.exists() or key_file.exists():
        try:
            certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
            key = load_pem_private_key(key_file.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise CommandError(
                f"{certificate_file} and {key_file} cannot both be read: {error}", Exit.REFUSED
            ) from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise CommandError(f"{key_file} is not a key this command made", Exit.REFUSED)
        return Authority(certificate, key)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("ytcaption authority")
    certificate = (
        _begun(name, name, key.public_key(), CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )
    _write(folder, "ca", key, certificate)
    return Authority(certificate, key)


def _names(earlier: Path, name: str, hosts: Sequence[str]) -> list[str]:
    """The service's own name, then the hosts it is called under; a client is not called."""
    if name == "client":
        return [name]
    found: list[str] = []
    if earlier.exists():
        certificate = x509.load_pem_x509_certificate(earlier.read_bytes())
        named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = [str(one.value) for one in named]
    return [*dict.fromkeys((name, *LOCAL, *found, *hosts))]


def _certificate(
    authority: Authority, key: ec.EllipticCurvePrivateKey, names: Sequence[str], days: int
) -> x509.Certificate:
    """A certificate for both ends of a call; for one name alone, only for that of the caller."""
    purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH][: len(names)]
    public = authority.key.public_key()
    return (
        _begun(_name(names[0]), authority.certificate.subject, key.public_key(), days)
        .add_extension(x509.SubjectAlternativeName([_host(one) for one in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(authority.key, SHA256())
    )


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(name: str) -> x509.GeneralName:
    if is_numeric(name):
        return x509.IPAddress(ip_address(name))
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise CommandError(f"{name!r} is not a host name", Exit.USAGE) from error


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _write(
    folder: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate
) -> None:
    """Replaces both files, each in one step; services wait for the second before they use them."""
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for path, data, mode in (
        (folder / f"{name}.key", secret, 0o600),
        (folder / f"{name}.crt", certificate.public_bytes(Encoding.PEM), 0o644),
    ):
        draft = path.with_suffix(f"{path.suffix}.new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        draft.replace(path)
