"""TLS of every wire: gRPC, HTTP, metrics, NATS. New connections use files that were replaced."""

import os
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

from structlog import get_logger

from mesh.errors import ForbiddenError, InvalidRequestError, UnauthenticatedError
from mesh.reasons import Reason

log = get_logger(__name__)

ANY_NAME = "*"
SYSTEM = "system"
"""In place of a file of authorities: those that the system, or gRPC, trusts."""

Version: TypeAlias = tuple[tuple[int, int, int] | None, ...]
"""Inode, size and time of change of each file; None for one that is not there."""


class TlsError(InvalidRequestError):
    """A file is missing, unreadable, or does not fit the others."""


class Pems(NamedTuple):
    """What was in the files, once they fitted each other."""

    version: Version
    certificate: bytes | None
    key: bytes | None
    ca: bytes | None


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of one party, and the callers it accepts. Without files the wire is plain text."""

    certificate: str = ""
    """The own certificate with its chain: shown to callers, and to called services."""
    key: str = ""
    ca: str = ""
    """Authorities that signed the certificates of the others; without them calls are plain."""
    peers: str = ""
    """Names of accepted callers, separated by commas; empty: callers show no certificate."""

    @classmethod
    def from_environment(cls, prefix: str, environ: Mapping[str, str]) -> Self:
        """Reads PREFIX_TLS_CERTIFICATE and so on; what is not set is empty."""
        names = {one.name: f"{prefix}_TLS_{one.name}".upper() for one in fields(cls)}
        return cls(**{field: environ.get(name, "") for field, name in names.items()})

    @property
    def names(self) -> frozenset[str]:
        """The accepted callers."""
        return frozenset(name.strip() for name in self.peers.split(",") if name.strip())

    def check(self, prefix: str) -> None:
        """Raises TlsError, one line that names the setting, unless all files are usable."""
        if bool(self.certificate) != bool(self.key):
            raise TlsError(f"{prefix}TLS_CERTIFICATE and {prefix}TLS_KEY need each other")
        if self.names and not (self.certificate and self.ca):
            raise TlsError(f"{prefix}TLS_PEERS needs {prefix}TLS_CERTIFICATE and {prefix}TLS_CA")
        if self.names and self.ca == SYSTEM:
            raise TlsError(f"{prefix}TLS_PEERS needs their authority, a file, in {prefix}TLS_CA")
        try:
            self.read()
        except TlsError as error:
            raise TlsError(f"{prefix}TLS_…: {error}") from error

    def read(self) -> Pems:
        """Reads the files; raises TlsError unless they belong together."""
        version = self.version()
        pair = _read(self.certificate), _read(self.key)
        found = Pems(version, *pair, None if self.ca == SYSTEM else _read(self.ca))
        trial = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            _load(trial, self, found)
        except (OSError, ValueError) as error:
            files = " and ".join(filter(None, (self.certificate, self.key, self.ca)))
            raise TlsError(f"{files} cannot be used together: {error}") from error
        if self.version() != version:
            raise TlsError("the files changed while they were read")
        return found

    def version(self) -> Version:
        """Differs when a file was replaced or changed."""
        return tuple(_stat(path) for path in (self.certificate, self.key, self.ca))


PLAIN = Tls()


def _read(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror}") from error


def _stat(path: str) -> tuple[int, int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_ctime_ns


def _load(context: ssl.SSLContext, tls: Tls, pems: Pems) -> None:
    """Loads what was read: the files themselves may have been replaced since."""
    if pems.certificate is not None and pems.key is not None:
        with _as_file(pems.certificate) as certificate, _as_file(pems.key) as key:
            # The password is for a key that has one: without it OpenSSL asks at the terminal.
            context.load_cert_chain(certificate, key, password="")
    if tls.ca == SYSTEM:
        context.load_default_certs()
    elif pems.ca is not None:
        context.load_verify_locations(cadata=pems.ca.decode("ascii", "replace"))


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """A path to read the data from once: Python's ssl takes certificates from files alone."""
    readable, writable = os.pipe()
    try:
        os.set_blocking(writable, False)
        try:
            if os.write(writable, data) < len(data):
                raise TlsError("a certificate with its chain, or its key, is too long")
        finally:
            os.close(writable)
        yield f"/dev/fd/{readable}"
    finally:
        os.close(readable)


class WatchedFiles:
    """The newest usable version of the files; a pair of which one half was replaced is not used."""

    def __init__(self, tls: Tls) -> None:
        self.tls = tls
        self.pems = tls.read()
        self._refused: Version | None = None

    def changed(self) -> bool:
        """Whether there is a newer version than at the last call; `pems` is then that."""
        version = self.tls.version()
        if version in (self.pems.version, self._refused):
            return False
        try:
            self.pems = self.tls.read()
        except TlsError as error:
            self._refused = version
            log.warning("certificates not reloaded", error=str(error))
            return False
        log.info("certificates reloaded", certificate=self.tls.certificate, ca=self.tls.ca)
        return True


def refuse_stranger(names: Iterable[str], accepted: frozenset[str]) -> None:
    """Raises unless one of the names in a verified certificate is accepted."""
    shown = {name for name in names if name}
    if not shown:
        raise UnauthenticatedError(
            "the caller's certificate has no name", reason=Reason.CERTIFICATE_REQUIRED
        )
    if ANY_NAME not in accepted and not shown & accepted:
        raise ForbiddenError(
            f"a caller named {', '.join(sorted(shown))} may not call this service",
            reason=Reason.CALLER_FORBIDDEN,
        )


class ReloadingContext(ssl.SSLContext):
    """For HTTP, metrics and NATS: every new connection gets the newest certificate.

    Authorities are added while the process runs; one that was removed counts until its end.
    """

    _files: WatchedFiles
    accepted: frozenset[str] = frozenset()

    @classmethod
    def for_server(cls, tls: Tls, *, any_name: bool = False) -> Self:
        """Demands a certificate of callers if they are named; with `any_name` their names do not
        matter.
        """
        context = cls(ssl.PROTOCOL_TLS_SERVER)
        if tls.names:
            context.verify_mode = ssl.CERT_REQUIRED
            context.accepted = frozenset({ANY_NAME}) if any_name else tls.names
            context.sslobject_class = _NamedPeer
        return context._with(tls)

    @classmethod
    def for_client(cls, tls: Tls) -> Self:
        """Verifies the server and its host name; shows it the own certificate."""
        return cls(ssl.PROTOCOL_TLS_CLIENT)._with(tls)

    def _with(self, tls: Tls) -> Self:
        self._files = WatchedFiles(tls)
        _load(self, tls, self._files.pems)
        return self

    def wrap_bio(self, *args: Any, **named: Any) -> ssl.SSLObject:  # noqa: D102
        self._refresh()
        return super().wrap_bio(*args, **named)

    def wrap_socket(self, *args: Any, **named: Any) -> ssl.SSLSocket:  # noqa: D102
        self._refresh()
        return super().wrap_socket(*args, **named)

    def _refresh(self) -> None:
        if self._files.changed():
            _load(self, self._files.tls, self._files.pems)


class _NamedPeer(ssl.SSLObject):
    """The server's side of a connection that ends after its handshake if it is a stranger's."""

    def do_handshake(self) -> None:
        super().do_handshake()
        shown: Any = self.getpeercert() or {}
        names = [value for _, value in shown.get("subjectAltName", ())]
        subject = dict(part for line in shown.get("subject", ()) for part in line)
        try:
            refuse_stranger(
                names or [subject.get("commonName", "")],
                getattr(self.context, "accepted", frozenset()),
            )
        except (UnauthenticatedError, ForbiddenError) as error:
            log.warning("connection refused", error=str(error))
            raise ssl.SSLCertVerificationError(str(error)) from error
