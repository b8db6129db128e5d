"""The collectors `youtube` and `url`: recordings that the downloader lists."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict

from mesh.errors import InvalidRequestError
from mesh.period import Days, wanted_days
from mesh.reasons import Reason
from orchestrator.tasks.listing import Lister
from orchestrator.tasks.source_names import MAX_FOUND, places_of
from ytcaption.v1 import collector_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import task_pb2

PERIOD = "periodo"
_WORDS = {"type": "string", "minLength": 1, "maxLength": 2048}
_NAMES = {"oneOf": [_WORDS, {"type": "array", "items": _WORDS, "minItems": 1, "maxItems": 100}]}


def _description(summary: str, *parameters: str) -> task_pb2.TypeDescription:
    schema = {
        "type": "object",
        "properties": {
            **dict.fromkeys(parameters, _NAMES),
            PERIOD: {"type": "string", "description": "A year, a month or a day of publication."},
        },
        "anyOf": [{"required": [parameter]} for parameter in parameters],
        "additionalProperties": False,
    }
    return ParseDict({"summary": summary, "parameters_schema": schema}, task_pb2.TypeDescription())


DESCRIPTIONS = {
    "youtube": _description(
        "Recordings of channels, playlists and searches of YouTube.",
        *("canal", "playlist", "busca", "url", "video"),
    ),
    "url": _description("Recordings behind addresses of any site that yt-dlp reads.", "url"),
}


class Sources:
    """Lists what the parameters name; fulfils `Collector`."""

    def __init__(self, lister: Lister) -> None:
        self._lister = lister

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        """Both types."""
        return DESCRIPTIONS

    async def collect(self, request: pb.CollectRequest) -> AsyncGenerator[pb.CollectResponse, None]:
        """Every recording once, as the downloader finds them."""
        given: dict[str, Any] = MessageToDict(request.parameters)
        days = _days(request, given.pop(PERIOD, ""))
        names = {
            parameter: [value] if isinstance(value, str) else value
            for parameter, value in sorted(given.items())  # a Struct has no order
        }
        found = places_of(names, min(request.max_items, MAX_FOUND))
        seen: set[str] = set()
        for address in dict.fromkeys(found.addresses):
            seen.add(address)
            yield _response(pb.CollectedRecording(url=address))
        for source in dict.fromkeys(found.sources):
            await self._lister.until_possible()
            listing = self._lister.listed(
                downloader_pb.ResolveRequest(
                    source_url=source,
                    max_videos=request.max_items,
                    from_date=days.first,
                    to_date=days.last,
                )
            )
            async with aclosing(listing) as recordings:
                async for one in recordings:
                    if one.source_url not in seen:
                        seen.add(one.source_url)
                        yield _recording(one)


def _days(request: pb.CollectRequest, period: str) -> Days:
    """The days of the task; those of its own period, if it has one."""
    try:
        return (
            wanted_days("", "", period)
            if period
            else wanted_days(request.from_date, request.to_date, "")
        )
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{PERIOD}: {error}", reason=Reason.PARAMETERS_INVALID) from error


def _recording(found: downloader_pb.ResolveResponse) -> pb.CollectResponse:
    media = found.media
    recording = pb.CollectedRecording(
        url=found.source_url, title=media.title, publish_date=media.upload_date
    )
    if media.uploader:
        recording.metadata.update({"autor": media.uploader})
    if media.HasField("duration"):
        seconds = media.duration.ToTimedelta().total_seconds()
        recording.metadata.update({"duracao_segundos": seconds})
    return _response(recording)


def _response(recording: pb.CollectedRecording) -> pb.CollectResponse:
    return pb.CollectResponse(key=recording.url, recording=recording)
