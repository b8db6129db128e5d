"""Keys of the broker's roles, and how a client logs in with a credentials file.

`python -m mesh.credentials FOLDER` makes the keys of a broker that runs elsewhere.
"""

import secrets
import sys
from pathlib import Path
from typing import Any

from mesh.errors import UnavailableError
from mesh.private import private_folder, write_private
from mesh.reasons import Reason

ROLES = ("orchestrator", "producer", "listener", "bridge", "worker")
PUBLIC_KEYS = "keys.conf"
"""Of all roles, for the broker's configuration."""


def seed_file(folder: Path, role: str) -> Path:
    """The credentials file of a role: its nkey seed."""
    return folder / f"{role}.nk"


def make_keys(folder: Path) -> None:
    """Makes the missing keys of all roles; those that exist stay valid."""
    import nkeys  # only a machine that runs a broker needs it

    private_folder(folder)
    public = ""
    for role in ROLES:
        path = seed_file(folder, role)
        if not path.exists():
            seed = nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER)
            write_private(path, f"{seed.decode()}\n")
        path.chmod(0o600)
        public += f'{role.upper()}_KEY: "{_public_key(path)}"\n'
    write_private(folder / PUBLIC_KEYS, public)


def login(file: str) -> dict[str, Any]:
    """Arguments for nats-py: from a .creds file, an nkey seed, or a line `user:password`.

    Keys are read again at every connection. The errors never show what is in the file.
    """
    if not file:
        return {}
    path = Path(file)
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise _unusable(path, reason) from None
    if "BEGIN NATS USER JWT" in text:
        return {"user_credentials": file}
    if text.startswith("SU") and ":" not in text:
        _public_key(path)
        return {"nkeys_seed": file}
    user, colon, password = text.partition(":")
    if not (user and colon and password) or "\n" in text:
        raise _unusable(path, "neither .creds, nor an nkey seed, nor user:password")
    return {"user": user, "password": password}


def _public_key(path: Path) -> str:
    import nkeys

    try:
        key: bytes = nkeys.from_seed(path.read_bytes().strip()).public_key
    except (nkeys.NkeysError, ValueError):
        raise _unusable(path, "not an nkey seed") from None
    return key.decode()


def _unusable(path: Path, why: str) -> UnavailableError:
    return UnavailableError(
        f"cannot log in to NATS with {path}: {why}", reason=Reason.STORAGE_FORBIDDEN
    )


if __name__ == "__main__":
    make_keys(Path(sys.argv[1]))
