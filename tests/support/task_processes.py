"""Orchestrators and strangers of tasks as processes of their own, to be killed.

`python -m tests.support.task_processes orchestrator|strangers`, with everything in the environment.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from mesh.addresses import free_ports
from mesh.server import Service, running_server
from orchestrator.settings import Settings
from orchestrator.wiring import assembled
from tests.support.fixed_types import FixedTypes
from tests.support.grpc_tasks import Blog, GrpcCollector, GrpcExecutor, Reporter
from tests.support.processes import kill
from tests.support.tasks import collector, executor
from ytcaption.v1 import (
    collector_service_pb2,
    collector_service_pb2_grpc,
    executor_service_pb2,
    executor_service_pb2_grpc,
    task_pb2,
)

POSTS = 12
PAUSE_SECONDS = 0.1
QUICK_RECONNECT = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
]


def stranger_services(blog: Blog, reporter: Reporter) -> list[Service]:
    """A collector and an executor as anyone may write them."""
    return [
        Service.of(
            collector_service_pb2.DESCRIPTOR.services_by_name["CollectorService"],
            collector_service_pb2_grpc.add_CollectorServiceServicer_to_server,
            blog,
        ),
        Service.of(
            executor_service_pb2.DESCRIPTOR.services_by_name["ExecutorService"],
            executor_service_pb2_grpc.add_ExecutorServiceServicer_to_server,
            reporter,
        ),
    ]


@dataclass(slots=True)
class Process:
    """A process that is started again with the same environment, on the same port."""

    role: str
    environ: dict[str, str]
    port: int = field(default_factory=lambda: free_ports(1)[0])
    running: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Starts it; it says nothing about when it is ready."""
        self.running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.task_processes", self.role),
            env={**os.environ, **self.environ, "PORT": str(self.port)},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )

    async def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        if self.running is not None and self.running.returncode is None:
            reaping = asyncio.create_task(self.running.wait())
            await kill(self.running.pid)
            await reaping
        self.running = None


@asynccontextmanager
async def processes(*started: Process) -> AsyncIterator[None]:
    """Starts them, and kills them at the end."""
    try:
        for one in started:
            await one.start()
        yield
    finally:
        for one in started:
            await one.kill()


async def _strangers() -> None:
    async def pause(*_: Any) -> None:
        await asyncio.sleep(PAUSE_SECONDS)

    services = stranger_services(Blog(POSTS, pause), Reporter(pause))
    async with running_server(services, f"127.0.0.1:{os.environ['PORT']}", grace_seconds=0):
        await asyncio.Event().wait()


async def _orchestrator() -> None:
    given = json.loads(os.environ["SETTINGS"])
    async with grpc.aio.insecure_channel(
        f"127.0.0.1:{os.environ['STRANGERS']}", QUICK_RECONNECT
    ) as channel:
        types = FixedTypes(
            [
                collector("blog", GrpcCollector(channel)),
                executor("each", GrpcExecutor(channel), scope=task_pb2.EXECUTOR_SCOPE_ITEM),
                executor("whole", GrpcExecutor(channel)),
            ]
        )
        async with (
            assembled(Settings(**given), types) as (services, ready),
            running_server(services, f"127.0.0.1:{os.environ['PORT']}", grace_seconds=0),
        ):
            await ready()
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run({"orchestrator": _orchestrator, "strangers": _strangers}[sys.argv[1]]())
