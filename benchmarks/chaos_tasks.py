"""A collection with collectors and executors in the chaos, as the original document has it.

A built-in collector and executor, third parties over gRPC that are killed, a collector that never
answers, and a deadline.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any
from xml.sax.saxutils import escape

import grpc
import nats
from google.protobuf.duration_pb2 import Duration

from benchmarks.chaos_caller import CALL_SECONDS, Caller, stubbornly
from benchmarks.chaos_collection import Differs, Gathering
from benchmarks.chaos_mesh import UpMesh
from benchmarks.chaos_sources import make_feed
from benchmarks.chaos_strangers import (
    COLLECTOR_PROGRAM,
    EXECUTOR_PROGRAM,
    Strangers,
    running_strangers,
)
from benchmarks.chaos_subtasks import REPORT, SILENT, WORDS, TasksEvidence
from benchmarks.recording import served
from mesh import broker
from mesh.credentials import seed_file
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import collection_pb2, task_pb2
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1.admin_service_pb2_grpc import AdminServiceStub
from ytcaption.v1.collection_service_pb2_grpc import CollectionServiceStub

BLOG = "blog"
FEEDS = 6
POSTS = 6
"""Of each feed."""
POST_WORDS = 700
FEED_BYTES_PER_SECOND = 6_000
"""A feed of 36 KB takes five seconds, so that kills hit collectors in the middle of work."""
BLOGS_AT_ONCE = 2
PUBLISHED_SECONDS = 60
QUIET_SECONDS = 3
LIST = "recordings.xml"
MOST_ROWS = 100_000
"""Of the table of words: all of them."""


async def register_types(admin: AdminServiceStub, strangers: Strangers) -> None:
    """The programs by their addresses, and a type behind a queue that no program reads."""
    for name, role, address, at_once in (
        (BLOG, task_pb2.TASK_ROLE_COLLECTOR, strangers.address(COLLECTOR_PROGRAM), BLOGS_AT_ONCE),
        (WORDS, task_pb2.TASK_ROLE_EXECUTOR, strangers.address(EXECUTOR_PROGRAM), 1),
        (SILENT, task_pb2.TASK_ROLE_COLLECTOR, "", 1),
    ):
        transport = task_pb2.TASK_TRANSPORT_GRPC if address else task_pb2.TASK_TRANSPORT_QUEUE
        request = admin_pb.RegisterTypeRequest(
            type=name,
            role=role,
            transport=transport,
            addresses=[address] if address else [],
            max_in_flight=at_once,
        )
        await admin.RegisterType(request, timeout=CALL_SECONDS)


def make_posts(folder: Path, site: str) -> dict[str, str]:
    """Writes the feeds; returns the texts of all posts by address."""
    posts = {}
    for feed in range(FEEDS):
        items = []
        for number in range(POSTS):
            address = f"{site}/post-{feed}-{number}"
            words = (f"palavra{(feed * 31 + number * 7 + at) % 200}" for at in range(POST_WORDS))
            posts[address] = " ".join(words)
            items.append(
                f"<item><title>Post {feed}-{number}</title><link>{escape(address)}</link>"
                f"<description>{posts[address]}</description></item>"
            )
        rss = f'<?xml version="1.0"?><rss version="2.0"><channel>{"".join(items)}</channel></rss>'
        (folder / _feed_name(feed)).write_text(rss, encoding="utf-8")
    return posts


def _feed_name(feed: int) -> str:
    return f"blog-{feed}.xml"


@dataclass(slots=True)
class TaskGathering:
    """The one collection, from its request to all that can be known of it at the end."""

    mesh: UpMesh
    collections: CollectionServiceStub
    gathering: Gathering
    request: pb.CreateCollectionRequest
    recordings: Sequence[str]
    posts: dict[str, str]

    async def evidence(self, differs: Differs) -> TasksEvidence:
        """All there is to know of it, asked anew."""
        collection = collection_pb2.Collection()
        members: list[collection_pb2.Member] = []
        subtasks: list[task_pb2.Subtask] = []
        if self.gathering.collection_id:  # else it was never accepted
            collection, members = await self.gathering.members()
            subtasks = await self._subtasks()
        settled = collection.settled
        heard = [await self.gathering.judged(one, differs) for one in members if one.job_id]
        return TasksEvidence(
            asked=self.request,
            recordings=self.recordings,
            posts=self.posts,
            collection=collection,
            members=members,
            subtasks=subtasks,
            documents=await self._documents() if settled else [],
            files={
                (one.number, file.name): await self._file(one.number, file.name)
                for one in subtasks
                for file in one.files
            },
            report=await self._report() if settled else {},
            published=await self._published() if settled else [],
            newest=await self.gathering.newest() if settled else [],
            seen=self.gathering.seen,
            second_results=sum(one.ran_twice for one in heard),
            differing=sum(one.differs for one in heard),
        )

    async def _subtasks(self) -> list[task_pb2.Subtask]:
        found: list[task_pb2.Subtask] = []
        token = ""
        while True:
            request = pb.ListSubtasksRequest(
                collection_id=self.gathering.collection_id, page_size=200, page_token=token
            )
            page = await stubbornly(_asking(self.collections.ListSubtasks, request))
            found += page.subtasks
            token = page.next_page_token
            if not token:
                return found

    async def _documents(self) -> list[task_pb2.Document]:
        found: list[task_pb2.Document] = []
        token = ""
        while True:
            request = pb.ListDocumentsRequest(
                collection_id=self.gathering.collection_id, page_size=200, page_token=token
            )
            page = await stubbornly(_asking(self.collections.ListDocuments, request))
            found += page.documents
            token = page.next_page_token
            if not token:
                return found

    async def _file(self, subtask: int, name: str) -> bytes:
        request = pb.GetResultFileRequest(
            collection_id=self.gathering.collection_id, subtask=subtask, name=name
        )
        return await stubbornly(_reading(self.collections.GetResultFile, request))

    async def _report(self) -> dict[str, Any]:
        request = pb.GetReportRequest(
            collection_id=self.gathering.collection_id, format=pb.REPORT_FORMAT_JSON
        )
        found: dict[str, Any] = json.loads(
            await stubbornly(_reading(self.collections.GetReport, request))
        )
        return found

    async def _published(self) -> list[dict[str, Any]]:
        """Every aggregate of it in the outbox, as a listener with a durable consumer reads them."""
        found: list[dict[str, Any]] = []
        key = seed_file(self.mesh.data_dir / "nats" / broker.CREDENTIALS, "listener")
        client = await nats.connect(f"nats://127.0.0.1:{self.mesh.nats_port}", nkeys_seed=str(key))
        try:
            outbox = await client.jetstream().pull_subscribe_bind("listener", stream="YTC_OUTBOX")
            deadline = monotonic() + PUBLISHED_SECONDS
            while monotonic() < deadline:
                try:
                    [message] = await outbox.fetch(1, timeout=QUIET_SECONDS)
                except TimeoutError:  # nats' own is one, too
                    if found and found[-1]["payload"]["definitivo"]:
                        break
                    continue
                await message.ack()
                event = json.loads(message.data)
                about = event["payload"].get("collection_id")
                if message.subject == "ytc.out.resultado_agregado" and (
                    about == self.gathering.collection_id
                ):
                    found.append(event)
        finally:
            await client.close()
        return found


def _asking(call: Any, request: Any) -> Callable[[], Awaitable[Any]]:
    async def ask() -> Any:
        return await call(request, timeout=CALL_SECONDS)

    return ask


def _reading(call: Any, request: Any) -> Callable[[], Awaitable[bytes]]:
    async def read() -> bytes:
        stream = call(request, timeout=CALL_SECONDS)
        try:
            return b"".join([frame.chunk async for frame in stream])
        finally:
            stream.cancel()

    return read


@asynccontextmanager
async def prepared_tasks(  # noqa: PLR0913 # where its parts are
    mesh: UpMesh,
    channel: grpc.aio.Channel,
    jobs: Caller,
    *,
    site: str,
    files: Sequence[Path],
    folder: Path,
    deadline_seconds: float,
) -> AsyncIterator[tuple[TaskGathering, Strangers]]:
    """The collection, and the programs it needs, registered and kept running until the end.

    It has a feed of these files of the site, blogs, a collector that never answers, and executors.
    """
    addresses = [f"{site}/{file.name}" for file in files]
    make_feed(addresses, files[0].with_name(LIST))
    blogs = folder / "blogs"
    blogs.mkdir()
    async with running_strangers(folder / "strangers") as strangers:
        with served(blogs, bytes_per_second=FEED_BYTES_PER_SECOND) as blog_site:
            posts = await asyncio.to_thread(make_posts, blogs, blog_site)
            await register_types(AdminServiceStub(channel), strangers)
            request = _request(f"{site}/{LIST}", blog_site, deadline_seconds)
            collections = CollectionServiceStub(channel)
            gathering = Gathering(collections, jobs, request, addresses)
            yield TaskGathering(mesh, collections, gathering, request, addresses, posts), strangers


def _request(recordings: str, blogs: str, deadline_seconds: float) -> pb.CreateCollectionRequest:
    return pb.CreateCollectionRequest(
        source_specs=[
            _source("url", url=recordings),
            *(_source(BLOG, endereco=f"{blogs}/{_feed_name(feed)}") for feed in range(FEEDS)),
            _source(SILENT),
        ],
        executors=[
            _executor(WORDS, task_pb2.EXECUTOR_SCOPE_ITEM, limite=MOST_ROWS),
            _executor(WORDS, task_pb2.EXECUTOR_SCOPE_COLLECTION, limite=MOST_ROWS),
            _executor(REPORT, task_pb2.EXECUTOR_SCOPE_COLLECTION, formato="json"),
        ],
        timeout=Duration(seconds=round(deadline_seconds)),
        force=True,
    )


def _source(type_: str, **parameters: Any) -> task_pb2.SourceSpec:
    spec = task_pb2.SourceSpec(type=type_)
    spec.parameters.update(parameters)
    return spec


def _executor(
    kind: str, scope: "task_pb2.ExecutorScope.ValueType", **parameters: Any
) -> task_pb2.ExecutorSpec:
    spec = task_pb2.ExecutorSpec(kind=kind, scope=scope)
    spec.parameters.update(parameters)
    return spec
