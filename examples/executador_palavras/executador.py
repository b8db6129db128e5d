"""An executor that counts the words of everything that was collected, and makes a table of them.

python executador.py [HOST:PORT]
"""

import asyncio
import csv
import io
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import grpc

from ytcaption.v1 import collector_service_pb2, task_pb2
from ytcaption.v1 import executor_service_pb2 as pb
from ytcaption.v1 import executor_service_pb2_grpc as rpc

KIND = "palavras"
CHUNK = 64 * 1024
USUAL = 1000

DESCRIPTION = task_pb2.TypeDescription(
    summary="How often each word occurs, as a table.",
    preferred_scope=task_pb2.EXECUTOR_SCOPE_COLLECTION,
    scopes=[task_pb2.EXECUTOR_SCOPE_ITEM, task_pb2.EXECUTOR_SCOPE_COLLECTION],
)
DESCRIPTION.parameters_schema.update(
    {
        "type": "object",
        "properties": {"limite": {"type": "integer", "minimum": 1, "maximum": 100_000}},
        "additionalProperties": False,
    }
)


class ExecutadorPalavras(rpc.ExecutorServiceServicer):
    """Makes the one kind of result."""

    async def Describe(  # noqa: N802
        self, request: pb.ExecutorServiceDescribeRequest, context: Any
    ) -> pb.ExecutorServiceDescribeResponse:
        """What it makes, and what it needs: text is enough."""
        return pb.ExecutorServiceDescribeResponse(kinds={KIND: DESCRIPTION})

    async def Execute(  # noqa: N802
        self, requests: AsyncIterator[pb.ExecuteRequest], context: Any
    ) -> AsyncIterator[pb.ExecuteResponse]:
        """Counts while the texts arrive, then sends the file, then the result."""
        words: Counter[str] = Counter()
        limit, items = USUAL, 0
        async for request in requests:
            if request.HasField("start"):
                given: dict[str, Any] = dict(request.start.parameters)
                limit = int(given.get("limite", USUAL))
            text = request.segments.text or request.document.text
            words.update(re.findall(r"\w+", text.lower()))
            if request.HasField("member") or request.HasField("document"):
                items += 1
                progress = collector_service_pb2.TaskProgress(done=items, note="counting")
                yield pb.ExecuteResponse(progress=progress)
        content = table(words.most_common(limit))
        file = task_pb2.ResultFile(name="palavras.csv", media_type="text/csv; charset=utf-8")
        yield pb.ExecuteResponse(file=file)
        for start in range(0, len(content), CHUNK):
            yield pb.ExecuteResponse(chunk=content[start : start + CHUNK])
        result = pb.ExecuteResponse()
        result.result.update({"itens": items, "palavras": words.total(), "distintas": len(words)})
        yield result


def table(counted: list[tuple[str, int]]) -> bytes:
    """The words as CSV, the most frequent first."""
    written = io.StringIO()
    csv.writer(written).writerows([("palavra", "vezes"), *counted])
    return written.getvalue().encode()


async def main(listen: str) -> None:
    """Serves until it is stopped."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    rpc.add_ExecutorServiceServicer_to_server(ExecutadorPalavras(), server)
    server.add_insecure_port(listen)
    await server.start()
    print(f"serving {KIND} on {listen}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7002"))
