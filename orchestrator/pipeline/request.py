"""One run of the pipeline, and the requests it makes of the stages."""

from collections.abc import AsyncIterable
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.duration_pb2 import Duration

from mesh.messages import copy_shared
from mesh.slots import Slot
from ytcaption.v1 import job_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class PipelineRequest:
    """The media to caption, the options in force, and where an earlier attempt stopped."""

    job_id: str
    options: job_pb2.JobOptions
    url: str = ""
    """The address to download; empty if `bytes_source` is set."""
    bytes_source: AsyncIterable[bytes] | None = None
    """The media itself, if it was sent to us."""
    bytes_total: int | None = None
    spool: Path | None = None
    """Where downloaded bytes wait; unset: nowhere, and the download waits for the model."""
    slot: Slot | None = None
    """The job's slot, which it lends to others while its download is slow."""
    keep_audio: bool = True
    human_captions: bool = False
    """Whether human-made captions may replace transcription."""
    captions_begun: bool = False
    """Whether an earlier attempt began to use human-made captions."""
    settled_offset: Duration = field(default_factory=Duration)
    next_index: int = 0
    live: bool = False
    """Whether captions are wanted before all of the media is here."""
    live_stream: bool = False
    """Whether a caller is still making the media; the stages have slots of their own for these."""

    def normalize_start(self, container: str) -> normalizer_pb.NormalizeStart:
        """The first frame of the normalizer's request."""
        start = normalizer_pb.NormalizeStart(
            job_id=self.job_id,
            container=container,
            keep_audio=self.keep_audio,
            live_stream=self.live_stream,
        )
        start.options.SetInParent()
        copy_shared(self.options, start.options)
        return start

    def transcribe_start(self) -> transcriber_pb.TranscribeStart:
        """The first frame of the transcriber's request."""
        start = transcriber_pb.TranscribeStart(
            job_id=self.job_id,
            settled_offset=self.settled_offset,
            next_index=self.next_index,
            live=self.live,
            live_stream=self.live_stream,
        )
        copy_shared(self.options, start)
        if self.options.language == AUTO:
            # A resumed job detects again, from the same windows: as sure as the first time.
            start.ClearField("language")
        return start
