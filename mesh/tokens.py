"""Tokens: `ytc_<id>_<256 bits>`, their digests, and the files that hold one.

A token is random, so one fast hash protects what is stored.
"""

import hmac
import os
import re
import secrets
from hashlib import sha256
from pathlib import Path

from mesh.errors import UnavailableError
from mesh.private import exposure_of, write_private
from mesh.reasons import Reason

ID_BYTES, SECRET_BYTES = 8, 32
_FORM = re.compile(r"ytc_([0-9a-f]{16})_[0-9a-f]{64}")
MAX_FILE_BYTES = 1024


def new_token() -> str:
    """A token that was never given out."""
    return f"ytc_{secrets.token_hex(ID_BYTES)}_{secrets.token_hex(SECRET_BYTES)}"


def id_of(token: str) -> str:
    """The id within a token; "" if the text has not the form of one."""
    found = _FORM.fullmatch(token)
    return found[1] if found else ""


def digest_of(token: str) -> bytes:
    """What is stored in place of a token."""
    return sha256(token.encode()).digest()


def matches(token: str, digest: bytes) -> bool:
    """Whether this token has that digest; takes as long for any other."""
    return hmac.compare_digest(digest_of(token), digest)


def write_token(path: Path) -> str:
    """Makes a token and writes it to a file that only we may read."""
    token = new_token()
    write_private(path, f"{token}\n")
    return token


def read_token(file: str) -> str:
    """The token in a file that no other user can read; the errors never show what is in it."""
    path = Path(file)
    try:
        with path.open("rb") as opened:
            facts = os.fstat(opened.fileno())
            text = opened.read(MAX_FILE_BYTES).decode("ascii").strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it holds no token"
        raise _unusable(path, why) from None
    if why := exposure_of(facts):
        raise _unusable(path, why)
    if not id_of(text):
        raise _unusable(path, "it holds no token")
    return text


def optional_token(file: str) -> str:
    """The token in a file; "" if none is named."""
    return read_token(file) if file else ""


def _unusable(path: Path, why: str) -> UnavailableError:
    return UnavailableError(
        f"cannot use the token file {path}: {why}", reason=Reason.STORAGE_FORBIDDEN
    )
