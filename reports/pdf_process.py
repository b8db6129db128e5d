"""Renders a PDF in a process of its own, which takes its processor time and memory with it.

This module needs nothing but the standard library. Only the process imports the PDF engine and its
fonts, which the extra `ytcaption[pdf]` installs.
"""

import asyncio
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from importlib.util import find_spec

from reports.model import Collection, Document, Member, Text

CHUNK = 64 * 1024
MAX_ERROR_BYTES = 4096
"""How many of the last bytes of a failed process's stderr the error quotes."""
REQUIRED_MODULES = ("fpdf", "pymupdf_fonts", "uharfbuzz")
"""Without the East Asian font PDFs still render, with boxes for its characters."""


class PdfError(Exception):
    """The PDF could not be rendered."""


class PdfUnavailableError(Exception):
    """The PDF engine or its fonts are not installed."""


def missing_modules() -> list[str]:
    """The modules of the PDF engine that are not installed."""
    return [name for name in REQUIRED_MODULES if find_spec(name) is None]


def require_pdf() -> None:
    """Raises PdfUnavailableError unless PDFs can be rendered here."""
    if missing := missing_modules():
        raise PdfUnavailableError(
            "PDF reports need the extra `pdf`: pip install 'ytcaption[pdf]'"
            f" (missing: {', '.join(missing)})"
        )


async def render_pdf(
    collection: Collection, members: AsyncIterator[tuple[Member | Document, Text]]
) -> AsyncGenerator[bytes, None]:
    """The file in chunks. Reads one text at a time; closing the generator stops the process."""
    require_pdf()
    process = await asyncio.create_subprocess_exec(
        # -P: a folder named `reports` in the working directory must not be imported.
        *(sys.executable, "-P", "-m", "reports"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    assert process.stdout  # noqa: S101 - they are pipes
    assert process.stderr  # noqa: S101
    errors = asyncio.create_task(process.stderr.read())
    try:
        await _send(process, collection, members)
        while chunk := await process.stdout.read(CHUNK):
            yield chunk
        if await process.wait():
            last_errors = (await errors)[-MAX_ERROR_BYTES:].decode(errors="replace")
            raise PdfError(f"the PDF could not be rendered: {last_errors.strip()}")
    finally:
        errors.cancel()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _send(
    process: Process, collection: Collection, members: AsyncIterator[tuple[Member | Document, Text]]
) -> None:
    assert process.stdin  # noqa: S101 - it is a pipe
    # A process that died explains itself on stderr.
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(pickle.dumps(collection))
        async for member in members:
            process.stdin.write(pickle.dumps(member))
            await process.stdin.drain()
        process.stdin.write(pickle.dumps(None))
        await process.stdin.drain()
        process.stdin.close()
