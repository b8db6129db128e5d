"""Tries a mesh as another user of the machine: `python -m tests.support.another_user TARGETS`.

Everything is imported before the process becomes that user, who may not be able to read it.
"""

import asyncio
import encodings.idna  # noqa: F401 # or it is looked for by a user who cannot read it
import http.client
import json
import os
import sys
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

import grpc
import nats

from mesh.status import reason_of
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import downloader_service_pb2_grpc as downloader_rpc
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import normalizer_service_pb2_grpc as normalizer_rpc
from ytcaption.v1 import pipeline_service_pb2 as pipeline_pb
from ytcaption.v1 import pipeline_service_pb2_grpc as pipeline_rpc
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb
from ytcaption.v1 import transcriber_service_pb2_grpc as transcriber_rpc

NOBODY = 65534
SECONDS = 60
SERVED = "served"


async def _call(address: str, service: str) -> str:
    """The reason of the refusal of a call that takes no argument."""
    async with grpc.aio.insecure_channel(address) as channel:
        calls: Mapping[str, Any] = {
            "orchestrator": lambda: pipeline_rpc.PipelineServiceStub(channel).ListJobs(
                pipeline_pb.ListJobsRequest(), timeout=SECONDS
            ),
            "downloader": lambda: downloader_rpc.DownloaderServiceStub(channel).Purge(
                downloader_pb.DownloaderServicePurgeRequest(), timeout=SECONDS
            ),
            "normalizer": lambda: normalizer_rpc.NormalizerServiceStub(channel).Purge(
                normalizer_pb.NormalizerServicePurgeRequest(), timeout=SECONDS
            ),
            "transcriber": lambda: transcriber_rpc.TranscriberServiceStub(channel).ListModels(
                transcriber_pb.ListModelsRequest(), timeout=SECONDS
            ),
        }
        made: Awaitable[object] = calls[service]()
        try:
            await made
        except grpc.aio.AioRpcError as error:
            return reason_of(error) or error.code().name
    return SERVED


def _get(address: str, path: str) -> int:
    connection = http.client.HTTPConnection(address, timeout=SECONDS)
    connection.request("GET", path)
    return connection.getresponse().status


async def _connect(address: str) -> str:
    try:
        client = await nats.connect(
            f"nats://{address}", allow_reconnect=False, connect_timeout=SECONDS
        )
    except nats.errors.Error as error:
        return str(error)
    await client.close()
    return SERVED


def _read(path: str) -> str:
    try:
        Path(path).read_bytes()
    except PermissionError:
        return "forbidden"
    return SERVED


async def main(targets: Mapping[str, Any]) -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    found = {
        "grpc": {name: await _call(one, name) for name, one in targets["grpc"].items()},
        "http": {path: _get(targets["http"], path) for path in ("/jobs", "/metrics", "/live")},
        "metrics": [_get(one, "/metrics") for one in targets["metrics"]],
        "nats": await _connect(targets["nats"]),
        "files": [_read(one) for one in targets["files"]],
        "uid": os.getuid(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
