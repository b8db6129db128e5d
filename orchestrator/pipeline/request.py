"""What the stages are asked for."""

from collections.abc import AsyncIterable
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.duration_pb2 import Duration

from ytcaption.v1 import job_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be heard, and how."""

    job_id: str
    options: job_pb2.JobOptions
    url: str = ""
    """Where the downloader gets it; empty if `bytes_source` is set."""
    bytes_source: AsyncIterable[bytes] | None = None
    """Media we already have."""
    bytes_total: int | None = None
    spool: Path | None = None
    """Where the downloaded bytes are kept; unset: nowhere, and the download waits for the model."""
    keep_audio: bool = True
    human_captions: bool = False
    """Whether captions a human made may stand in for listening."""
    captions_begun: bool = False
    """Whether an earlier attempt took some."""
    settled_offset: Duration = field(default_factory=Duration)
    next_index: int = 0

    def normalize_start(self, container: str) -> normalizer_pb.NormalizeStart:
        """What the normalizer has to know before the first byte."""
        options = self.options
        return normalizer_pb.NormalizeStart(
            job_id=self.job_id,
            container=container,
            keep_audio=self.keep_audio,
            options=normalizer_pb.NormalizeOptions(
                remove_noise=options.remove_noise,
                convert_to_mono=options.convert_to_mono,
                apply_highpass_filter=options.apply_highpass_filter,
                set_sample_rate_16k=options.set_sample_rate_16k,
                isolate_vocals=options.isolate_vocals,
                loudness_lufs=options.loudness_lufs if options.HasField("loudness_lufs") else None,
            ),
        )

    def transcribe_start(self) -> transcriber_pb.TranscribeStart:
        """What the transcriber has to know before the first sample."""
        options = self.options
        # A resumed job detects again, from the same windows: so it is as sure as the first time.
        named = options.language if options.language != "auto" else ""
        return transcriber_pb.TranscribeStart(
            job_id=self.job_id,
            language=named,
            language_out=options.language_out,
            word_timestamps=options.word_timestamps,
            initial_prompt=options.initial_prompt,
            beam_size=options.beam_size,
            hotwords=options.hotwords,
            mixed_languages=options.mixed_languages,
            settled_offset=self.settled_offset,
            next_index=self.next_index,
        )
