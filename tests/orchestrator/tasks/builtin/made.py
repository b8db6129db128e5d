"""What a built-in executor made."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.json_format import MessageToDict

from mesh.frames import MAX_FRAME_BYTES
from orchestrator.tasks.types import Executor
from tests.orchestrator.tasks.services import struct
from ytcaption.v1 import collection_pb2
from ytcaption.v1 import executor_service_pb2 as pb


@dataclass
class Made:
    """Its files by name, and its result."""

    files: dict[str, bytes] = field(default_factory=dict)
    media_types: dict[str, str] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)


async def made_by(
    executor: Executor,
    parts: Sequence[pb.ExecuteRequest],
    parameters: dict[str, Any] | None = None,
    collection: collection_pb2.Collection | None = None,
) -> Made:
    async def items() -> AsyncIterator[pb.ExecuteRequest]:
        for part in parts:
            yield part

    start = pb.ExecuteStart(parameters=struct(parameters or {}), collection=collection)
    made, name, ended = Made(), "", False
    async with aclosing(executor.execute(start, items())) as answers:
        async for answer in answers:
            assert not ended
            kind = answer.WhichOneof("event")
            if kind == "file":
                name = answer.file.name
                assert name not in made.files
                made.files[name], made.media_types[name] = b"", answer.file.media_type
            elif kind == "chunk":
                assert 0 < len(answer.chunk) <= MAX_FRAME_BYTES
                made.files[name] += answer.chunk
            elif kind == "result":
                made.result, ended = MessageToDict(answer.result), True
    assert ended
    return made
