"""Scripts of the scripted stages: they force what real stages do rarely."""

import asyncio
from collections.abc import Callable
from typing import Any

from mesh.errors import MeshError
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import media_pb2
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb

SECOND = b"\0\0" * 16_000


class Script:
    """What the stages do, and what they saw."""

    def __init__(self) -> None:
        self.seconds = 6
        """Length of every recording; each second is one segment."""
        self.model = "scripted"
        self.failures: list[MeshError] = []
        """Raised by the next downloads, one each."""
        self.pause_before_segment: int | None = None
        self.segment_failures: dict[int, list[MeshError]] = {}
        """Raised before the segment of that index, one each time."""
        self.pause_download_at: int | None = None
        self.go_on = asyncio.Event()
        self.paused = asyncio.Event()
        self.waiting = 0
        """How many stages hold just now."""
        self.downloads: list[str] = []
        self.download_options: list[media_pb2.DownloadOptions] = []
        self.starts: list[transcriber_pb.TranscribeStart] = []
        self.preparing: list[media_pb2.ModelPreparation] = []
        """What the transcriber's model needs before each recording, step by step."""
        self.language_probability = 0.9
        """How sure the transcriber is of the language it detects."""
        self.echoes = False
        """Titles repeat the address, and texts the prompt."""
        self.damage: list[str] = []
        """What the normalizer warns of."""
        self.uncertain: set[int] = set()
        """Indexes of segments whose text failed every check."""
        self.translations = [
            transcriber_pb.Translation(
                model=self.model, source_languages=["en", "pt"], target_languages=["en"]
            )
        ]
        self.missing: dict[str, str] = {}
        """Options the normalizer cannot honour, and why not."""
        self.captions: list[str] = []
        """Made by a human; each stands for a second."""
        self.captions_break_after: int | None = None
        """Segments after which the captions break off, once."""
        self.caption_languages: list[list[str]] = []
        self.correlation_ids: list[str] = []
        self.stopped = asyncio.Event()
        """Set when a paused stage was cancelled."""
        self.listings: dict[str, list[str]] = {}
        """What is behind each source."""
        self.listing_failures: list[tuple[int, MeshError]] = []
        """Each raised by one listing, after so many recordings."""
        self.pause_listing_at: int | None = None
        self.list_on = asyncio.Event()
        self.resolves: list[downloader_pb.ResolveRequest] = []
        self.refusals: dict[str, list[MeshError]] = {}
        """Raised by the next downloads of an address, one each."""
        self.hanging: set[str] = set()
        """Addresses whose download stands still until the test says go on."""
        self.purge_files = self.purge_bytes = 0
        """What each stage claims to have removed."""
        self.purges: list[bool] = []
        """Whether each purge was a dry run."""

    async def until_paused(self) -> None:
        """A machine with much else to do takes its time."""
        async with asyncio.timeout(60):
            await self.paused.wait()

    def purge(self, response: Callable[..., Any], *, dry_run: bool) -> Any:
        """What any stage answers."""
        self.purges.append(dry_run)
        return response(files_removed=self.purge_files, bytes_removed=self.purge_bytes)

    def started(self, target: str) -> transcriber_pb.TranscribeStarted:
        """Who listens, and who translates into that language."""
        able = (one.model for one in self.translations if target in one.target_languages)
        translator = next(able, self.model)
        return transcriber_pb.TranscribeStarted(
            model=self.model, translation_model="" if translator == self.model else translator
        )

    async def pause(self) -> None:
        """Holds until the test says go on."""
        self.paused.set()
        self.waiting += 1
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        finally:
            self.waiting -= 1
