"""`python -m transcriber` as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2

from tests.support.polling import until

ROOT = Path(__file__).parents[2]


@contextmanager
def process(**settings: str) -> Iterator[subprocess.Popen[str]]:
    """Runs until the block ends."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'gen'}",
        "TRANSCRIBER_METRICS_LISTEN": "",
        **{f"TRANSCRIBER_{name}": value for name, value in settings.items()},
    }
    running = subprocess.Popen(
        [sys.executable, "-m", "transcriber"], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


async def _is_serving(channel: grpc.aio.Channel) -> bool:
    request = health_pb2.HealthCheckRequest(service="ytcaption.v1.TranscriberService")
    try:
        answer = await channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )(request)
    except grpc.aio.AioRpcError:
        return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


async def until_serving(channel: grpc.aio.Channel) -> None:
    """Returns once it has loaded its model."""
    await until(lambda: _is_serving(channel), 120)
