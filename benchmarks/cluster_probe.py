"""How long the brokers themselves answered nothing: the least any service on them must wait."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from time import monotonic

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError

from benchmarks.cluster_brokers import Brokers
from mesh.stores import Names
from mesh.tasks import stop

ANSWER_SECONDS = 1.0
PAUSE_SECONDS = 0.1


class Probe:
    """Asks the leaders of the streams that accepting a job needs, through every broker."""

    def __init__(self, clients: Sequence[Client], prefix: str) -> None:
        names = Names(prefix)
        self._clients = clients
        self._streams = (f"KV_{names.jobs_bucket}", names.work_stream)
        self.answers: list[float] = [monotonic()]
        """When all of these streams had a leader that answered."""

    async def run(self) -> None:
        """Asks again and again until cancelled."""
        while True:
            at = monotonic()
            if all(await asyncio.gather(*map(self._answers, self._streams))):
                self.answers += [at, monotonic()]
            await asyncio.sleep(PAUSE_SECONDS)

    async def _answers(self, stream: str) -> bool:
        asked = [asyncio.create_task(_ask(client, stream)) for client in self._clients]
        try:
            for each in asyncio.as_completed(asked):
                if await each:
                    return True
            return False
        finally:
            await stop(*asked)


async def _ask(client: Client, stream: str) -> bool:
    if not client.is_connected:
        return False
    try:
        await client.jetstream(timeout=ANSWER_SECONDS).get_msg(
            stream, seq=1, next=True, subject=">"
        )
    except NotFoundError:
        return True
    except (NatsError, OSError, TimeoutError):
        return False
    return True


@asynccontextmanager
async def probing(brokers: Brokers, prefix: str) -> AsyncIterator[Probe]:
    """Probes inside this block."""
    async with AsyncExitStack() as stack:
        clients = []
        for node in brokers.nodes:
            client = Client()
            await client.connect(
                node.url,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.2,  # type: ignore[arg-type] # a part of a second works
                error_cb=_ignored,
            )
            stack.push_async_callback(_close, client)
            clients.append(client)
        probe = Probe(clients, prefix)
        running = asyncio.create_task(probe.run())
        stack.push_async_callback(stop, running)
        yield probe


async def _ignored(_: Exception) -> None:
    """A broker that is away is what the probe is for."""


async def _close(client: Client) -> None:
    with suppress(NatsError, OSError):
        await client.close()
