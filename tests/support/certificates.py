"""Certificates of tests, as files: good ones, foreign ones, and ones with another name."""

import socket
import ssl
from pathlib import Path

import trustme

from mesh.tls import ReloadingContext, Tls

SECONDS = 60


class Authority:
    """Signs certificates and writes them into a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._ca = trustme.CA()
        self.file = folder / "ca.crt"
        self._ca.cert_pem.write_to_path(self.file)

    def issue(self, name: str, *, peers: str = "", file: str = "") -> Tls:
        """The files of a service with that name on this machine; replaced if they are there."""
        issued = self._ca.issue_cert(name, "localhost", "127.0.0.1", "::1")
        key, certificate = (self.folder / f"{file or name}.{end}" for end in ("key", "crt"))
        issued.private_key_pem.write_to_path(key)
        pems = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
        certificate.write_bytes(pems)
        return Tls(str(certificate), str(key), str(self.file), peers)


def shown(address: str, caller: Tls, *, after_a_line: bool = False) -> str:
    """The certificate that a server shows on a new connection; a broker first says a line."""
    host, _, port = address.rpartition(":")
    context = ReloadingContext.for_client(caller)
    with socket.create_connection((host, int(port)), SECONDS) as raw:
        while after_a_line and raw.recv(1) != b"\n":
            pass
        with context.wrap_socket(raw, server_hostname=host) as encrypted:
            return ssl.DER_cert_to_PEM_cert(encrypted.getpeercert(binary_form=True) or b"")
