"""Exits with 0 if the gRPC server at host:port says it is serving: `healthcheck.py HOST:PORT`."""

import sys
from typing import Any

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

SECONDS = 3
NO_PROXY = (("grpc.enable_http_proxy", 0),)


def main(address: str) -> int:
    """0 if it serves, 1 if it does not, or nobody answers."""
    with grpc.insecure_channel(address, options=NO_PROXY) as channel:
        try:
            stub: Any = HealthStub(channel)  # its stubs are untyped
            answer = stub.Check(HealthCheckRequest(), timeout=SECONDS)
        except grpc.RpcError:
            return 1
    return 0 if answer.status == HealthCheckResponse.SERVING else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
