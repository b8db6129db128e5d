"""Registered services of strangers, each with the engine that calls it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mesh.bus import Bus
from orchestrator.settings import Settings
from orchestrator.tasks.registry import Registry
from orchestrator.tasks.types import COLLECTOR, EXECUTOR, Collector, Executor


@asynccontextmanager
async def collecting(bus: Bus, *addresses: str, **settings: Any) -> AsyncIterator[Collector]:
    """The engine of a collector `blog` at these addresses."""
    quick: dict[str, Any] = {"circuit_seconds": 0.01, "collectors": f"blog={','.join(addresses)}"}
    async with Registry.opened(bus, Settings(**(quick | settings))) as registry:
        engine = registry.find(COLLECTOR, "blog").collector
        assert engine is not None
        yield engine


@asynccontextmanager
async def executing(bus: Bus, *addresses: str, **settings: Any) -> AsyncIterator[Executor]:
    """The engine of an executor `palavras` at these addresses."""
    quick: dict[str, Any] = {
        "circuit_seconds": 0.01,
        "executors": f"palavras={','.join(addresses)}",
    }
    async with Registry.opened(bus, Settings(**(quick | settings))) as registry:
        engine = registry.find(EXECUTOR, "palavras").executor
        assert engine is not None
        yield engine
