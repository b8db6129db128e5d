"""Imported once by the fork server: the libraries every model needs; no model and no thread."""

import gc
import sys
from types import ModuleType

# faster-whisper imports PyAV to decode media files, which no model process does: 17 MB.
sys.modules.setdefault("av", ModuleType("av"))

from transcriber.model import child, loading  # noqa: E402
from transcriber.speech import whisper  # noqa: E402

__all__ = ["child", "loading", "whisper"]

# Frozen objects stay in pages that the model processes share.
gc.freeze()
