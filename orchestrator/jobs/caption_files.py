"""Caption files of a job, rendered from its transcript or from its event log so far."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import PurePath

from google.protobuf.duration_pb2 import Duration

from captions.formats import Format
from captions.model import Transcript
from mesh.errors import NotFoundError
from orchestrator.jobs.artifacts import Artifacts
from orchestrator.jobs.captions import (
    FormatId,
    format_for,
    from_wire,
    in_translation,
    is_translated,
    rules_in_force,
    translated_into,
)
from orchestrator.jobs.event_log import EventLogReader
from ytcaption.v1 import job_pb2, media_pb2


@dataclass(frozen=True, slots=True)
class CaptionFile:
    """A caption file."""

    content: bytes
    media_type: str
    file_name: str
    complete: bool
    language: str
    """BCP-47 tag of its text; empty if unknown."""


@dataclass(frozen=True, slots=True)
class Tracks:
    """The captions of a job as they were at one moment."""

    spoken: CaptionFile
    translated: CaptionFile | None
    """None if nothing was translated."""


class CaptionReader:
    """Reads the stored transcript, or the event log while there is none."""

    def __init__(self, artifacts: Artifacts, event_logs: EventLogReader) -> None:
        self._artifacts = artifacts
        self._event_logs = event_logs

    async def captions(
        self,
        job: job_pb2.Job,
        format_: FormatId,
        cue_rules: media_pb2.CueRules,
        *,
        word_cues: bool = False,
        translated: bool = False,
    ) -> CaptionFile:
        """All captions of a finished job, or those settled so far."""
        made = format_for(job, format_, word_cues=word_cues)
        spoken = await self.transcript(job)
        if translated:
            return await _translated(job, made, spoken, cue_rules)
        return await _file(job, made, spoken, cue_rules, _stem(job))

    async def tracks(self, job: job_pb2.Job, format_: FormatId) -> Tracks:
        """The captions as spoken and, if any were translated, those too."""
        made, cue_rules = format_for(job, format_), media_pb2.CueRules()
        spoken = await self.transcript(job)
        return Tracks(
            await _file(job, made, spoken, cue_rules, _stem(job)),
            await _translated(job, made, spoken, cue_rules) if is_translated(spoken) else None,
        )

    async def transcript(self, job: job_pb2.Job) -> Transcript:
        """The transcript that captions are rendered from."""
        try:
            stored = await self._artifacts.transcript(job.job_id)
        except NotFoundError:
            stored = await self._settled_so_far(job)
        found = from_wire(stored)
        return replace(found, language_out=translated_into(found, job.options.language_out))

    async def _settled_so_far(self, job: job_pb2.Job) -> media_pb2.Transcript:
        transcript = media_pb2.Transcript(
            language=job.language,
            model=job.model,
            duration=job.media.duration if job.HasField("media") else Duration(),
        )
        async for _, event in self._event_logs.events(job.job_id):
            if event.HasField("segment_settled"):
                transcript.segments.append(event.segment_settled.segment)
        return transcript


async def _translated(
    job: job_pb2.Job, made: Format, spoken: Transcript, cue_rules: media_pb2.CueRules
) -> CaptionFile:
    transcript = in_translation(spoken)
    return await _file(job, made, transcript, cue_rules, f"{_stem(job)}.{transcript.language}")


async def _file(
    job: job_pb2.Job, made: Format, transcript: Transcript, cue_rules: media_pb2.CueRules, stem: str
) -> CaptionFile:
    rules = rules_in_force(transcript.language, job.options.cue_rules, cue_rules)
    return CaptionFile(
        # In a thread: hours of speech take a second, and other calls must not wait for it.
        content=(await asyncio.to_thread(made.render, transcript, rules)).encode(),
        media_type=made.media_type,
        file_name=f"{stem}.{made.suffix}",
        complete=job.state == job_pb2.JOB_STATE_SUCCEEDED,
        language=transcript.language,
    )


def _stem(job: job_pb2.Job) -> str:
    return stem_of(PurePath(job.source.upload.file_name).stem or job.media.title, job.job_id)


def stem_of(name: str, otherwise: str) -> str:
    """A readable file name without folders or characters special to a shell or terminal."""
    safe = "".join(c if c.isalnum() or c in " ._-()" else "_" for c in name).strip(" .")
    return safe[:120] or otherwise
