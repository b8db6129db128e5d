"""Uses human-made captions when the site has them, and skips transcription."""

from contextlib import aclosing
from functools import partial
from typing import Any

from mesh.errors import UnavailableError
from mesh.reasons import Reason
from orchestrator.pipeline.sink import Sink
from orchestrator.pipeline.stage_call import StageCaller
from orchestrator.pipeline.stages import StageError, Stages
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import job_pb2

DOWNLOAD = job_pb2.STAGE_DOWNLOAD


async def fetch_human_captions(
    stages: Stages,
    caller: StageCaller,
    sink: Sink,
    request: downloader_pb.FetchCaptionsRequest,
    terms: dict[str, Any],
) -> bool:
    """Passes human-made captions to the sink; says whether there were any."""
    begin = partial(stages.downloader.FetchCaptions, request, **terms)
    found = False
    async with aclosing(caller.events(DOWNLOAD, begin, _report_nothing)) as events:
        async for event in events:
            match event.WhichOneof("event"):
                case "media":
                    await sink.media_found(event.media)
                case "track":
                    await sink.stage_started(DOWNLOAD)
                    await sink.captions_found(event.track)
                case "segment":
                    await sink.segment_settled(event.segment)
                case "finished":
                    found = event.finished.found
    if found:
        await sink.captions_taken()
    return found


def gone() -> StageError:
    """An earlier attempt used some of them: transcribed segments would not fit behind those."""
    return StageError(
        DOWNLOAD,
        UnavailableError("the captions are no longer on the site", reason=Reason.SITE_ERROR),
    )


async def _report_nothing() -> None:
    """Watchers see the download start only once there is a caption track."""
