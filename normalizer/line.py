"""One process or several in a row, each reading what the one before it writes."""

import os
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from io import FileIO

from normalizer.child import Ceiling, Child, Program, running


@dataclass(frozen=True, slots=True)
class Line:
    """What goes in goes into the first; what comes out comes from the last."""

    children: tuple[Child, ...]

    @property
    def first(self) -> Child:
        """Hears the media."""
        return self.children[0]

    @property
    def last(self) -> Child:
        """Makes the outputs."""
        return self.children[-1]


@asynccontextmanager
async def connected(
    programs: list[Program], ceiling: Ceiling, *, feed: bool, keep: bool
) -> AsyncIterator[Line]:
    """Runs them until the block ends; only the last may have a second output."""
    *others, last = programs
    upstream: FileIO | None = None
    stdin = PIPE if feed else DEVNULL
    children = []
    async with AsyncExitStack() as stack:
        for program in others:
            read, write = os.pipe()
            reading = stack.enter_context(FileIO(read, "r"))
            with FileIO(write, "w"):  # ours must go, or the next would never see its input end
                child = running(program, ceiling, stdin=stdin, stdout=write)
                children.append(await stack.enter_async_context(child))
            if upstream is not None:
                upstream.close()
            upstream, stdin = reading, read
        child = running(last, ceiling, stdin=stdin, keep=keep)
        children.append(await stack.enter_async_context(child))
        if upstream is not None:
            upstream.close()
        yield Line(tuple(children))
