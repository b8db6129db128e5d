"""Erasure: removes everything stored about one owner, and the bytes of it on the broker's disk.

It begins with a record of the intent. From then on it is finished: by the call, or after that or
its orchestrator ended by the housekeeper of any replica. Every step may be repeated. The order, and
why:

1. Tokens, sessions and links: no new work comes.
2. Collections and jobs are cancelled and have ended: no step after this meets a runner. One that
   was cut off and comes back is refused by the fences of the event logs.
3. Files and events are overwritten one by one. The records stay, as they name them.
4. Once the outbox and the webhook relay have settled what they had taken: published events,
   webhooks, delivery log, dead letters.
5. The records, last: until then an interrupted erasure finds everything again; then the quota, and
   the search index of this orchestrator. Others follow the records, and scrub theirs, too.
6. What was replaced or removed before is dropped from the broker's files (`compaction`).

Then it looks again; work that was accepted meanwhile, such as a replay by an operator, goes too.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from google.protobuf.message import DecodeError
from google.protobuf.timestamp import from_current_time
from structlog import get_logger

from mesh import correlation
from mesh.bus import Stored, storing
from mesh.errors import InvalidRequestError, MeshError, NotFoundError, UnavailableError
from mesh.identity import current
from mesh.reasons import Reason
from mesh.tasks import map_concurrently, stop
from orchestrator.access.audit import Audit
from orchestrator.access.login import Login
from orchestrator.collections.control import CollectionControl
from orchestrator.events import outbox
from orchestrator.jobs.control import JobControl
from orchestrator.jobs.index import JobIndex
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.store import UnreadableError
from orchestrator.maintenance.belongings import Belongings, messages_of
from orchestrator.maintenance.compaction import Compaction
from orchestrator.maintenance.inventory import Inventory, StoredFile
from orchestrator.maintenance.overwriting import Overwriter
from orchestrator.maintenance.owners import OwnerStore, check_owner
from orchestrator.maintenance.reset import purge_stage
from orchestrator.pipeline.stages import STAGES
from orchestrator.quotas.records import QuotaStore
from orchestrator.settings import Settings
from orchestrator.tasks.records import TaskIndex
from orchestrator.webhooks import relay
from orchestrator.worker.attempt import SCRATCH_PREFIX
from ytcaption.v1 import (
    audit_pb2,
    event_pb2,
    owner_pb2,
    token_pb2,
)

log = get_logger(__name__)

CONFIRMATION = "ERASE"
METHOD = "AdminService/EraseOwner"
NOTE = "erased"
JOBS_AT_ONCE = 4
MAX_ROUNDS = 5
UPDATE_SECONDS = 0.5
HEARTBEAT_SECONDS = 10.0
ABANDONED = timedelta(seconds=40)
"""An erasure whose orchestrator has been silent for this long is taken over."""
SETTLE_SECONDS = 60.0
LOOK_SECONDS = 0.1

Phase = owner_pb2.ErasurePhase
TOKENS = owner_pb2.ERASURE_PHASE_TOKENS
CANCELLING = owner_pb2.ERASURE_PHASE_CANCELLING
CONTENT = owner_pb2.ERASURE_PHASE_CONTENT
MESSAGES = owner_pb2.ERASURE_PHASE_MESSAGES
RECORDS = owner_pb2.ERASURE_PHASE_RECORDS
COMPACTION = owner_pb2.ERASURE_PHASE_COMPACTION


@dataclass(slots=True)
class ErasureState:
    """How far an erasure is."""

    phase: "owner_pb2.ErasurePhase.ValueType" = owner_pb2.ERASURE_PHASE_UNSPECIFIED
    done: int = 0
    total: int = 0
    removed: owner_pb2.ErasedCounts = field(default_factory=owner_pb2.ErasedCounts)
    finished: bool = False
    remarks: list[str] = field(default_factory=list)

    def begin(self, phase: "owner_pb2.ErasurePhase.ValueType", total: int) -> None:
        """The next phase, of so many steps."""
        self.phase, self.done, self.total = phase, 0, total


@dataclass(frozen=True, slots=True)
class Erasure:
    """Erases owners; one replica works on an owner at a time."""

    storage: JobStorage
    settings: Settings
    index: JobIndex
    control: JobControl
    collections: CollectionControl
    inventory: Inventory
    overwriter: Overwriter
    login: Login
    owners: OwnerStore
    quotas: QuotaStore
    audit: Audit
    compaction: Compaction
    scrub_search: Callable[[], Awaitable[None]]
    """Takes jobs that are gone out of the search index, and off its disk."""
    tasks: TaskIndex

    async def dry_run(self, owner: str, confirmation: str) -> ErasureState:
        """Counts what an erasure would remove now."""
        _check(owner, confirmation)
        state = ErasureState(finished=True, remarks=self._remarks(owner))
        removed = state.removed
        tokens = await self.login.of_subject(owner)
        removed.tokens = sum(one.kind == token_pb2.TOKEN_KIND_ACCESS for one in tokens)
        removed.sessions = len(tokens) - removed.tokens
        collections = await self.collections.index.owned(owner)
        jobs = await self.index.owned(owner)
        tasks = await self.tasks.owned(owner)
        removed.collections, removed.jobs = len(collections), len(jobs)
        for id_ in (*collections, *jobs, *tasks):
            async for stored in self._event_log(id_):
                removed.events += 1
                removed.bytes += len(stored.data)
        for files in (await self._files([*jobs, *tasks])).values():
            removed.files += len(files)
            removed.bytes += sum(file.size for file in files)
        for name, found in (
            await messages_of(self.storage.bus, Belongings(owner, {*jobs, *collections}))
        ).items():
            setattr(removed, name, sum(map(len, found.values())))
        return state

    async def erase(self, owner: str, confirmation: str) -> AsyncGenerator[ErasureState, None]:
        """Erases an owner and says how far it is; one that is under way elsewhere is followed."""
        _check(owner, confirmation)
        await self._intend(owner)
        state = ErasureState()
        while not await self._claim(owner, state):
            yield state
            await asyncio.sleep(UPDATE_SECONDS)
            record = await self.owners.get(owner)
            if not record.HasField("erasure"):
                state.finished, state.remarks = True, self._remarks(owner)
                yield state
                return
            state.phase, state.removed = record.erasure.phase, record.erasure.removed
        working = asyncio.create_task(self._finish(owner, state))
        try:
            while not working.done():
                yield state
                await asyncio.wait([working], timeout=UPDATE_SECONDS)
            working.result()
            yield state
        finally:
            await stop(working)

    async def finish_abandoned(self) -> None:
        """Finishes what other calls began and could not finish."""
        for record in await self.owners.all():
            state = ErasureState()
            if not record.HasField("erasure") or not await self._claim(record.owner, state):
                continue
            log.info("taking over an erasure", phase=Phase.Name(record.erasure.phase))
            try:
                await self._finish(record.owner, state)
            except MeshError as error:  # others must not wait for this one
                log.warning("erasure postponed", error=str(error))
                continue
            self.audit.note_end(
                audit_pb2.AuditEntry(
                    subject=record.erasure.requested_by,
                    method=METHOD,
                    object_ids=[record.owner],
                    correlation_id=record.erasure.correlation_id,
                )
            )

    async def _intend(self, owner: str) -> None:
        """Stores the intent, unless there is one: from here on the erasure is certain."""

        def mutate(record: owner_pb2.OwnerRecord) -> bool:
            if record.HasField("erasure"):
                return False
            record.erasure.request_time.CopyFrom(from_current_time())
            record.erasure.requested_by = current().subject
            record.erasure.correlation_id = correlation.current()
            return True

        await self.owners.change(owner, mutate)

    async def _claim(self, owner: str, state: ErasureState) -> bool:
        """Takes the erasure, unless another orchestrator works on it or it is over."""
        claimed = False

        def mutate(record: owner_pb2.OwnerRecord) -> bool:
            nonlocal claimed
            claimed = record.HasField("erasure") and _is_abandoned(record.erasure)
            if claimed:
                record.erasure.alive_time.CopyFrom(from_current_time())
            return claimed

        record = await self.owners.change(owner, mutate)
        if claimed:
            state.removed = record.erasure.removed
        return claimed

    async def _finish(self, owner: str, state: ErasureState) -> None:
        """Carries the erasure out; one that fails or is cancelled can be taken over at once."""
        beating = asyncio.create_task(self._beat(owner, state))
        try:
            await self._carry_out(owner, state)
        except BaseException:
            await stop(beating)
            with suppress(MeshError):
                await self._save(owner, state, alive=False)
            raise
        finally:
            await stop(beating)
        await self.owners.change(owner, _forget)
        state.finished, state.remarks = True, state.remarks + self._remarks(owner)
        removed = {one.name: value for one, value in state.removed.ListFields()}
        log.warning("owner erased", **removed)

    async def _beat(self, owner: str, state: ErasureState) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            with suppress(MeshError):
                await self._save(owner, state, alive=True)

    async def _save(self, owner: str, state: ErasureState, *, alive: bool) -> None:
        def mutate(record: owner_pb2.OwnerRecord) -> bool:
            if not record.HasField("erasure"):
                return False
            record.erasure.phase = state.phase
            record.erasure.removed.CopyFrom(state.removed)
            if alive:
                record.erasure.alive_time.CopyFrom(from_current_time())
            else:
                record.erasure.ClearField("alive_time")
            return True

        await self.owners.change(owner, mutate)

    async def _carry_out(self, owner: str, state: ErasureState) -> None:
        for _ in range(MAX_ROUNDS):
            await self._end_tokens(owner, state)
            collections = await self.collections.index.owned(owner)
            jobs = await self._cancel(owner, collections, state)
            # They have ended with their collections, and are removed with these.
            stored = [*jobs, *await self.tasks.owned(owner)]
            await self._erase_content([*collections, *stored], stored, state)
            await self._erase_messages(owner, {*collections, *jobs}, state)
            await self._remove_records(collections, jobs, state)
            # A collection may have no job yet.
            if not (await self.index.owned(owner) or await self.collections.index.owned(owner)):
                break
        else:
            raise UnavailableError(
                "the owner's work grows while it is erased; it will be finished later",
                reason=Reason.STAGE_UNAVAILABLE,
            )
        await self.quotas.forget(owner)
        await self.scrub_search()
        await self._remove_scratch(state)
        await self._compact(owner, state)

    async def _compact(self, owner: str, state: ErasureState) -> None:
        steps = self.compaction.steps()
        state.begin(COMPACTION, len(steps))
        await self._save(owner, state, alive=True)
        for stream, filler_subject, again in steps:
            await self.compaction.run(stream, filler_subject, again=again)
            state.done += 1

    async def _end_tokens(self, owner: str, state: ErasureState) -> None:
        tokens = await self.login.of_subject(owner)
        state.begin(TOKENS, len(tokens))
        for token in tokens:
            if await self.login.forget(token):
                of_program = token.kind == token_pb2.TOKEN_KIND_ACCESS
                state.removed.tokens += of_program
                state.removed.sessions += not of_program
            state.done += 1

    async def _cancel(self, owner: str, collections: list[str], state: ErasureState) -> list[str]:
        """Returns the ids of all jobs once they and the collections have ended."""
        state.begin(CANCELLING, len(collections))

        async def cancel_collection(collection_id: str) -> None:
            with suppress(NotFoundError):
                await self.collections.cancel(collection_id, NOTE)
            state.done += 1

        async def cancel_job(job_id: str) -> None:
            with suppress(NotFoundError, UnreadableError):
                await self.control.cancel(job_id, NOTE)
            state.done += 1

        await map_concurrently(cancel_collection, collections, at_once=JOBS_AT_ONCE)
        # After the collections: they create jobs until they have ended.
        jobs = await self.index.owned(owner)
        state.begin(CANCELLING, len(jobs))
        await map_concurrently(cancel_job, jobs, at_once=JOBS_AT_ONCE)
        return jobs

    async def _erase_content(self, ids: list[str], holders: list[str], state: ErasureState) -> None:
        state.begin(CONTENT, len(ids))
        files = await self._files(holders)

        async def erase(id_: str) -> None:
            for file in files.get(id_, ()):
                await self.overwriter.erase_file(file)
                state.removed.files += 1
                state.removed.bytes += file.size
            await self._erase_events(id_, state)
            state.done += 1

        await map_concurrently(erase, ids, at_once=JOBS_AT_ONCE)

    async def _files(self, ids: Iterable[str]) -> dict[str, list[StoredFile]]:
        """The stored files of these jobs and tasks, also those their records do not name."""
        wanted, found = set(ids), defaultdict[str, list[StoredFile]](list)
        async for file in self.inventory.files():
            if file.job_id in wanted:
                found[file.job_id].append(file)
        return found

    def _event_log(self, id_: str) -> AsyncIterator[Stored]:
        bus = self.storage.bus
        return bus.read(bus.names.events_stream, bus.names.event(id_, "*"))

    async def _erase_events(self, id_: str, state: ErasureState) -> None:
        sequences: list[int] = []
        runner_ids: list[str] = []
        size = 0
        async for stored in self._event_log(id_):
            sequences.append(stored.sequence)
            size += len(stored.data)
            with suppress(DecodeError):
                event = event_pb2.Event.FromString(stored.data)
                if event.HasField("attempt_started"):
                    runner_ids.append(event.attempt_started.runner_id)
        erased = await self.overwriter.erase_all(self.storage.bus.names.events_stream, sequences)
        left = await asyncio.to_thread(_remove_scratch_of, self.settings.work_dir, runner_ids)
        state.removed.events += erased
        state.removed.bytes += size
        state.removed.scratch_files += left

    async def _erase_messages(self, owner: str, ids: set[str], state: ErasureState) -> None:
        names = self.storage.bus.names
        state.begin(MESSAGES, 0)
        await self._save(owner, state, alive=True)
        for durable in (outbox.DURABLE, relay.DURABLE):
            await self._until_settled(names.events_stream, durable)
        found = await messages_of(self.storage.bus, Belongings(owner, ids))
        state.total = sum(len(one) for streams in found.values() for one in streams.values())
        for name, streams in found.items():
            for stream, sequences in streams.items():
                erased = await self.overwriter.erase_all(stream, sequences)
                setattr(state.removed, name, getattr(state.removed, name) + erased)
                state.done += len(sequences)

    async def _until_settled(self, stream: str, durable: str) -> None:
        """Returns once the consumer has acknowledged everything it had taken before this call."""
        bus = self.storage.bus
        taken = None
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                while True:
                    async with storing():
                        info = await bus.jetstream.consumer_info(stream, durable)
                    if taken is None and info.delivered:
                        taken = info.delivered.stream_seq
                    floor = info.ack_floor.stream_seq if info.ack_floor else 0
                    if not info.num_ack_pending or floor >= (taken or 0):
                        return
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError as error:
            raise UnavailableError(
                f"the consumer {durable} does not settle its events; it will be finished later",
                reason=Reason.STAGE_UNAVAILABLE,
            ) from error

    async def _remove_records(
        self, collections: list[str], jobs: list[str], state: ErasureState
    ) -> None:
        state.begin(RECORDS, len(collections) + len(jobs))

        async def remove_job(job_id: str) -> None:
            with suppress(NotFoundError):
                await self.control.delete(job_id)
                state.removed.jobs += 1
            state.done += 1

        async def remove_collection(collection_id: str) -> None:
            with suppress(NotFoundError):
                await self.collections.forget(await self.collections.records.get(collection_id))
                state.removed.collections += 1
            state.done += 1

        await map_concurrently(remove_job, jobs, at_once=JOBS_AT_ONCE)
        await map_concurrently(remove_collection, collections, at_once=JOBS_AT_ONCE)

    async def _remove_scratch(self, state: ErasureState) -> None:
        """What killed processes left in the stages' folders; whose it was is not known there."""
        purged = await asyncio.gather(
            *(purge_stage(one, self.settings, dry_run=False) for one in STAGES)
        )
        state.removed.scratch_files += sum(one.removed.files for one in purged)
        state.remarks = [
            f"{one.name} did not clear its working folder: {error}"
            for one in purged
            for error in one.errors
        ]

    def _remarks(self, owner: str) -> list[str]:
        if self.login.has_first_token(owner):
            return [
                f"the token of ORCHESTRATOR_TOKEN_FILE stands for {owner!r}, and no call ends it"
            ]
        return []


def _check(owner: str, confirmation: str) -> None:
    check_owner(owner)
    if confirmation != f"{CONFIRMATION} {owner}":
        raise InvalidRequestError(
            f'the confirmation must be exactly "{CONFIRMATION} {owner}"',
            reason=Reason.CONFIRMATION_MISSING,
        )


def _forget(record: owner_pb2.OwnerRecord) -> bool:
    record.ClearField("erasure")
    record.ClearField("retention")
    return True


def _is_abandoned(erasure: owner_pb2.Erasure) -> bool:
    if not erasure.HasField("alive_time"):
        return True
    return datetime.now(UTC) - erasure.alive_time.ToDatetime(UTC) > ABANDONED


def _remove_scratch_of(folder: Path, runner_ids: list[str]) -> int:
    """Removes what attempts of this orchestrator left that were killed."""
    found = [path for one in runner_ids for path in folder.glob(f"{SCRATCH_PREFIX}{one}-*")]
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)
