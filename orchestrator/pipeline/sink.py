"""What the pipeline reports while it runs."""

from orchestrator.pipeline.stages import StageId
from ytcaption.v1 import media_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb


class Sink:
    """Receives the reports of one run and ignores them; subclasses take those they need.

    A slow sink slows the pipeline down.
    """

    async def stage_started(self, stage: StageId) -> None:
        """The stage was called."""

    async def stage_completed(self, stage: StageId) -> None:
        """The stage has handed everything on."""

    async def media_found(self, media: media_pb2.MediaInfo) -> None:
        """The source was described: title, duration and so on."""

    async def filters_chosen(self, started: normalizer_pb.NormalizeStarted) -> None:
        """The normalizer said which filters it applies."""

    async def model_preparing(self, preparing: media_pb2.ModelPreparation) -> None:
        """The transcriber said what its model still needs."""

    async def model_ready(self, started: transcriber_pb.TranscribeStarted) -> None:
        """The transcriber said which model it uses."""

    async def progressed(self, stage: StageId, progress: media_pb2.Progress) -> None:
        """A stage has come further."""

    async def audio_kept(self, frame: bytes) -> None:
        """A piece of the normalized audio that is kept for people."""

    async def normalized(self, finished: normalizer_pb.NormalizeFinished) -> None:
        """The exact length of the recording is known."""

    async def captions_found(self, track: media_pb2.CaptionTrack) -> None:
        """The site has human-made captions, which replace transcription."""

    async def captions_taken(self) -> None:
        """All of those captions are here."""

    async def segment_settled(self, segment: media_pb2.Segment) -> None:
        """A segment of text is final."""

    async def finished(self, finished: transcriber_pb.TranscribeFinished) -> None:
        """The whole recording is transcribed."""
