"""Folders and files that only their owner can read."""

import os
import stat
import tempfile
from pathlib import Path

from mesh.errors import UnavailableError
from mesh.reasons import Reason


def private_folder(path: Path) -> Path:
    """Makes a folder that only we may enter; closes an existing one, refuses that of another user.

    A folder of root's is left as it is: a volume that was mounted for us.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_owner(path)
    facts = path.stat()
    if facts.st_uid == os.geteuid() and facts.st_mode & 0o077:
        path.chmod(0o700)
    return path


def check_owner(path: Path) -> None:
    """Refuses a folder that another user made first, and a link of theirs to one of ours."""
    trusted = {0, os.geteuid()}
    if not {path.lstat().st_uid, path.stat().st_uid} <= trusted:
        raise UnavailableError(
            f"{path} belongs to another user; remove it, or choose another folder",
            reason=Reason.STORAGE_FORBIDDEN,
        )


def exposure_of(facts: os.stat_result) -> str:
    """Why a file with these facts is no secret of ours; "" if no other user can read it."""
    own = facts.st_uid == os.geteuid()
    # A file of root's is a secret that was mounted for us.
    if not own and facts.st_uid != 0:
        return "it belongs to another user"
    if own and stat.S_IMODE(facts.st_mode) & 0o077:
        return "other users can read it; chmod 600 it"
    return ""


def write_private(path: Path, text: str) -> None:
    """Writes a file that only we may read; a reader sees the old text or all of the new."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(name).replace(path)
