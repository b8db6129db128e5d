"""Container health check: exits with 0 if the service is serving.

`healthcheck.py HOST:PORT` calls the standard gRPC health service, `healthcheck.py http://HOST:PORT/PATH`
sends an HTTP GET. A service with TLS (…_TLS_CERTIFICATE) is called with TLS and its own
certificate; no other is believed.
"""

import os
import socket
import ssl
import sys
import urllib.request
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

SECONDS = 3
NO_PROXY = (("grpc.enable_http_proxy", 0),)
SUFFIX = "_TLS_CERTIFICATE"


def main(address: str) -> int:
    """0 if it is serving; 1 if it is not or does not answer."""
    own = next((name for name, value in os.environ.items() if name.endswith(SUFFIX) and value), "")
    files = [os.environ[own], os.environ[f"{own.removesuffix(SUFFIX)}_TLS_KEY"]] if own else []
    check = _by_http if address.startswith("http://") else _by_grpc
    try:
        return check(address, files)
    except (OSError, grpc.RpcError):
        return 1


def _by_http(address: str, files: list[str]) -> int:
    handlers: list[Any] = [urllib.request.ProxyHandler({})]
    if files:
        address = address.replace("http:", "https:")
        handlers.append(urllib.request.HTTPSHandler(context=_own_certificate(files)))
    with urllib.request.build_opener(*handlers).open(address, timeout=SECONDS) as answer:
        return 0 if answer.status == 200 else 1


def _by_grpc(address: str, files: list[str]) -> int:
    if files:
        certificate, key = (Path(file).read_bytes() for file in files)
        credentials = grpc.ssl_channel_credentials(certificate, key, certificate)
        name = ("grpc.ssl_target_name_override", _name_of(address, files))
        opened = grpc.secure_channel(address, credentials, options=(*NO_PROXY, name))
    else:
        opened = grpc.insecure_channel(address, options=NO_PROXY)
    with opened as channel:
        stub: Any = HealthStub(channel)  # its stubs are untyped
        answer = stub.Check(HealthCheckRequest(), timeout=SECONDS)
    return 0 if answer.status == HealthCheckResponse.SERVING else 1


def _own_certificate(files: list[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # it is called by a loopback address
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(files[0])
    context.load_cert_chain(*files)
    return context


def _name_of(address: str, files: list[str]) -> str:
    """A name that the certificate is valid for."""
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), SECONDS) as connection,
        _own_certificate(files).wrap_socket(connection) as encrypted,
    ):
        shown: Any = encrypted.getpeercert() or {}
    names = (value for kind, value in shown.get("subjectAltName", ()) if kind == "DNS")
    return str(next(names, host))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
