"""Admission by quota: what fits an owner's limits is counted and admitted, the rest is refused.

What stored jobs and collections account for is counted from their records. What is admitted but not
stored yet, and what is never stored, is a claim in the owner's record, which every replica changes
by compare-and-set after it has read all records: so replicas together admit no more than one would.
A claim ends when its record is stored, when it is released, or, after the death of its process,
when it is not renewed.
"""

import asyncio
from bisect import insort
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from math import inf
from time import time
from typing import TypeAlias

from structlog import get_logger

from mesh.bus import outlast
from mesh.correlation import new_id
from mesh.errors import LimitExceededError, MeshError, UnavailableError
from mesh.messages import enum_word
from mesh.reasons import Reason
from orchestrator.quotas.claims import (
    HOUR_SECONDS,
    claim_of,
    compacted,
    put_charge,
    renew_claim,
    seconds_of,
)
from orchestrator.quotas.records import QuotaStore
from orchestrator.quotas.usage import (
    AUDIO_HOURS,
    COLLECTIONS,
    DAY_SECONDS,
    LIMITS,
    LIVE_STREAMS,
    QUEUED_JOBS,
    RUNNING_JOBS,
    STORED_BYTES,
    UPLOADS,
    WEBHOOKS,
    Heard,
    LimitId,
    UsageTable,
    heard_of,
)
from orchestrator.settings import Settings
from ytcaption.v1 import job_pb2
from ytcaption.v1 import quota_pb2 as pb

log = get_logger(__name__)

RENEW_SECONDS = 15.0
READ_SECONDS = 1.0
"""How often changes of other replicas are read: a limit is in force everywhere after about this."""
WAIT_SECONDS = 0.5
CLOSE_SECONDS, RELEASE_SECONDS = 1.0, 30.0
MAX_WAITING = 50
"""Jobs of one owner that wait here for a place; more go back to the queue."""
PAUSES: dict[LimitId, float] = {
    QUEUED_JOBS: 10,
    COLLECTIONS: 10,
    LIVE_STREAMS: 10,
    UPLOADS: 10,
    WEBHOOKS: 30,
    STORED_BYTES: 600,
}
"""After how many seconds it is worth asking again. For audio the time is known exactly."""

Wanted: TypeAlias = Mapping[LimitId, float]
"""How much of each limit is asked for; 0: there must be something left, however little."""


def defaults_of(settings: Settings) -> dict[LimitId, float]:
    """The limits of owners without a limit of their own; 0: no limit."""
    return {limit: getattr(settings, f"quota_{name_of(limit)}") for limit in LIMITS}


def name_of(limit: LimitId) -> str:
    """The name of a limit in settings, refusals and commands."""
    return enum_word(pb.QuotaLimit, limit)


@dataclass(slots=True, eq=False)
class Held:
    """A use that lasts as long as a block of code."""

    owner: str
    claims: list[pb.QuotaClaim]
    stored: bool
    seconds: float = 0
    """Audio heard in it so far."""


class Quotas:
    """Limits and usage of all owners."""

    def __init__(
        self,
        store: QuotaStore,
        usage: UsageTable,
        catch_up: Callable[[], Awaitable[None]],
        pending_webhooks: Callable[[str], Awaitable[int]],
        defaults: Wanted,
    ) -> None:
        """`catch_up` brings `usage` up to date with all records acknowledged before the call."""
        self._store = store
        self._usage = usage
        self._catch_up = catch_up
        self._pending_webhooks = pending_webhooks
        self._defaults = defaults
        self._held: set[Held] = set()
        self._waiting: dict[str, list[tuple[int, str]]] = {}
        """Jobs that wait for a place, the first to run first."""
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Reads changes of other replicas, and renews claims."""
        clock = asyncio.get_running_loop().time
        renew_at = clock() + RENEW_SECONDS
        try:
            while True:
                try:
                    await self._store.catch_up()
                    if clock() >= renew_at:
                        renew_at = clock() + RENEW_SECONDS
                        await self._renew()
                except MeshError as error:
                    log.warning("quotas cannot be read or renewed", error=str(error))
                await asyncio.sleep(READ_SECONDS)
        finally:
            if self._closing:
                await asyncio.wait(self._closing, timeout=CLOSE_SECONDS)

    async def ready(self) -> None:
        """Returns once the limits of all owners are known."""
        await self._store.catch_up()

    # Admission.

    async def check(self, owner: str, wanted: Wanted) -> None:
        """Raises if this does not fit; claims nothing, so it is only an early answer."""
        if not self._is_limited(owner, wanted):
            return
        record = await self._store.newest(owner)
        await self._catch_up()
        self._prune(record)
        for limit, amount in wanted.items():
            await self._check(record, limit, amount)

    @asynccontextmanager
    async def admitted(self, owner: str, record_id: str, wanted: Wanted) -> AsyncIterator[None]:
        """Runs the block, which stores the record with that id, if all this fits; else raises.

        The claim ends when the record changes. If storing fails it is released, unless the record
        may be stored all the same.
        """
        claims = await self._claim(owner, record_id, wanted, of_record=True)
        if not claims:
            yield
            return
        held = Held(owner, claims, stored=True)
        self._held.add(held)
        try:
            yield
        except MeshError as error:
            if not isinstance(error, UnavailableError):
                await self._close(held)
            raise
        finally:
            self._held.discard(held)

    @asynccontextmanager
    async def opened(self, owner: str, wanted: Wanted) -> AsyncIterator[Held]:
        """Runs the block if this fits, and counts it until the block ends; else raises."""
        id_ = new_id()
        claims = await self._claim(owner, id_, wanted, of_record=False)
        limited = bool(claims)
        if not limited:  # only shown; and counted, should a limit be set meanwhile
            claims = [claim_of(limit, id_, amount) for limit, amount in wanted.items() if amount]
        held = Held(owner, claims, stored=limited)
        self._held.add(held)
        try:
            yield held
        finally:
            self._held.discard(held)
            if held.stored or self._charges(held):
                closing = asyncio.create_task(self._close(held))
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
                if limited:  # the next one may begin at once
                    await asyncio.wait([closing], timeout=CLOSE_SECONDS)

    async def _claim(
        self, owner: str, id_: str, wanted: Wanted, *, of_record: bool
    ) -> list[pb.QuotaClaim]:
        """Stores what fits and is limited as claims, or raises."""
        if not self._is_limited(owner, wanted):
            return []
        claims: list[pb.QuotaClaim] = []

        async def add(record: pb.QuotaRecord) -> bool:
            claims.clear()
            # After the record was read: a claim that another replica ended is in a record by now.
            await self._catch_up()
            self._prune(record)
            revision = self._usage.revision(id_) if of_record else None
            for limit, amount in wanted.items():
                claimed = any(one.limit == limit and one.claim_id == id_ for one in record.claims)
                if claimed or self._usage.uses(id_, limit):
                    continue
                await self._check(record, limit, amount, apart_from=id_)
                if amount and self._maximum(record, limit):
                    claims.append(claim_of(limit, id_, amount, revision))
            record.claims.extend(claims)
            return bool(claims)

        await self._store.change(owner, add)
        return claims

    async def _check(
        self, record: pb.QuotaRecord, limit: LimitId, amount: float, *, apart_from: str = ""
    ) -> None:
        maximum = self._maximum(record, limit)
        if not maximum:
            return
        used = await self._used(record, limit, apart_from)
        if used + amount <= maximum if amount else used < maximum:
            return
        name = name_of(limit)
        raise LimitExceededError(
            f"the quota {name} is {_plain(maximum)}, of which {_plain(used)} are used"
            + (f"; {_plain(amount)} more were asked for" if amount > 1 else ""),
            reason=Reason.QUOTA_EXCEEDED,
            retry_after_seconds=PAUSES.get(limit) or self._audio_fits_in(record, maximum),
            metadata={"limit": name, "maximum": _plain(maximum), "used": _plain(used)},
        )

    # What is used.

    def _maximum(self, record: pb.QuotaRecord, limit: LimitId) -> float:
        """What is allowed; 0: there is no limit."""
        set_ = (one.maximum for one in record.overrides if one.limit == limit)
        return next(set_, self._defaults.get(limit, 0))

    def _is_limited(self, owner: str, wanted: Wanted) -> bool:
        record = self._store.find(owner)
        return any(self._maximum(record, limit) for limit in wanted)

    async def _used(self, record: pb.QuotaRecord, limit: LimitId, apart_from: str = "") -> float:
        used = self._used_now(record, limit, apart_from)
        return used + (await self._pending_webhooks(record.owner) if limit == WEBHOOKS else 0)

    def _used_now(self, record: pb.QuotaRecord, limit: LimitId, apart_from: str = "") -> float:
        if limit == AUDIO_HOURS:
            heard = self._heard(record)
            heard.pop(apart_from, None)
            return sum(one.seconds for one in heard.values()) / HOUR_SECONDS
        claims = (one for one in record.claims if one.limit == limit and self._lives(one))
        return self._usage.used(record.owner, limit) + sum(one.amount for one in claims)

    def _heard(self, record: pb.QuotaRecord) -> dict[str, Heard]:
        """Audio of the last 24 hours, each once: a job may be deleted while it is charged."""
        since = time() - DAY_SECONDS
        found = {
            charge.charge_id or str(number): Heard(seconds_of(charge.time), charge.seconds)
            for number, charge in enumerate(record.charges)
            if seconds_of(charge.time) > since
        }
        return found | self._usage.heard(record.owner)

    def _audio_fits_in(self, record: pb.QuotaRecord, maximum: float) -> float:
        """Seconds until enough audio is a day old."""
        by_time = sorted(self._heard(record).values())
        left = sum(one.seconds for one in by_time) / HOUR_SECONDS
        for one in by_time:
            left -= one.seconds / HOUR_SECONDS
            if left < maximum:
                return max(1.0, one.time + DAY_SECONDS - time())
        return DAY_SECONDS

    def _lives(self, claim: pb.QuotaClaim) -> bool:
        if seconds_of(claim.expire_time) <= time():
            return False
        of_record = claim.HasField("revision")
        return not of_record or self._usage.revision(claim.claim_id) <= claim.revision

    def _prune(self, record: pb.QuotaRecord) -> None:
        """Removes what no longer counts."""
        claims = [one for one in record.claims if self._lives(one)]
        since = time() - DAY_SECONDS
        charges = [one for one in record.charges if seconds_of(one.time) > since]
        del record.claims[:], record.charges[:]
        record.claims.extend(claims)
        record.charges.extend(compacted(charges))

    # Running jobs.

    async def may_run(self, job: job_pb2.Job) -> bool:
        """Whether an attempt at the job may begin now; then it counts as running."""
        if job.state == job_pb2.JOB_STATE_RUNNING:  # its runner died; it has its place
            return True
        try:
            wanted = {RUNNING_JOBS: 1, AUDIO_HOURS: 0}
            await self._claim(job.owner, job.job_id, wanted, of_record=True)
        except LimitExceededError as error:
            if error.reason != Reason.QUOTA_EXCEEDED:
                raise
            return False
        return True

    def is_crowded(self, owner: str) -> bool:
        """Whether so many jobs of the owner wait here that more should go back to the queue."""
        return len(self._waiting.get(owner, ())) >= MAX_WAITING

    async def until_room(self, job: job_pb2.Job) -> None:
        """Waits until the job may run, as far as is known here, or has ended."""
        key = (int(job.priority), job.job_id)
        waiting = self._waiting.setdefault(job.owner, [])
        insort(waiting, key)
        try:
            while True:
                await asyncio.sleep(WAIT_SECONDS)
                with suppress(MeshError):  # the broker is away; it will be asked again
                    await self._catch_up()
                waits = self._usage.uses(job.job_id, QUEUED_JOBS)
                if not waits or waiting.index(key) < self._room(job):
                    return
        finally:
            waiting.remove(key)
            if not waiting:
                self._waiting.pop(job.owner, None)

    def _room(self, job: job_pb2.Job) -> float:
        """How many more jobs of the owner may run."""
        record = self._store.find(job.owner)
        hours = self._maximum(record, AUDIO_HOURS)
        if hours and self._used_now(record, AUDIO_HOURS, job.job_id) >= hours:
            return 0
        maximum = self._maximum(record, RUNNING_JOBS)
        return maximum - self._used_now(record, RUNNING_JOBS) if maximum else inf

    # What no record accounts for.

    async def keep_audio(self, job: job_pb2.Job) -> None:
        """Counts the audio of a job that is about to be deleted for the rest of its 24 hours."""
        heard = heard_of(job)
        limited = self._is_limited(job.owner, {AUDIO_HOURS: 0})
        if not limited or not heard.seconds or heard.time <= time() - DAY_SECONDS:
            return

        async def charge(record: pb.QuotaRecord) -> bool:
            put_charge(record, job.job_id, heard)
            self._prune(record)
            return True

        await self._store.change(job.owner, charge)

    def _charges(self, held: Held) -> bool:
        return bool(held.seconds) and self._is_limited(held.owner, {AUDIO_HOURS: 0})

    async def _close(self, held: Held) -> None:
        """Releases a claim, and charges what was heard; if the store stays away, it just ends."""
        ids = {(one.limit, one.claim_id) for one in held.claims}

        async def release(record: pb.QuotaRecord) -> bool:
            kept = [one for one in record.claims if (one.limit, one.claim_id) not in ids]
            del record.claims[:]
            record.claims.extend(kept)
            self._charge(record, held)
            return True

        try:
            await outlast(lambda: self._store.change(held.owner, release), RELEASE_SECONDS)
        except MeshError as error:
            log.warning("a quota is released only when its claim ends", error=str(error))

    def _charge(self, record: pb.QuotaRecord, held: Held) -> None:
        if self._charges(held):
            put_charge(record, held.claims[0].claim_id, Heard(time(), held.seconds))

    async def _renew(self) -> None:
        by_owner: dict[str, list[Held]] = {}
        for held in self._held:
            by_owner.setdefault(held.owner, []).append(held)
        for owner, all_held in by_owner.items():

            async def renew(record: pb.QuotaRecord, all_held: list[Held] = all_held) -> bool:
                still_held = [held for held in all_held if held in self._held]
                for held in still_held:
                    for claim in held.claims:
                        renew_claim(record, claim)
                    held.stored = True
                    self._charge(record, held)
                self._prune(record)
                return bool(still_held)

            await self._store.change(owner, renew)

    # Reading and setting limits.

    async def report(self, owner: str) -> list[pb.Quota]:
        """Every limit of an owner, and what is used of it."""
        record = await self._store.newest(owner)
        await self._catch_up()
        overridden = {one.limit for one in record.overrides}
        return [
            pb.Quota(
                limit=limit,
                maximum=self._maximum(record, limit),
                used=await self._used(record, limit),
                overridden=limit in overridden,
            )
            for limit in LIMITS
        ]

    async def set(self, owner: str, overrides: Mapping[LimitId, float | None]) -> list[pb.Quota]:
        """Sets limits of an owner; None: the default again. Returns all of them."""

        async def put(record: pb.QuotaRecord) -> bool:
            kept: dict[LimitId, float | None] = {one.limit: one.maximum for one in record.overrides}
            kept.update(overrides)
            del record.overrides[:]
            for limit, maximum in sorted(kept.items()):
                if maximum is not None:
                    record.overrides.add(limit=limit, maximum=maximum)
            return True

        await self._store.change(owner, put)
        log.info("quota set", owner=owner, limits={name_of(k): v for k, v in overrides.items()})
        return await self.report(owner)


def _plain(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
