"""Loaded once by the fork server: the libraries every model needs, but no model and no thread."""

import gc

from transcriber import child, whisper

__all__ = ["child", "whisper"]

# Children share these pages as long as nobody touches them.
gc.freeze()
