"""What the pipeline tells whoever runs it."""

from typing import Protocol

from orchestrator.stages import StageId
from ytcaption.v1 import media_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb


class Sink(Protocol):
    """Whoever wants to know what happens; slow ones slow the pipeline down."""

    async def stage_started(self, stage: StageId) -> None:
        """A stage answered for the first time."""

    async def stage_completed(self, stage: StageId) -> None:
        """A stage has handed everything on."""

    async def media_found(self, media: media_pb2.MediaInfo) -> None:
        """The source said what it is."""

    async def filters_chosen(self, started: normalizer_pb.NormalizeStarted) -> None:
        """The normalizer said what it will do."""

    async def model_preparing(self, preparing: media_pb2.ModelPreparation) -> None:
        """The transcriber said what its model still needs."""

    async def model_ready(self, started: transcriber_pb.TranscribeStarted) -> None:
        """The transcriber said who listens."""

    async def moved(self, stage: StageId, progress: media_pb2.Progress) -> None:
        """A stage has come further."""

    async def audio_kept(self, frame: bytes) -> None:
        """A piece of the audio kept for people."""

    async def normalized(self, finished: normalizer_pb.NormalizeFinished) -> None:
        """The length of the recording is known for sure."""

    async def captions_found(self, track: media_pb2.CaptionTrack) -> None:
        """A human captioned it: nobody needs to listen."""

    async def captions_taken(self) -> None:
        """All of those captions are here."""

    async def heard(self, segment: media_pb2.Segment) -> None:
        """A piece of text is settled."""

    async def finished(self, finished: transcriber_pb.TranscribeFinished) -> None:
        """Everything was heard."""
