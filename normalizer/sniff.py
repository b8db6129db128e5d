"""What the first bytes of a file tell: whether it is media, and whether a pipe will do."""

from enum import Enum, auto

ENOUGH = 256 * 1024
"""Who has not shown its layout by now is treated as needing its end first."""

_BOX_HEADER = 8
_LARGE_BOX_HEADER = 16
_SIGNATURES = (
    *(b"fLaC", b"OggS", b"RIFF", b"FORM", b"caff", b"FLV", b"#!AMR", b"MAC ", b"wvpk", b"TTA1"),
    *(b"\x1a\x45\xdf\xa3", b"\x30\x26\xb2\x75", b".RMF", b".snd", b"riff"),
)
_FIRST_BOXES = {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp", b"uuid"}


class Layout(Enum):
    """How a file has to be read."""

    FORWARD = auto()
    """From the first byte to the last."""
    INDEX_LAST = auto()
    """MP4 and its kin with `mdat` before `moov`: the end must be there first."""
    UNKNOWN = auto()
    """More bytes are needed to tell."""


def has_signature(head: bytes) -> bool:
    """Whether it begins like media: then a failure means damage, not a mistake."""
    return head.startswith(_SIGNATURES) or head[4:8] in _FIRST_BOXES


def layout(head: bytes | bytearray) -> Layout:
    """Only MP4 and its kin keep what matters at the end; everything else reads forward."""
    if len(head) < _BOX_HEADER:
        return Layout.UNKNOWN
    if bytes(head[4:8]) not in _FIRST_BOXES:
        return Layout.FORWARD
    position = 0
    while position + _BOX_HEADER <= len(head):
        kind = head[position + 4 : position + 8]
        if kind in (b"moov", b"moof"):
            return Layout.FORWARD
        if kind == b"mdat":
            return Layout.INDEX_LAST
        size = _box_size(head, position)
        if size is None:
            break
        if size < _BOX_HEADER:  # broken, or the last box of the file: no index will come
            return Layout.FORWARD
        position += size
    return Layout.INDEX_LAST if len(head) >= ENOUGH else Layout.UNKNOWN


def _box_size(head: bytes | bytearray, position: int) -> int | None:
    size = int.from_bytes(head[position : position + 4], "big")
    if size != 1:
        return size
    large = head[position + _BOX_HEADER : position + _LARGE_BOX_HEADER]
    return int.from_bytes(large, "big") if len(large) == _BOX_HEADER else None
