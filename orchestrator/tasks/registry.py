"""The registry of collectors and executors: built in, named by the settings, registered by admins.

Registrations are stored durably; every replica has a change within a moment.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Self, TypeAlias

import grpc
from google.protobuf.duration import from_timedelta, to_timedelta
from structlog import get_logger

from mesh.bus import Bus
from mesh.channel import open_channel
from mesh.errors import InvalidRequestError, MeshError, UnavailableError
from mesh.reasons import Reason
from mesh.tasks import map_concurrently
from mesh.tokens import optional_token
from orchestrator.metrics import TYPES_HEALTHY
from orchestrator.pipeline.circuit import Circuit
from orchestrator.settings import Settings
from orchestrator.tasks import grpc_collector, grpc_executor
from orchestrator.tasks.declared import (
    GRPC,
    check_description,
    check_role,
    declared,
    settled_types,
    unknown_type,
)
from orchestrator.tasks.remote import Remote
from orchestrator.tasks.type_store import TypeStore
from orchestrator.tasks.types import COLLECTOR, Collector, Executor, Registered, RoleId, role_word
from ytcaption.v1 import admin_service_pb2, task_pb2

log = get_logger(__name__)

READ_SECONDS = 1.0
"""How often changes of other replicas are read."""
LOOK_SECONDS = 15.0
"""How often every service is asked what it serves."""
AT_ONCE = 8
MAX_TYPES = 200
"""Of both roles together: one answer holds them all."""

Key: TypeAlias = tuple[RoleId, str]
Load: TypeAlias = Callable[[RoleId, str], Awaitable[tuple[int, int]]]
"""Counts the tasks of a type that wait, and those under way."""


@dataclass(slots=True, eq=False)
class _Entry:
    """One type as it is registered now."""

    registered: Registered
    record: task_pb2.RegisteredType
    removable: bool
    opened: AsyncExitStack = field(default_factory=AsyncExitStack)
    healthy: bool = True

    @property
    def engine(self) -> Collector | Executor | None:
        return self.registered.collector or self.registered.executor


class Registry:
    """The registered types, as they are now; fulfils `Types`."""

    def __init__(
        self,
        store: TypeStore,
        settings: Settings,
        built_in: Iterable[Registered],
        *,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._store = store
        self._settings = settings
        self._token = optional_token(settings.types_token_file)
        self._look_seconds = look_seconds
        self._settled = {
            (one.role, one.type): one
            for one in settled_types(settings.collectors, settings.executors)
        }
        self._entries: dict[Key, _Entry] = {}
        for one in built_in:
            record = task_pb2.RegisteredType(type=one.type, role=one.role, transport=one.transport)
            self._entries[one.role, one.type] = _Entry(one, record, removable=False)
        self._built_in = frozenset(self._entries)
        for role, name in self._settled.keys() & self._built_in:
            raise InvalidRequestError(
                f"the {role_word(role)} {name} is built in: name it otherwise"
            )
        self._changing = asyncio.Lock()
        self._changed = asyncio.Event()
        self._new = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, bus: Bus, settings: Settings, built_in: Iterable[Registered] = (), **others: Any
    ) -> AsyncIterator[Self]:
        """A registry with open channels to its services; closes them when the block ends."""
        registry = cls(TypeStore(bus), settings, built_in, **others)
        try:
            await registry._apply()
            yield registry
        finally:
            for key in list(registry._entries):
                await registry._close(key)

    def find(self, role: RoleId, name: str) -> Registered:
        """The type of that name; InvalidRequestError (TYPE_UNKNOWN) that names the known ones."""
        entry = self._entries.get((role, name))
        if entry is None:
            raise unknown_type(role, name, [one.type for one in self.known(role)])
        return entry.registered

    def known(self, role: RoleId) -> Sequence[Registered]:
        """Every type of that role, by name."""
        found = [entry.registered for (one, _), entry in self._entries.items() if one == role]
        return sorted(found, key=lambda one: one.type)

    async def changed(self) -> None:
        """Waits until a type is registered, replaced or taken back."""
        await self._changed.wait()

    async def catch_up(self) -> None:
        """Knows every registration acknowledged before the call, also of other replicas."""
        await self._store.catch_up()
        await self._apply()

    async def register(
        self, request: admin_service_pb2.RegisterTypeRequest
    ) -> task_pb2.RegisteredType:
        """Stores a registration; a service has to answer now, and to serve the type."""
        record = declared(request)
        key = record.role, record.type
        self._check_free(key)
        await self.catch_up()
        if key not in self._entries and len(self._entries) >= MAX_TYPES:
            raise InvalidRequestError(f"there are {MAX_TYPES} types already")
        if record.transport == GRPC:
            record.description.CopyFrom(await self._introduced(record))
        await self._store.put(record)
        await self._apply()
        if (entry := self._entries.get(key)) is None:
            raise UnavailableError("it was taken back", reason=Reason.STORAGE_UNAVAILABLE)
        return await self._listed(entry, None)

    async def unregister(self, role: RoleId, name: str) -> bool:
        """Takes a registration back; whether there was one."""
        self._check_free((check_role(role), name))
        removed = await self._store.remove(role, name)
        await self._apply()
        return removed

    async def listed(self, role: RoleId, load: Load | None = None) -> list[task_pb2.RegisteredType]:
        """All types of a role, or of both for none, by role and name."""
        await self._store.catch_up()
        await self._apply()
        wanted = [key for key in sorted(self._entries) if role in (key[0], 0)]
        return [await self._listed(self._entries[key], load) for key in wanted[:MAX_TYPES]]

    async def follow(self) -> None:
        """Reads what other replicas register."""
        while True:
            await self.catch_up()
            await asyncio.sleep(READ_SECONDS)

    async def watch_health(self) -> None:
        """Asks every service from time to time whether it is there, and what it serves."""
        while True:
            self._new.clear()
            await map_concurrently(self._look, list(self._entries.values()), at_once=AT_ONCE)
            try:
                async with asyncio.timeout(self._look_seconds):
                    await self._new.wait()
            except TimeoutError:
                continue

    def _check_free(self, key: Key) -> None:
        if key in self._built_in:
            raise InvalidRequestError(f"the {role_word(key[0])} {key[1]} is built in")
        if key in self._settled:
            raise InvalidRequestError(f"the {role_word(key[0])} {key[1]} comes from the settings")

    async def _introduced(self, record: task_pb2.RegisteredType) -> task_pb2.TypeDescription:
        """What a service says about a type it is about to be registered for."""
        async with AsyncExitStack() as opened:
            engine = await self._connected(record, opened)
            served = await engine.describe()
        if record.type not in served:
            raise unknown_type(record.role, record.type, list(served))
        description = served[record.type]
        check_description(description)
        return description

    async def _apply(self) -> None:
        """Brings the entries in line with the settings and what is stored."""
        async with self._changing:
            wanted = {(one.role, one.type): one for one in self._store.all()} | self._settled
            changed = False
            for key in self._entries.keys() - wanted.keys() - self._built_in:
                await self._close(key)
                changed = True
            for key, record in wanted.items():
                there = self._entries.get(key)
                if key in self._built_in or (there is not None and there.record == record):
                    continue
                entry = await self._opened(record, removable=key not in self._settled)
                if there is not None:
                    await self._close(key)
                self._entries[key] = entry
                changed = True
            if changed:
                self._new.set()
                self._changed.set()
                self._changed = asyncio.Event()

    async def _opened(self, record: task_pb2.RegisteredType, *, removable: bool) -> _Entry:
        seconds = to_timedelta(record.timeout).total_seconds() if record.HasField("timeout") else 0
        registered = Registered(
            type=record.type,
            role=record.role,
            transport=record.transport,
            max_in_flight=record.max_in_flight or self._settings.task_max_in_flight,
            timeout_seconds=seconds or self._settings.task_seconds,
            description=record.description,
        )
        entry = _Entry(registered, record, removable)
        if record.transport == GRPC:
            # Until it answers for the first time it counts as away.
            entry.healthy = record.HasField("description")
            engine: Any = await self._connected(
                record, entry.opened, seconds=registered.timeout_seconds
            )
            entry.registered = replace(registered, **{role_word(record.role): engine})
        return entry

    async def _connected(
        self, record: task_pb2.RegisteredType, opened: AsyncExitStack, *, seconds: float = 0
    ) -> "grpc_collector.GrpcCollector | grpc_executor.GrpcExecutor":
        """The engine of a service, and a channel to its replicas."""
        collects = record.role == COLLECTOR
        module = grpc_collector if collects else grpc_executor
        what = f"{role_word(record.role)} {record.type}"
        remote = Remote(
            what,
            Reason.COLLECTOR_UNAVAILABLE if collects else Reason.EXECUTOR_UNAVAILABLE,
            Reason.COLLECTOR_FAILED if collects else Reason.EXECUTOR_FAILED,
            Circuit(
                what,
                failures=self._settings.circuit_failures,
                seconds=self._settings.circuit_seconds,
            ),
            seconds or self._settings.task_seconds,
        )
        channel: grpc.aio.Channel = await opened.enter_async_context(
            open_channel(
                ",".join(record.addresses),
                module.SERVICE,
                tls=self._settings.tls,
                token=self._token,
            )
        )
        if collects:
            return grpc_collector.GrpcCollector(channel, remote)
        return grpc_executor.GrpcExecutor(channel, remote)

    async def _close(self, key: Key) -> None:
        entry = self._entries.pop(key)
        await entry.opened.aclose()
        if entry.record.transport == GRPC:
            TYPES_HEALTHY.remove(role_word(key[0]), key[1])

    async def _look(self, entry: _Entry) -> None:
        """Asks one service; a description that cannot be used leaves the one before."""
        if entry.record.transport != GRPC or entry.engine is None:
            return
        role, name = entry.record.role, entry.record.type
        try:
            served = await entry.engine.describe()
            if name not in served:
                raise unknown_type(role, name, list(served))
            check_description(served[name])
        except MeshError as error:
            if entry.healthy:
                log.warning("a type is away", role=role_word(role), type=name, error=str(error))
            entry.healthy = False
        else:
            entry.healthy = True
            entry.registered = replace(entry.registered, description=served[name])
        if self._entries.get((role, name)) is entry:
            TYPES_HEALTHY.labels(role_word(role), name).set(entry.healthy)

    async def _listed(self, entry: _Entry, load: Load | None) -> task_pb2.RegisteredType:
        registered = entry.registered
        found = task_pb2.RegisteredType(
            type=registered.type,
            role=registered.role,
            transport=registered.transport,
            addresses=entry.record.addresses,
            max_in_flight=registered.max_in_flight,
            timeout=from_timedelta(timedelta(seconds=registered.timeout_seconds)),
            description=registered.description,
            healthy=entry.healthy,
            removable=entry.removable,
        )
        if load is not None:
            found.queued, found.running = await load(registered.role, registered.type)
        return found
