"""TLS of gRPC: credentials of servers, channels of callers, and the guard that knows callers."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import grpc

from mesh.tls import Pems, Tls, WatchedFiles, refuse_stranger


def server_credentials(tls: Tls) -> grpc.ServerCredentials:
    """Credentials of a gRPC server; each new connection gets the newest certificate."""
    files = WatchedFiles(tls)

    def configuration() -> grpc.ServerCertificateConfiguration:
        pair = (files.pems.key or b"", files.pems.certificate or b"")
        return grpc.ssl_server_certificate_configuration(
            [pair], root_certificates=files.pems.ca if tls.names else None
        )

    return grpc.dynamic_ssl_server_credentials(
        configuration(),
        lambda: configuration() if files.changed() else None,  # type: ignore[arg-type,return-value]
        require_client_authentication=bool(tls.names),
    )


def channel_to(
    target: str, pems: Pems | None, options: Iterable[tuple[str, Any]]
) -> grpc.aio.Channel:
    """A channel that verifies the server and shows it the own certificate; None: plain text."""
    if pems is None:
        return grpc.aio.insecure_channel(target, options=tuple(options))
    credentials = grpc.ssl_channel_credentials(pems.ca, pems.key, pems.certificate)
    return grpc.aio.secure_channel(target, credentials, options=tuple(options))


def known_peers(tls: Tls) -> Callable[[Any, str], AbstractAsyncContextManager[None]]:
    """A guard of RPCs: refuses callers whose certificate has none of the accepted names."""

    @asynccontextmanager
    async def guard(context: Any, method: str) -> AsyncIterator[None]:
        found = context.auth_context()
        names = found.get("x509_subject_alternative_name") or found.get("x509_common_name") or ()
        refuse_stranger((name.decode(errors="replace") for name in names), tls.names)
        yield

    return guard
