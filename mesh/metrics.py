"""Prometheus metrics of every RPC, served on a separate port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Any

import grpc
from prometheus_client import Counter, Gauge, Histogram, start_http_server

from mesh.addresses import split

RPCS = Counter("ytcaption_rpcs", "Calls that ended, by status code.", ["method", "code"])
RPCS_OPEN = Gauge("ytcaption_rpcs_open", "Calls under way.", ["method"])
RPC_SECONDS = Histogram(
    "ytcaption_rpc_seconds",
    "How long calls took.",
    ["method"],
    buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800, 7200),
)


@asynccontextmanager
async def measured(context: Any, method: str) -> AsyncIterator[None]:
    """Counts and times the call."""
    began = perf_counter()
    RPCS_OPEN.labels(method).inc()
    code = "OK"
    try:
        yield
    except grpc.aio.AbortError:
        code = _name(context.code())
        raise
    except BaseException:  # a cancelled call, or a generator closed early
        code = grpc.StatusCode.CANCELLED.name
        raise
    finally:
        RPCS_OPEN.labels(method).dec()
        RPCS.labels(method, code).inc()
        RPC_SECONDS.labels(method).observe(perf_counter() - began)


def _name(code: Any) -> str:
    """Name of a status code, which grpc.aio returns as a number."""
    by_number = {status.value[0]: status.name for status in grpc.StatusCode}
    return code.name if isinstance(code, grpc.StatusCode) else by_number.get(code, "UNKNOWN")


def serve_metrics(listen: str) -> None:
    """Serves the Prometheus endpoint from a thread; "" turns it off."""
    if listen:
        host, port = split(listen)
        start_http_server(port, host)
