"""What docs/http.md talks to: a real orchestrator and real stages, with nobody else's jobs."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile

import httpx2
from pydantic import SecretStr

from mesh.addresses import free_ports
from mesh.broker import running_broker
from mesh.server import running_server
from orchestrator.__main__ import assembled
from orchestrator.settings import Settings
from tests.conftest import DATA, RealMesh
from tests.gateway.http import running_gateway
from tests.orchestrator.webhooks.receiver import SECRET, Receiver, receiving
from tests.site import serving

STORAGE = 256 * 1024**2
RECORDINGS = {
    "talk.ogg": "short.ogg",
    "conversa.ogg": "portuguese.ogg",
    "lecture.ogg": "sample.ogg",
}
"""By the names the page gives them."""
MIB = 1024**2
FEED = """<rss version="2.0"><channel><title>Show</title><item><title>First</title>
<enclosure url="{site}/files/talk.ogg" type="audio/ogg"/></item></channel></rss>"""


@dataclass(frozen=True, slots=True)
class Documented:
    """Everything that runs."""

    places: dict[str, str]
    """What the page calls an address, and what it is here."""
    folder: Path
    """Where the reader's files are."""
    receiver: Receiver
    """Who is told by webhook."""


@asynccontextmanager
async def documented_mesh(real_mesh: RealMesh, folder: Path) -> AsyncIterator[Documented]:
    """An orchestrator of its own, before the stages of the mesh that runs anyway."""
    recordings = folder / "recordings"
    recordings.mkdir()
    for name, source in RECORDINGS.items():
        copyfile(DATA / source, recordings / name)
    (recordings / "large.json").write_bytes(b" " * (MIB + 1))
    async with AsyncExitStack() as stack:
        orchestrator = await stack.enter_async_context(_orchestrator(real_mesh, folder))
        site = stack.enter_context(serving(recordings))
        site.page("/show/feed.xml", FEED.format(site=site.url).encode(), "application/rss+xml")
        receiver = await stack.enter_async_context(receiving())

        async def gateway(**settings: object) -> str:
            client: httpx2.AsyncClient = await stack.enter_async_context(
                running_gateway(**settings)
            )
            return client.base_url.netloc.decode()

        yield Documented(
            places={
                "localhost:8000": await gateway(orchestrator=orchestrator),
                "localhost:8001": await gateway(
                    orchestrator=orchestrator, rate_per_second=0.01, rate_burst=1
                ),
                "localhost:8002": await gateway(orchestrator=f"127.0.0.1:{free_ports(1)[0]}"),
                "https://example.org": site.url,
                "https://example.com/hook": receiver.url,
            },
            folder=recordings,
            receiver=receiver,
        )


@asynccontextmanager
async def _orchestrator(real_mesh: RealMesh, folder: Path) -> AsyncIterator[str]:
    """Its address."""
    host, _, port = real_mesh.server.partition(":")
    downloader, normalizer, transcriber = (f"{host}:{int(port) + more}" for more in (1, 2, 3))
    async with running_broker(folder / "nats") as broker:
        settings = Settings(
            nats_url=broker.url,
            storage_bytes=STORAGE,
            work_dir=folder / "work",
            webhook_secret=SecretStr(SECRET),
            webhook_private=True,
            downloader=downloader,
            normalizer=normalizer,
            transcriber=transcriber,
        )
        async with (
            assembled(settings) as (services, get_ready),
            running_server(services, grace_seconds=0) as server,
        ):
            await get_ready()
            yield f"127.0.0.1:{server.port}"
