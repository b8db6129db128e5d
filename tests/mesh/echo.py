"""A service that raises a given error, or answers with the caller's correlation id."""

from collections.abc import AsyncIterator
from typing import Any

from mesh.correlation import current
from mesh.server import Service
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2_grpc as rpc
from ytcaption.v1 import media_pb2


class Echo(rpc.DownloaderServiceServicer):
    """Answers Download only."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    async def Download(  # noqa: N802
        self, request: pb.DownloadRequest, context: Any
    ) -> AsyncIterator[pb.DownloadResponse]:
        if self._error is not None:
            raise self._error
        yield pb.DownloadResponse(media=media_pb2.MediaInfo(title=current()))


def echo_service(error: Exception | None) -> Service:
    """The service, ready to register with a server."""
    return Service.of(
        pb.DESCRIPTOR.services_by_name["DownloaderService"],
        rpc.add_DownloaderServiceServicer_to_server,
        Echo(error),  # type: ignore[abstract] # the rest is left unbuilt on purpose
    )
