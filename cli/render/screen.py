"""stdout for captions, stderr for the rest; on one terminal neither garbles the other."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from cli.text import for_terminal


class Screen:
    """Where the command speaks."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, markup=False, emoji=False)
        self.quiet = quiet
        self._status: Status | None = None

    @property
    def lively(self) -> bool:
        """Whether things on stderr may move."""
        return self.console.is_terminal and not self.quiet

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.status("")

    def line(self, text: str) -> None:
        """A line on stderr, above whatever moves there."""
        if not self.quiet:
            self.console.print(Text(for_terminal(text)), soft_wrap=True)

    def status(self, text: str) -> None:
        """A line that moves while something is under way; "" ends it. Only on a terminal."""
        if not text:
            if self._status is not None:
                self._status.stop()
            self._status = None
        elif self.lively and self._status is None:
            self._status = self.console.status(Text(text))
            self._status.start()
        elif self._status is not None:
            self._status.update(Text(text))

    def out(self, text: str) -> None:
        """A line on stdout, at once."""
        if sys.stdout.isatty() and self.lively:
            # The same terminal, but drawn together with what moves below.
            self.console.print(Text(text), soft_wrap=True)
        else:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
