"""Which token a command sends: the file of YTCAPTION_TOKEN_FILE, or that of our own `up`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_state_path

from cli.exits import CommandError, Exit
from mesh.addresses import is_loopback, split
from mesh.private import private_folder
from mesh.tls import Tls
from mesh.tokens import read_token, write_token

VARIABLE = "YTCAPTION_TOKEN_FILE"


def token_of_command(address: str, tls: Tls) -> str:
    """The token for the mesh at an address that this command did not start; "" without one.

    A token does not travel in plain text beyond this machine.
    """
    on_loopback = is_loopback(split(address)[0])
    if file := os.environ.get(VARIABLE, ""):
        if not (tls.ca or on_loopback):
            raise CommandError(
                f"a token would travel to {address} in plain text: set YTCAPTION_TLS_CA",
                Exit.REFUSED,
            )
        return read_token(file)
    own = file_of_up(address)
    return read_token(str(own)) if on_loopback and own.exists() else ""


@contextmanager
def token_file_of_up(address: str) -> Iterator[Path]:
    """Makes the token of a mesh that listens on that address; it ends with the block.

    This user's commands look for it there. Each start makes a new one: a process that takes the
    port after the mesh has ended learns no token that a later mesh accepts.
    """
    path = file_of_up(address)
    private_folder(path.parent)
    write_token(path)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def make_first_token(file: Path) -> Exit:
    """Makes a token file for a mesh that is yet to start."""
    if file.exists():
        raise CommandError(f"{file} exists already", Exit.REFUSED)
    write_token(file)
    return Exit.OK


def link_of(page: str, code: str) -> str:
    """The address that logs a browser in."""
    return f"{page.rstrip('/')}/login?code={code}"


def file_of_up(address: str) -> Path:
    """Where `ytcaption up` keeps the token of the mesh at that address, while it runs."""
    folder: Path = user_state_path("ytcaption", appauthor=False)
    return folder / "tokens" / f"{split(address)[1]}.token"
