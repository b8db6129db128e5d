"""Loaded once by the fork server: does beforehand what every download would do again."""

import gc

from downloader import child, visitor

__all__ = ["child"]

visitor.warm_up()
# Children share these pages as long as nobody touches them.
gc.freeze()
