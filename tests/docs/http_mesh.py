"""The mesh behind docs/http.md: a separate orchestrator on the stages of the shared real mesh."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any

import httpx2
from pydantic import SecretStr

from cli.local.mesh import STAGES
from mesh.addresses import free_ports
from mesh.server import running_server
from mesh.tokens import write_token
from orchestrator.settings import Settings
from orchestrator.wiring import assembled
from tests.conftest import DATA, RealMesh
from tests.orchestrator.webhooks.receiver import SECRET, Receiver, receiving
from tests.support.broker import running_broker
from tests.support.http import running_gateway
from tests.support.site import serving

STORAGE = 256 * 1024**2
RECORDINGS = {
    "talk.ogg": "short.ogg",
    "conversa.ogg": "portuguese.ogg",
    "lecture.ogg": "sample.ogg",
}
"""The page's names of recordings, and the test data behind them."""
SHOWN_TOKEN = (
    "ytc_1b5d3e0a92c47f86_"  # noqa: S105 # of no mesh
    "5f0c1c9a6e3b7d2481f6a09c3e5b7d1284c6f0a9e3d5b7c1428f6a0c9e3b5d71"
)
MIB = 1024**2
FEED = """<rss version="2.0"><channel><title>Show</title><item><title>First</title>
<enclosure url="{site}/files/talk.ogg" type="audio/ogg"/></item></channel></rss>"""


@dataclass(frozen=True, slots=True)
class Documented:
    """Everything that is running, and where."""

    places: dict[str, str]
    """Addresses on the page, and the real ones."""
    folder: Path
    """The folder with the files that commands upload."""
    receiver: Receiver
    """Receives the webhooks."""


@asynccontextmanager
async def documented_mesh(real_mesh: RealMesh, folder: Path) -> AsyncIterator[Documented]:
    """Runs an orchestrator without other jobs, gateways, a site and a webhook receiver."""
    recordings = folder / "recordings"
    recordings.mkdir()
    for name, source in RECORDINGS.items():
        copyfile(DATA / source, recordings / name)
    token = write_token(folder / "token")
    (recordings / "large.json").write_bytes(b" " * (MIB + 1))
    async with AsyncExitStack() as stack:
        orchestrator = await stack.enter_async_context(_orchestrator(real_mesh, folder))
        guarded = await stack.enter_async_context(
            _orchestrator(
                real_mesh, folder / "guarded", login=True, token_file=str(folder / "token")
            )
        )
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
                "localhost:8003": await gateway(orchestrator=guarded),
                SHOWN_TOKEN: token,
                "localhost:8002": await gateway(orchestrator=f"127.0.0.1:{free_ports(1)[0]}"),
                "https://example.org": site.url,
                "https://example.com/hook": receiver.url,
            },
            folder=recordings,
            receiver=receiver,
        )


@asynccontextmanager
async def _orchestrator(real_mesh: RealMesh, folder: Path, **changes: Any) -> AsyncIterator[str]:
    """Runs an orchestrator; yields its address."""
    host, _, port = real_mesh.server.partition(":")
    stages: dict[str, Any] = {
        name: f"{host}:{int(port) + more}" for more, name in enumerate(STAGES, 1)
    }
    async with running_broker(folder / "nats") as broker:
        settings = Settings(
            nats_url=broker.url,
            nats_credentials=broker.credentials,
            nats_seconds=60,
            accept_seconds=60,
            storage_bytes=STORAGE,
            work_dir=folder / "work",
            webhook_secret=SecretStr(SECRET),
            webhook_private=True,
            **stages,
            **changes,
        )
        async with (
            assembled(settings) as (services, get_ready),
            running_server(services, grace_seconds=0) as server,
        ):
            await get_ready()
            yield f"127.0.0.1:{server.port}"
