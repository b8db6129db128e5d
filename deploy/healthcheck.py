"""Container health check: exits with 0 if the service is serving.

`healthcheck.py HOST:PORT` calls the standard gRPC health service, `healthcheck.py http://HOST:PORT/PATH`
sends an HTTP GET.
"""

import sys
import urllib.request
from typing import Any

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

SECONDS = 3
NO_PROXY = (("grpc.enable_http_proxy", 0),)


def main(address: str) -> int:
    """0 if it is serving; 1 if it is not or does not answer."""
    return _by_http(address) if address.startswith("http://") else _by_grpc(address)


def _by_http(address: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=SECONDS) as answer:
            return 0 if answer.status == 200 else 1
    except OSError:
        return 1


def _by_grpc(address: str) -> int:
    with grpc.insecure_channel(address, options=NO_PROXY) as channel:
        try:
            stub: Any = HealthStub(channel)  # its stubs are untyped
            answer = stub.Check(HealthCheckRequest(), timeout=SECONDS)
        except grpc.RpcError:
            return 1
    return 0 if answer.status == HealthCheckResponse.SERVING else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
