"""Jobs that ended with captions, stored as the orchestrator stores them."""

from collections.abc import Sequence
from time import time_ns
from typing import Any

from google.protobuf.duration import from_milliseconds

from mesh.bus import Bus
from mesh.correlation import new_id
from orchestrator.jobs.artifacts import Artifacts
from ytcaption.v1 import job_pb2, media_pb2

SEGMENT_MS = 6000


def spoken(texts: Sequence[str], language: str = "en") -> media_pb2.Transcript:
    """Six seconds for each text."""
    transcript = media_pb2.Transcript(language=language, model="scripted")
    for number, text in enumerate(texts):
        transcript.segments.add(
            index=number,
            start_offset=from_milliseconds(number * SEGMENT_MS),
            end_offset=from_milliseconds((number + 1) * SEGMENT_MS),
            text=text,
            language=language,
        )
    transcript.duration.CopyFrom(from_milliseconds(len(texts) * SEGMENT_MS))
    return transcript


async def store_job(bus: Bus, transcript: media_pb2.Transcript, **fields: Any) -> str:
    """The id of a job that succeeded with this transcript."""
    job = job_pb2.Job(
        job_id=new_id(),
        source=job_pb2.Source(url="http://example.test/talk.mp3"),
        state=job_pb2.JOB_STATE_SUCCEEDED,
        language=transcript.language,
        segment_count=len(transcript.segments),
        **fields,
    )
    for time in (job.create_time, job.end_time):
        time.FromNanoseconds(time_ns())
    await Artifacts(bus).put_transcript(job.job_id, transcript)
    subject = f"$KV.{bus.names.jobs_bucket}.{job.job_id}"
    await bus.publish(subject, job_pb2.JobRecord(job=job).SerializeToString())
    return job.job_id
