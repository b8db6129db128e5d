"""Runs the orchestrator: `python -m orchestrator`."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from mesh.bus import Bus
from mesh.server import Service
from mesh.service import run_process, serve
from mesh.stores import Limits
from mesh.tasks import stop
from orchestrator import health, stats
from orchestrator.abilities import Abilities
from orchestrator.admin_servicer import AdminServicer
from orchestrator.artifacts import Artifacts
from orchestrator.backstop import Backstop
from orchestrator.cache import Cache
from orchestrator.collections.conductors import Conductors
from orchestrator.collections.control import CollectionControl
from orchestrator.collections.discovery import Lister
from orchestrator.collections.feed import CollectionFeeds
from orchestrator.collections.instruments import Instruments
from orchestrator.collections.ledger import Ledgers
from orchestrator.collections.queue import CollectionQueue
from orchestrator.collections.reading import CollectionReading
from orchestrator.collections.records import CollectionRecords
from orchestrator.collections.reporting import Reporting
from orchestrator.collections.rescue import CollectionRescue
from orchestrator.collections.servicer import CollectionEngines, CollectionServicer
from orchestrator.collections.shelf import CollectionShelf
from orchestrator.collections.submission import Collections
from orchestrator.control import Control
from orchestrator.deadletters import DeadLetters
from orchestrator.feed import Feeds
from orchestrator.gate import Gate
from orchestrator.heralds.herald import Herald
from orchestrator.heralds.inbox import Inbox
from orchestrator.heralds.letters import EventSender
from orchestrator.housekeeping import Housekeeper
from orchestrator.index import JobIndex
from orchestrator.jobs import Jobs
from orchestrator.live_pages import LivePages
from orchestrator.orphans import Orphans
from orchestrator.pipeline import Pipeline
from orchestrator.queue import WorkQueue
from orchestrator.reading import Reading
from orchestrator.repetition import Repetition
from orchestrator.replay import Replays
from orchestrator.rescue import Rescue
from orchestrator.reset import FactoryReset
from orchestrator.room import Room
from orchestrator.runner import Runner
from orchestrator.servicer import Engines, PipelineServicer
from orchestrator.settings import Settings
from orchestrator.shelves import Shelves
from orchestrator.stages import Stages, open_stages, selected_models, stage_stall_seconds
from orchestrator.story import StoryReader
from orchestrator.submission import Submission
from orchestrator.webhooks.deliveries import Deliveries
from orchestrator.webhooks.letters import WebhookReplays
from orchestrator.webhooks.relay import Relay
from orchestrator.webhooks.sender import Sender
from ytcaption.v1 import (
    admin_service_pb2,
    admin_service_pb2_grpc,
    collection_service_pb2,
    collection_service_pb2_grpc,
    job_pb2,
    pipeline_service_pb2,
    pipeline_service_pb2_grpc,
)


async def main(settings: Settings) -> None:
    """Serves until told to stop."""
    async with assembled(settings) as (offered, get_ready):
        await serve(settings, offered, get_ready)


@asynccontextmanager
async def assembled(
    settings: Settings,
) -> AsyncIterator[tuple[list[Service], Callable[[], Awaitable[None]]]]:
    """Everything wired and the runner at work; yields what to serve and how to get ready."""
    settings.work_dir.mkdir(parents=True, exist_ok=True)
    limits = Limits(replicas=settings.replicas, storage_bytes=settings.storage_bytes)
    async with (
        Bus.connected(
            settings.nats_url, prefix=settings.prefix, limits=limits, name="orchestrator"
        ) as bus,
        open_stages(settings) as stages,
        asyncio.TaskGroup() as background,  # if one of them dies, so do we, and are restarted
    ):
        pipeline = Pipeline(
            stages,
            stall_seconds=settings.stall_seconds,
            deadline_seconds=settings.job_seconds,
            stage_stall_seconds=stage_stall_seconds(settings),
        )
        queue = WorkQueue(
            bus,
            ack_wait_seconds=settings.ack_wait_seconds,
            max_deliveries=settings.max_deliveries,
        )
        index = JobIndex(bus)
        live_pages = LivePages(index)
        room = Room(bus, settings)
        gate = Gate(stages, room.until_free)
        cache = Cache(bus, settings, partial(selected_models, stages))
        runner = Runner(bus, settings, queue, pipeline, gate, cache)
        control = Control(bus, Jobs(bus), queue, Feeds(bus))
        orphans = Orphans(bus, Jobs(bus), Shelves(bus), settings)
        instruments = Instruments(
            bus=bus,
            records=CollectionRecords(bus),
            shelf=CollectionShelf(index),
            index=index,
            submission=Submission(bus, Jobs(bus), queue, max_attempts=settings.max_attempts),
            control=control,
            room=room,
            lister=Lister(stages, gate, settings),
        )
        collections = collection_engines(settings, stages, instruments, live_pages)
        housekeeper = Housekeeper(bus, settings, index, control, room, orphans, collections.control)
        factory_reset = FactoryReset(bus, settings, control, queue, orphans, collections.control)
        conductors = Conductors(instruments, settings, CollectionQueue(bus), queue)
        lost_collections = CollectionRescue(instruments.shelf, CollectionQueue(bus))
        herald, inbox = Herald(bus), Inbox(bus, collections.submission)
        relay, sender = Relay(bus), Sender(bus, settings)
        await relay.prepare()
        await herald.prepare()
        work = (
            herald.keep_telling(),
            inbox.keep_receiving(),
            index.keep_warm(),
            live_pages.keep_turning(),
            runner.run(),
            housekeeper.keep_house(),
            Rescue(index, Jobs(bus), queue).keep_looking(),
            Backstop(bus).keep_looking(),
            conductors.run(),
            lost_collections.keep_looking(),
            relay.run(),
            sender.run(),
        )
        tasks = [background.create_task(one) for one in work]
        try:
            offered = services(
                settings,
                bus,
                stages,
                pipeline,
                queue,
                index,
                live_pages,
                room,
                housekeeper,
                factory_reset,
            )
            offered.append(collection_service(collections))
            yield offered, index.catch_up
        finally:
            await stop(*tasks)


def services(  # noqa: PLR0913 # wiring
    settings: Settings,
    bus: Bus,
    stages: Stages,
    pipeline: Pipeline,
    queue: WorkQueue,
    index: JobIndex,
    live_pages: LivePages,
    room: Room,
    housekeeper: Housekeeper,
    factory_reset: FactoryReset,
) -> list[Service]:
    """The gRPC services for jobs and for the people who run the mesh."""
    jobs, feeds, artifacts = Jobs(bus), Feeds(bus), Artifacts(bus)
    submission = Submission(bus, jobs, queue, max_attempts=settings.max_attempts)
    engines = Engines(
        settings=settings,
        abilities=Abilities(stages),
        jobs=jobs,
        index=index,
        live_pages=live_pages,
        feeds=feeds,
        artifacts=artifacts,
        submission=submission,
        control=Control(bus, jobs, queue, feeds),
        reading=Reading(artifacts, StoryReader(bus)),
        pipeline=pipeline,
        room=room,
        repetition=Repetition(jobs, artifacts, submission, room, settings.work_dir),
    )
    admin = AdminServicer(
        stats=partial(stats.count, bus, index, queue),
        health=partial(health.look, settings, bus, stages),
        dead_letters=DeadLetters(bus),
        replays=Replays(
            bus,
            queue,
            max_attempts=settings.max_attempts,
            resend={
                job_pb2.LETTER_KIND_EVENT: EventSender(bus).send,
                job_pb2.LETTER_KIND_WEBHOOK: WebhookReplays(bus).resend,
            },
        ),
        deliveries=Deliveries(bus),
        housekeeper=housekeeper,
        factory_reset=factory_reset,
        limits=stats.limits_of(settings),
    )
    return [
        Service.of(
            pipeline_service_pb2.DESCRIPTOR.services_by_name["PipelineService"],
            pipeline_service_pb2_grpc.add_PipelineServiceServicer_to_server,
            PipelineServicer(engines),
            let_go=live_pages.let_go,
        ),
        Service.of(
            admin_service_pb2.DESCRIPTOR.services_by_name["AdminService"],
            admin_service_pb2_grpc.add_AdminServiceServicer_to_server,
            admin,
        ),
    ]


def collection_engines(
    settings: Settings, stages: Stages, instruments: Instruments, live_pages: LivePages
) -> CollectionEngines:
    """What CollectionService needs; the conductors do the rest."""
    bus, records = instruments.bus, instruments.records
    feeds, ledgers = CollectionFeeds(bus, instruments.index.progress), Ledgers(bus, records)
    captions = Reading(Artifacts(bus), StoryReader(bus))
    return CollectionEngines(
        submission=Collections(bus, settings, Abilities(stages), instruments.room),
        reading=CollectionReading(bus, records, ledgers, instruments.index),
        shelf=instruments.shelf,
        live_pages=live_pages,
        feeds=feeds,
        control=CollectionControl(
            bus, records, CollectionQueue(bus), feeds, instruments.shelf, instruments.control
        ),
        reporting=Reporting(ledgers, Jobs(bus), captions),
    )


def collection_service(engines: CollectionEngines) -> Service:
    """The gRPC service for collections."""
    return Service.of(
        collection_service_pb2.DESCRIPTOR.services_by_name["CollectionService"],
        collection_service_pb2_grpc.add_CollectionServiceServicer_to_server,
        CollectionServicer(engines),
    )


if __name__ == "__main__":
    # A thousand watchers are a great many live objects: looked through as often as usual, for
    # cycles that are not there, they delay events (63 to 53 µs a message in one run of each).
    gc.set_threshold(50_000, 20, 100)
    run_process("orchestrator", Settings, main)
