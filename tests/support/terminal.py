"""A terminal, seen from its far end."""

import asyncio
import os
import pty
import threading


class Terminal:
    """The far end of a terminal somebody writes to."""

    def __init__(self) -> None:
        self._near, self.far = pty.openpty()
        self._said: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while block := os.read(self._near, 65_536):
                self._said.append(block)
        except OSError:  # how Linux says that the last writer is gone
            return

    def so_far(self) -> bytes:
        return b"".join(self._said)

    async def everything(self) -> str:
        os.close(self.far)
        await asyncio.to_thread(self._reader.join, 10)
        os.close(self._near)
        return self.so_far().decode()
