"""Programs to supervise, and a display that records."""

# Starts a child in a session of its own, then says so.
PARENT = """
import pathlib, subprocess, sys, time
subprocess.Popen(["sleep", "600"], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text("ready")
time.sleep(600)
"""
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PARENT


class RecordingDisplay:
    """Records every line and status."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.statuses: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)

    def status(self, text: str) -> None:
        self.statuses.append(text)
