"""A pseudo-terminal whose output is recorded."""

import asyncio
import os
import pty
import threading


class Terminal:
    """Records everything that is written to its `far` descriptor."""

    def __init__(self) -> None:
        self._near, self.far = pty.openpty()
        self._blocks: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while block := os.read(self._near, 65_536):
                self._blocks.append(block)
        except OSError:  # Linux reports a closed writer as an error
            return

    def so_far(self) -> bytes:
        return b"".join(self._blocks)

    async def everything(self) -> str:
        os.close(self.far)
        await asyncio.to_thread(self._reader.join, 60)
        os.close(self._near)
        return self.so_far().decode()
