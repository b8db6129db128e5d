"""Captions a human made for a recording, taken instead of listening to it."""

from contextlib import aclosing
from functools import partial
from typing import Any

from mesh.errors import UnavailableError
from mesh.reasons import Reason
from orchestrator.calling import Calling
from orchestrator.sink import Sink
from orchestrator.stages import StageError, Stages
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import job_pb2

DOWNLOAD = job_pb2.STAGE_DOWNLOAD


async def take_captions(
    stages: Stages,
    calling: Calling,
    sink: Sink,
    request: downloader_pb.FetchCaptionsRequest,
    terms: dict[str, Any],
) -> bool:
    """Whether there were any; they are with the sink then."""
    begin = partial(stages.downloader.FetchCaptions, request, **terms)
    found = False
    async with aclosing(calling.events(DOWNLOAD, begin, _nothing_to_tell)) as events:
        async for event in events:
            match event.WhichOneof("event"):
                case "media":
                    await sink.media_found(event.media)
                case "track":
                    await sink.stage_started(DOWNLOAD)
                    await sink.captions_found(event.track)
                case "segment":
                    await sink.heard(event.segment)
                case "finished":
                    found = event.finished.found
    if found:
        await sink.captions_taken()
    return found


def gone() -> StageError:
    """An earlier attempt took some of them: what a model hears would not fit behind."""
    return StageError(
        DOWNLOAD,
        UnavailableError("the captions are not there any more", reason=Reason.SITE_ERROR),
    )


async def _nothing_to_tell() -> None:
    """The stage begins, for those who watch, once there is something to take."""
