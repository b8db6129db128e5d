"""Imported once by the fork server: the libraries every model needs; no model and no thread."""

import gc

from transcriber.model import child, loading

__all__ = ["child", "loading"]

# Frozen objects stay in pages that the model processes share.
gc.freeze()
