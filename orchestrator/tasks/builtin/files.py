"""How built-in executors answer: files in frames, then one result."""

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct

from mesh.frames import MAX_FRAME_BYTES
from ytcaption.v1 import executor_service_pb2 as pb
from ytcaption.v1 import task_pb2


def begin_of(name: str, media_type: str) -> pb.ExecuteResponse:
    """The begin of a file."""
    return pb.ExecuteResponse(file=task_pb2.ResultFile(name=name, media_type=media_type))


def frames_of(content: bytes) -> Iterator[pb.ExecuteResponse]:
    """Bytes of a file, in frames."""
    for start in range(0, len(content), MAX_FRAME_BYTES):
        yield pb.ExecuteResponse(chunk=content[start : start + MAX_FRAME_BYTES])


def result_of(values: Mapping[str, Any]) -> pb.ExecuteResponse:
    """The result."""
    return pb.ExecuteResponse(result=ParseDict(dict(values), Struct()))
