"""Describes the preparation of a model in words."""

from ytcaption.v1 import media_pb2

MEGABYTE = 1_000_000


def in_words(preparing: media_pb2.ModelPreparation) -> str:
    """Such as "fetching model base, 45 of 145 MB"."""
    model = f"model {preparing.model}" if preparing.model else "model"
    if preparing.phase != media_pb2.PREPARATION_PHASE_FETCHING:
        return f"loading {model}"
    done = f"{preparing.fetched.done_bytes / MEGABYTE:.0f}"
    if not preparing.fetched.HasField("total_bytes"):
        return f"fetching {model}, {done} MB so far"
    return f"fetching {model}, {done} of {preparing.fetched.total_bytes / MEGABYTE:.0f} MB"
