"""A collector of blogs: reads an RSS or Atom feed, or a page with articles, and yields documents.

python escavador.py [HOST:PORT]
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import grpc
from leitura import Entry, feed_address, read_entries

from ytcaption.v1 import collector_service_pb2 as pb
from ytcaption.v1 import collector_service_pb2_grpc as rpc
from ytcaption.v1 import task_pb2

TYPE = "blog"
MAX_BYTES = 8 * 1024 * 1024
MAX_TEXT_BYTES = 512 * 1024
READ_SECONDS = 30

DESCRIPTION = task_pb2.TypeDescription(summary="Articles of a blog, by its feed or its page.")
DESCRIPTION.parameters_schema.update(
    {
        "type": "object",
        "properties": {"endereco": {"type": "string", "pattern": "^https?://"}},
        "required": ["endereco"],
        "additionalProperties": False,
    }
)


class EscavadorBlog(rpc.CollectorServiceServicer):
    """Serves the one type."""

    async def Describe(  # noqa: N802
        self, request: pb.CollectorServiceDescribeRequest, context: Any
    ) -> pb.CollectorServiceDescribeResponse:
        """What it serves, and how its parameters look."""
        return pb.CollectorServiceDescribeResponse(types={TYPE: DESCRIPTION})

    async def Collect(  # noqa: N802
        self, request: pb.CollectRequest, context: Any
    ) -> AsyncIterator[pb.CollectResponse]:
        """Every article of the wanted days, each with its address as key."""
        address = str(request.parameters["endereco"])
        try:
            page = await asyncio.to_thread(fetch, address)
            if found := feed_address(page, address):  # a page that names its feed
                page = await asyncio.to_thread(fetch, found)
        except HTTPError as error:
            gone = error.code in (401, 403, 404, 410)
            code = grpc.StatusCode.NOT_FOUND if gone else grpc.StatusCode.UNAVAILABLE
            await context.abort(code, f"{address} answers {error.code}")
        except (URLError, TimeoutError) as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"{address}: {error}")
        entries = [one for one in read_entries(page, address) if wanted(one, request)]
        for done, entry in enumerate(entries[: request.max_items or None], start=1):
            yield pb.CollectResponse(key=entry.url, document=document(entry))
            yield pb.CollectResponse(progress=pb.TaskProgress(done=done, total=len(entries)))


def fetch(address: str) -> bytes:
    """The page; larger ones are cut."""
    request = Request(address, headers={"User-Agent": "escavador_blog"})  # noqa: S310
    with urlopen(request, timeout=READ_SECONDS) as answer:  # noqa: S310 # the schema wants http
        return bytes(answer.read(MAX_BYTES))


def wanted(entry: Entry, request: pb.CollectRequest) -> bool:
    """Whether it was published in the wanted days; YYYY-MM-DD sorts."""
    if not (request.from_date or request.to_date):
        return True
    first, last = request.from_date or "0000", request.to_date or "9999"
    return bool(entry.day) and first <= entry.day <= last


def document(entry: Entry) -> task_pb2.Document:
    """The article as the contract has it."""
    text = entry.text.encode()[:MAX_TEXT_BYTES].decode(errors="ignore")
    return task_pb2.Document(
        url=entry.url,
        title=entry.title[:1000],
        text=text,
        language=entry.language,
        publish_date=entry.day,
    )


async def main(listen: str) -> None:
    """Serves until it is stopped."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    rpc.add_CollectorServiceServicer_to_server(EscavadorBlog(), server)
    server.add_insecure_port(listen)
    await server.start()
    print(f"serving {TYPE} on {listen}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7001"))
