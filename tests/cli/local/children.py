"""Programs to supervise, and somebody who is told of them."""

# Starts a child in a session of its own, then says so.
PARENT = """
import pathlib, subprocess, sys, time
subprocess.Popen(["sleep", "600"], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text("ready")
time.sleep(600)
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PARENT


class Told:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.statuses: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)

    def status(self, text: str) -> None:
        self.statuses.append(text)
