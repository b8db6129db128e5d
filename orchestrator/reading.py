"""What callers may read of a job besides its record: captions and files."""

import asyncio
from dataclasses import dataclass
from pathlib import PurePath

from google.protobuf.duration_pb2 import Duration

from mesh.errors import NotFoundError
from orchestrator.artifacts import Artifacts
from orchestrator.captions import FormatId, format_for, from_wire, rules_in_force
from orchestrator.story import StoryReader
from ytcaption.v1 import job_pb2, media_pb2


@dataclass(frozen=True, slots=True)
class Captions:
    """A caption file."""

    content: bytes
    media_type: str
    file_name: str
    complete: bool


class Reading:
    """Reads captions from the kept transcript, or from the story while there is none."""

    def __init__(self, artifacts: Artifacts, stories: StoryReader) -> None:
        self._artifacts = artifacts
        self._stories = stories

    async def captions(
        self,
        job: job_pb2.Job,
        format_: FormatId,
        cue_rules: media_pb2.CueRules,
        *,
        word_cues: bool = False,
    ) -> Captions:
        """All captions of a finished job, or those heard so far."""
        made = format_for(job, format_, word_cues=word_cues)
        rules = rules_in_force(job.language, job.options.cue_rules, cue_rules)
        complete = job.state == job_pb2.JOB_STATE_SUCCEEDED
        try:
            transcript = await self._artifacts.transcript(job.job_id)
        except NotFoundError:
            transcript = await self._heard_so_far(job)

        def content() -> bytes:
            return made.render(from_wire(transcript), rules).encode()

        return Captions(
            # Hours of speech take a second; other callers shall not wait for it.
            content=await asyncio.to_thread(content),
            media_type=made.media_type,
            file_name=f"{_stem(job)}.{made.suffix}",
            complete=complete,
        )

    async def _heard_so_far(self, job: job_pb2.Job) -> media_pb2.Transcript:
        transcript = media_pb2.Transcript(
            language=job.language,
            model=job.model,
            duration=job.media.duration if job.HasField("media") else Duration(),
        )
        async for _, event in self._stories.events(job.job_id):
            if event.HasField("segment_settled"):
                transcript.segments.append(event.segment_settled.segment)
        return transcript


def _stem(job: job_pb2.Job) -> str:
    """A file name for people: no folders, nothing a shell or a terminal would trip over."""
    name = PurePath(job.source.upload.file_name).stem or job.media.title
    kept = "".join(c if c.isalnum() or c in " ._-()" else "_" for c in name).strip(" .")
    return kept[:120] or job.job_id
