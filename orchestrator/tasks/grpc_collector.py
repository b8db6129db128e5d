"""A collector that is a service of its own, called over gRPC."""

from collections.abc import AsyncGenerator, Mapping
from hashlib import sha256

import grpc

from mesh.correlation import metadata_of
from orchestrator.tasks.remote import MAX_CHUNK_BYTES, Remote, bytes_of, too_large
from ytcaption.v1 import collector_service_pb2 as pb
from ytcaption.v1 import collector_service_pb2_grpc as rpc
from ytcaption.v1 import task_pb2

SERVICE = "ytcaption.v1.CollectorService"
DESCRIBE_SECONDS = 10.0
MAX_KEY = MAX_ADDRESS = 2048
MAX_TITLE = 1000
MAX_FILE_NAME = 255
MAX_TEXT_BYTES = 512 * 1024


class GrpcCollector:
    """Finds what a service finds; fulfils `Collector`."""

    def __init__(self, channel: grpc.aio.Channel, remote: Remote) -> None:
        self._stub = rpc.CollectorServiceStub(channel)
        self._remote = remote

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        """What it serves, by type."""
        async with self._remote.statuses():
            answer = await self._stub.Describe(
                pb.CollectorServiceDescribeRequest(), timeout=DESCRIBE_SECONDS
            )
        return answer.types

    async def collect(self, request: pb.CollectRequest) -> AsyncGenerator[pb.CollectResponse, None]:
        """What it finds, checked; a reader that stops reading holds the service back."""
        async with self._remote.permit() as permit:
            call = self._stub.Collect(
                request,
                timeout=self._remote.timeout_seconds,
                metadata=metadata_of(request.correlation_id),
            )
            in_file = False
            try:
                async for response in call:
                    permit.answered()
                    in_file = self._check(response, in_file=in_file)
                    if response.WhichOneof("event"):  # else one that this version does not know
                        yield response
                permit.answered()
                if in_file:
                    raise self._remote.refused("it ended in the middle of a file")
            finally:
                call.cancel()

    def _check(self, response: pb.CollectResponse, *, in_file: bool) -> bool:
        """Raises unless the response keeps to the contract; returns whether a file is open.

        Fills in the key of what has none; that of a file depends on its bytes and stays empty.
        """
        kind = response.WhichOneof("event")
        if kind == "chunk":
            self._require(in_file, "it sends bytes of no file")
            self._require(len(response.chunk) <= MAX_CHUNK_BYTES, "a chunk is too large")
            return bool(response.chunk)
        if kind in ("recording", "document", "file"):
            self._require(not in_file, "it sends something else in the middle of a file")
            self._require(len(response.key) <= MAX_KEY, "a key is too long")
        if kind == "recording":
            self._check_recording(response)
        elif kind == "document":
            self._check_document(response)
        elif kind == "file":
            file = response.file
            self._require(0 < len(file.file_name) <= MAX_FILE_NAME, "a file name is not usable")
            self._require(len(file.title) <= MAX_TITLE, "a title is too long")
            self._require(not too_large(file.metadata), "metadata is too large")
        return in_file or kind == "file"

    def _check_recording(self, response: pb.CollectResponse) -> None:
        recording = response.recording
        self._require(0 < len(recording.url) <= MAX_ADDRESS, "an address is not usable")
        self._require(len(recording.title) <= MAX_TITLE, "a title is too long")
        self._require(not too_large(recording.metadata), "metadata is too large")
        response.key = response.key or recording.url

    def _check_document(self, response: pb.CollectResponse) -> None:
        document = response.document
        self._require(len(document.url) <= MAX_ADDRESS, "an address is too long")
        self._require(len(document.title) <= MAX_TITLE, "a title is too long")
        self._require(bytes_of(document.text) <= MAX_TEXT_BYTES, "a text is too large")
        self._require(not too_large(document.metadata), "metadata is too large")
        response.key = response.key or document.url or sha256(document.text.encode()).hexdigest()

    def _require(self, kept: bool, otherwise: str) -> None:
        if not kept:
            raise self._remote.refused(otherwise)
