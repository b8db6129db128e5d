"""Calls of faster-whisper as other programs make them by default."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """One way to call it, besides the beam."""

    options: Mapping[str, Any]
    is_batched: bool = False
    takes_file: bool = False
    """It is given a media file, not samples."""


SCRIPT = "script"
"""What people copy: a file, a beam, no voice detection."""

PEERS: Mapping[str, Call] = {
    SCRIPT: Call({}, takes_file=True),
    # speaches 0.8.3, src/speaches/routers/stt.py: one temperature, so no window is decoded again.
    "speaches-0.8": Call({"vad_filter": True, "temperature": 0.0}),
    # speaches 0.9.0-rc.3, src/speaches/executors/whisper.py: batches of the engine's default size.
    # Its own voice detection has the settings that the engine's has here.
    "speaches-0.9": Call(
        {"vad_filter": True, "without_timestamps": True, "temperature": 0.0}, is_batched=True
    ),
}
