"""Builds every object of the orchestrator once and starts its background tasks."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from math import inf
from pathlib import Path

from mesh.bus import Bus, outlast
from mesh.private import private_folder
from mesh.server import Guard, Service
from mesh.stores import Limits
from mesh.tasks import stop
from mesh.tokens import read_token
from orchestrator.access.audit import Audit
from orchestrator.access.login import Login
from orchestrator.access.oidc import Oidc
from orchestrator.access.provider import Provider
from orchestrator.access.tokens import TokenStore
from orchestrator.api import health, stats
from orchestrator.api.admin import AdminServicer
from orchestrator.api.auth import AuthServicer, login_guard
from orchestrator.api.collections import CollectionServicer
from orchestrator.api.pipeline import PipelineServicer
from orchestrator.api.quotas import QuotaServicer
from orchestrator.api.search import SearchServicer
from orchestrator.collections.control import CollectionControl
from orchestrator.collections.controller import Dependencies
from orchestrator.collections.documents import Documents
from orchestrator.collections.feed import CollectionFeed
from orchestrator.collections.index import CollectionIndex, CollectionReader
from orchestrator.collections.projection import Projections, projection_at
from orchestrator.collections.records import CollectionStore
from orchestrator.collections.report import Reports
from orchestrator.collections.sent_files import SentFiles
from orchestrator.collections.specs import check_specs
from orchestrator.collections.submission import CollectionSubmission
from orchestrator.collections.subtask_reader import SubtaskReader
from orchestrator.collections.task_input import TaskInputs
from orchestrator.collections.worker import CollectionWorker
from orchestrator.events.inbox import Inbox, resend_event
from orchestrator.events.outbox import Outbox
from orchestrator.jobs.caption_files import CaptionReader
from orchestrator.jobs.control import JobControl
from orchestrator.jobs.dedup import Dedup
from orchestrator.jobs.index import JobIndex
from orchestrator.jobs.replay import Replays
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.store import ACTIVE
from orchestrator.jobs.submission import Rerun, Submission
from orchestrator.maintenance.compaction import Compaction
from orchestrator.maintenance.erasure import Erasure
from orchestrator.maintenance.eviction import Eviction
from orchestrator.maintenance.export import OwnerExports
from orchestrator.maintenance.gauges import Gauges
from orchestrator.maintenance.housekeeper import Housekeeper
from orchestrator.maintenance.inventory import Inventory
from orchestrator.maintenance.log_files import LogFiles
from orchestrator.maintenance.orphans import Orphans
from orchestrator.maintenance.overwriting import Overwriter
from orchestrator.maintenance.owners import OwnerStore
from orchestrator.maintenance.poison_items import PoisonItems
from orchestrator.maintenance.reconciler import Reconciler, enqueue_job
from orchestrator.maintenance.reset import FactoryReset
from orchestrator.maintenance.retention import Retention
from orchestrator.pipeline.capabilities import Capabilities
from orchestrator.pipeline.pipeline import Pipeline
from orchestrator.pipeline.stages import Stages, open_stages, selected_models
from orchestrator.queue.capacity import Capacity
from orchestrator.queue.work_queue import CollectionQueue, WorkQueue
from orchestrator.quotas.quotas import Quotas, defaults_of
from orchestrator.quotas.records import QuotaStore
from orchestrator.search.executor import DESCRIPTION, KIND, SearchExecutor
from orchestrator.search.follower import Follower
from orchestrator.search.searching import CaptionSearch
from orchestrator.settings import Settings
from orchestrator.tasks.attempt import Engine
from orchestrator.tasks.builtin.table import built_in
from orchestrator.tasks.control import TaskControl
from orchestrator.tasks.exchange import Exchange
from orchestrator.tasks.listing import Lister
from orchestrator.tasks.queue import TaskQueue
from orchestrator.tasks.records import TaskIndex, TaskStore
from orchestrator.tasks.registry import Registry
from orchestrator.tasks.storage import TaskStorage
from orchestrator.tasks.types import EXECUTOR, Registered, Types
from orchestrator.tasks.worker import TaskWorkers
from orchestrator.watch.event_feed import FeedPool, JobFeed
from orchestrator.watch.live_pages import LivePages
from orchestrator.webhooks.deliveries import Deliveries, resend_webhook
from orchestrator.webhooks.pending import PendingWebhooks
from orchestrator.webhooks.queue import forget_webhooks
from orchestrator.webhooks.relay import Relay
from orchestrator.webhooks.sender import Sender
from orchestrator.worker.readiness import Readiness
from orchestrator.worker.runner import Runner
from ytcaption.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    auth_service_pb2,
    auth_service_pb2_grpc,
    collection_service_pb2,
    collection_service_pb2_grpc,
    job_pb2,
    pipeline_service_pb2,
    pipeline_service_pb2_grpc,
    quota_service_pb2,
    quota_service_pb2_grpc,
    search_service_pb2,
    search_service_pb2_grpc,
    task_pb2,
)


@asynccontextmanager
async def assembled(
    settings: Settings, types: Types | None = None
) -> AsyncIterator[tuple[list[Service], Callable[[], Awaitable[None]]]]:
    """Runs the background tasks; yields the gRPC services and the readiness check.

    Collections find collectors and executors in `types`; without it, in the registry.
    """
    private_folder(settings.work_dir)
    limits = Limits(replicas=settings.replicas, storage_bytes=settings.storage_bytes)
    async with (
        Bus.connected(
            settings.nats_url,
            credentials=settings.nats_credentials,
            prefix=settings.prefix,
            limits=limits,
            name="orchestrator",
            answer_seconds=settings.nats_seconds,
            tls=settings.tls,
        ) as bus,
        open_stages(settings) as stages,
        Provider.opened(settings) as provider,
        open_stored(settings, bus) as stored,
        open_types(settings, stages, stored) as registry,
        asyncio.TaskGroup() as background,  # one dead task ends the process, which is restarted
    ):
        core = build_core(settings, stages, stored, types or registry)
        collections = build_collections(core)
        audit, login = Audit(bus), build_login(settings, bus, provider)
        admin, housekeeper = build_maintenance(core, collections, audit, login, registry)
        outbox = Outbox(bus, partial(projection_at, core.service.storage.event_logs))
        inbox = Inbox(
            bus,
            collections.service.submission.create,
            core.exchange.take,
            core.service.storage.dead_letters,
        )
        relay = Relay(bus, core.deliveries)
        sender = Sender(bus, settings, core.deliveries, core.service.storage.dead_letters)
        # Consumers exist before the first event they must not miss.
        await outlast(relay.create, inf)
        await outlast(outbox.create, inf)
        work: tuple[Callable[[], Awaitable[None]], ...] = (
            outbox.run,
            inbox.run,
            core.service.index.keep_warm,
            core.service.live_pages.run,
            core.runner.run,
            collections.worker.run,
            collections.task_workers.run,
            relay.run,
            sender.run,
            housekeeper.run,
            Reconciler(
                "job",
                partial(core.service.index.ids, ACTIVE),
                core.queue.ids,
                partial(enqueue_job, core.service.storage.jobs, core.queue),
            ).run,
            Reconciler(
                "collection",
                collections.service.index.unsettled,
                core.collection_queue.ids,
                core.collection_queue.put,
            ).run,
            Reconciler(
                "task",
                core.tasks.index.unfinished,
                core.tasks.queue.ids,
                core.tasks.enqueue,
            ).run,
            PoisonItems(core.service.storage).run,
            Gauges(admin.stats, (inbox, outbox, relay, sender, collections.worker)).run,
            login.run,
            audit.run,
            core.quotas.run,
            registry.follow,
            registry.watch_health,
            core.search.follower.run,
        )
        # Streams without a leader, or without a quorum, are waited for: they end no process.
        tasks = [background.create_task(outlast(run, inf)) for run in work]
        tasks.append(background.create_task(bus.until_refused()))
        try:

            async def ready() -> None:
                await outlast(core.service.index.catch_up, inf)
                await outlast(login.ready, inf)
                await outlast(core.quotas.ready, inf)
                await outlast(registry.catch_up, inf)

            guard = login_guard(login, audit)
            yield (
                services_of(core.service, admin, collections.service, core.search, guard, login),
                ready,
            )
        finally:
            await stop(*tasks)


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored of jobs, and what reads it."""

    storage: JobStorage
    index: JobIndex
    reading: CaptionReader
    search: CaptionSearch


@asynccontextmanager
async def open_stored(settings: Settings, bus: Bus) -> AsyncIterator[Stored]:
    """The stores of jobs and the search of their captions, whose threads it ends."""
    storage, index = JobStorage.on(bus), JobIndex(bus)
    reading = CaptionReader(storage.artifacts, storage.event_logs)
    search = CaptionSearch(index, Follower(index, reading, settings.work_dir / "search"))
    try:
        yield Stored(storage, index, reading, search)
    finally:
        search.close()


def open_types(
    settings: Settings, stages: Stages, stored: Stored
) -> AbstractAsyncContextManager[Registry]:
    """The registry with every built-in type."""
    bus = stored.storage.bus
    readiness = Readiness(stages, Capacity(bus, settings).until_free)
    search = Registered(
        type=KIND,
        role=EXECUTOR,
        transport=task_pb2.TASK_TRANSPORT_BUILT_IN,
        max_in_flight=settings.task_max_in_flight,
        timeout_seconds=settings.task_seconds,
        description=DESCRIPTION,
        executor=SearchExecutor(stored.search.follower),
    )
    types = built_in(Lister(stages, readiness, settings), settings, search)
    return Registry.opened(bus, settings, types)


@dataclass(frozen=True, slots=True)
class Core:
    """The service of jobs, and what other rooms need besides."""

    service: PipelineServicer
    stages: Stages
    queue: WorkQueue
    readiness: Readiness
    quotas: Quotas
    quota_store: QuotaStore
    replays: Replays
    runner: Runner
    collection_queue: CollectionQueue
    deliveries: Deliveries
    search: CaptionSearch
    types: Types
    tasks: TaskStorage
    task_control: TaskControl
    exchange: Exchange


def build_core(settings: Settings, stages: Stages, stored: Stored, types: Types) -> Core:
    """Builds everything a job needs."""
    storage, index = stored.storage, stored.index
    bus = storage.bus
    pipeline = Pipeline(stages, settings)
    queue = WorkQueue(
        bus,
        ack_wait_seconds=settings.ack_wait_seconds,
        max_deliveries=settings.max_deliveries,
    )
    quota_store = QuotaStore(bus)
    quotas = Quotas(
        quota_store,
        index.usage,
        index.catch_up,
        PendingWebhooks(bus).of,
        defaults_of(settings),
    )
    feeds = FeedPool(partial(JobFeed, bus, storage.event_logs))
    capacity = Capacity(bus, settings)
    readiness = Readiness(stages, capacity.until_free)
    collection_queue, deliveries = CollectionQueue(bus), Deliveries(bus)
    tasks = TaskStorage(storage, TaskStore(bus), TaskQueue(bus), TaskIndex(index))
    exchange = Exchange(tasks)
    task_control = TaskControl(tasks, exchange, collection_queue.put)
    replays = Replays(
        storage,
        queue,
        quotas,
        max_attempts=settings.max_attempts,
        resend={
            job_pb2.LETTER_KIND_EVENT: partial(resend_event, bus),
            job_pb2.LETTER_KIND_WEBHOOK: partial(
                resend_webhook, bus, deliveries, storage.dead_letters
            ),
            job_pb2.LETTER_KIND_TASK: task_control.revive,
        },
        on_member_revived=collection_queue.put,
    )
    dedup = Dedup(storage, settings, partial(selected_models, stages))
    submission = Submission(storage, queue, settings, quotas, capacity)
    service = PipelineServicer(
        settings=settings,
        storage=storage,
        pipeline=pipeline,
        capabilities=Capabilities(stages),
        index=index,
        feeds=feeds,
        live_pages=LivePages(index),
        capacity=capacity,
        quotas=quotas,
        submission=submission,
        rerun=Rerun(storage.jobs, storage.artifacts, submission, settings.work_dir),
        control=JobControl(
            storage, queue, feeds.until_ended, partial(forget_webhooks, bus), quotas.keep_audio
        ),
        reading=stored.reading,
    )
    return Core(
        service=service,
        stages=stages,
        queue=queue,
        readiness=readiness,
        quotas=quotas,
        quota_store=quota_store,
        replays=replays,
        runner=Runner(storage, settings, queue, pipeline, readiness, dedup, replays, quotas),
        collection_queue=collection_queue,
        deliveries=deliveries,
        search=stored.search,
        types=types,
        tasks=tasks,
        task_control=task_control,
        exchange=exchange,
    )


@dataclass(frozen=True, slots=True)
class Collections:
    """The service of collections, and what other rooms need besides."""

    service: CollectionServicer
    worker: CollectionWorker
    task_workers: TaskWorkers
    records: CollectionStore


def build_collections(core: Core) -> Collections:
    """Builds everything a collection needs."""
    jobs, queue = core.service, core.collection_queue
    storage, settings = jobs.storage, jobs.settings
    records, index = CollectionStore(storage.bus), CollectionIndex(jobs.index)
    feeds = FeedPool(partial(CollectionFeed, storage.bus, storage.event_logs, jobs.index.progress))
    projections = Projections(storage.event_logs, records)
    dependencies = Dependencies(
        storage=storage,
        records=records,
        index=index,
        job_index=jobs.index,
        submission=jobs.submission,
        control=jobs.control,
        capacity=jobs.capacity,
        lister=Lister(core.stages, core.readiness, settings),
        tasks=core.tasks,
        task_control=core.task_control,
        sent_files=SentFiles(storage.artifacts, settings.work_dir),
        executor_margin_seconds=settings.executor_margin_seconds,
    )
    documents = Documents(storage.event_logs)
    engine = Engine(
        core.tasks,
        settings,
        jobs.capacity,
        TaskInputs(projections, storage.patient_artifacts, documents),
        core.exchange,
    )
    service = CollectionServicer(
        index=index,
        live_pages=jobs.live_pages,
        feeds=feeds,
        submission=CollectionSubmission(
            storage,
            records,
            queue,
            settings,
            jobs.capabilities,
            jobs.capacity,
            jobs.quotas,
            partial(check_specs, core.types),
        ),
        reading=CollectionReader(storage.bus, records, projections, jobs.index),
        control=CollectionControl(
            storage.bus,
            records,
            queue,
            feeds,
            index,
            projections,
            jobs.control,
            core.task_control,
        ),
        reporting=Reports(projections.read, storage.jobs, jobs.reading),
        subtasks=SubtaskReader(records, projections, documents, storage.artifacts),
    )
    return Collections(
        service,
        CollectionWorker(dependencies, settings),
        TaskWorkers(engine, core.types, core.task_control),
        records,
    )


def build_maintenance(
    core: Core, collections: Collections, audit: Audit, login: Login, registry: Registry
) -> tuple[AdminServicer, Housekeeper]:
    """Builds the engines of operators: statistics, health, dead letters, removal of any kind."""
    jobs = core.service
    storage, settings, bus = jobs.storage, jobs.settings, jobs.storage.bus
    inventory = Inventory(bus)
    orphans = Orphans(storage, collections.records, inventory, settings, core.tasks.records)
    owners, collection_control = OwnerStore(bus), collections.service.control
    retention = Retention(storage, inventory, jobs.index, jobs.control, collection_control, owners)
    eviction = Eviction(storage, inventory, settings, jobs.capacity, retention, core.tasks.index)
    erasure = Erasure(
        storage=storage,
        settings=settings,
        index=jobs.index,
        control=jobs.control,
        collections=collection_control,
        inventory=inventory,
        overwriter=Overwriter(bus, inventory),
        login=login,
        owners=owners,
        quotas=core.quota_store,
        audit=audit,
        compaction=Compaction(bus),
        scrub_search=core.search.follower.scrub,
        tasks=core.tasks.index,
    )
    log_files = LogFiles(Path(settings.log_dir) if settings.log_dir else None)
    admin = AdminServicer(
        stats=partial(stats.count, bus, jobs.index, core.queue),
        health=partial(health.look, settings, bus, core.stages),
        dead_letters=storage.dead_letters,
        replays=core.replays,
        deliveries=core.deliveries,
        retention=retention,
        log_files=log_files,
        factory_reset=FactoryReset(
            bus,
            settings,
            jobs.control,
            core.queue,
            orphans,
            inventory,
            collection_control,
            log_files,
            core.search.follower.scrub,
        ),
        erasure=erasure,
        exports=OwnerExports(
            storage,
            jobs.index,
            collections.service.index,
            jobs.reading,
            login,
            owners,
            core.quota_store,
            audit,
            core.tasks,
        ),
        owners=owners,
        types=registry,
        task_load=core.tasks.queue.waiting,
        limits=stats.limits_of(settings),
        audit=audit,
    )
    return admin, Housekeeper(retention, eviction, orphans, erasure, settings.retention_hours)


def build_login(settings: Settings, bus: Bus, provider: Provider | None) -> Login:
    """Builds the login; reads the file of the first token."""
    return Login(
        TokenStore(bus),
        on=settings.login,
        first_token=read_token(settings.token_file) if settings.token_file else "",
        session_time=timedelta(hours=settings.session_hours),
        oidc=Oidc(provider, settings) if provider else None,
    )


def services_of(  # noqa: PLR0913 # one for each service, and what guards them
    jobs: PipelineServicer,
    admin: AdminServicer,
    collections: CollectionServicer,
    search: CaptionSearch,
    guard: Guard,
    login: Login,
) -> list[Service]:
    """What clients do with jobs and with collections, and what operators do; behind one guard."""
    services = [
        Service.of(
            pipeline_service_pb2.DESCRIPTOR.services_by_name["PipelineService"],
            pipeline_service_pb2_grpc.add_PipelineServiceServicer_to_server,
            jobs,
            let_go=jobs.live_pages.close,
        ),
        Service.of(
            admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"],
            admin_service_pb2_grpc.add_AdminServiceServicer_to_server,
            admin,
        ),
        Service.of(
            collection_service_pb2.DESCRIPTOR.services_by_name["CollectionService"],
            collection_service_pb2_grpc.add_CollectionServiceServicer_to_server,
            collections,
        ),
        Service.of(
            auth_service_pb2.DESCRIPTOR.services_by_name["AuthService"],
            auth_service_pb2_grpc.add_AuthServiceServicer_to_server,
            AuthServicer(login),
        ),
        Service.of(
            quota_service_pb2.DESCRIPTOR.services_by_name["QuotaService"],
            quota_service_pb2_grpc.add_QuotaServiceServicer_to_server,
            QuotaServicer(jobs.quotas),
        ),
        Service.of(
            search_service_pb2.DESCRIPTOR.services_by_name["SearchService"],
            search_service_pb2_grpc.add_SearchServiceServicer_to_server,
            SearchServicer(search),
        ),
    ]
    return [replace(service, guard=guard) for service in services]
