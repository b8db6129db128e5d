"""Everything an operator can change about the normalizer."""

from functools import partial
from pathlib import Path

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from mesh.settings import StageSettings, default_work_dir
from normalizer.voice_isolator import DEFAULT


class Settings(StageSettings):
    """Read once, in __main__, from NORMALIZER_* variables; then passed down."""

    model_config = SettingsConfigDict(env_prefix="NORMALIZER_")

    listen: str = "127.0.0.1:50053"
    """Address of the gRPC server."""

    metrics_listen: str = "127.0.0.1:9103"
    """Address of the Prometheus endpoint; empty turns it off."""

    ffmpeg: str = ""
    """Path of ffmpeg; empty means the one on PATH, else the one installed as a wheel."""

    max_recordings: int = Field(default=4, ge=1)
    """Concurrent recordings whose media flows; the rest wait under gRPC flow control."""

    max_live_streams: int = Field(default=4, ge=1)
    """The same for live streams, which have slots of their own."""

    max_duration_seconds: float = Field(default=12 * 3600, gt=0)
    """Longest recording, measured on the decoded samples."""

    max_gap_seconds: float = Field(default=600, ge=0)
    """Most of all gaps between timestamps, besides as much as there is sound before them."""

    max_spool_bytes: int = Field(default=8 * 1024**3, gt=0)
    """Largest media file that must be spooled to disk before it can be read."""

    max_memory_bytes: int = Field(default=2 * 1024**3, gt=0)
    """Address space of each ffmpeg and each voice isolation process."""

    max_cpu_seconds: int = Field(default=4 * 3600, gt=0)
    """Processor time of each ffmpeg and each voice isolation process."""

    voice_isolator: str = DEFAULT
    """Engine behind `isolate_vocals`: "module:Class" of a VoiceIsolator that can be imported."""

    work_dir: Path = Field(default_factory=partial(default_work_dir, "normalizer"))
    """Folder for spooled media files; each is removed with its call."""

    stall_seconds: float = Field(default=300, gt=0)
    """How long a call may wait for the caller's next bytes, or for ffmpeg."""
