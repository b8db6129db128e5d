"""What ffmpeg says on stderr, and what that means for the caller."""

import re
import signal
from dataclasses import dataclass, field
from datetime import timedelta

from mesh.errors import (
    LimitExceededError,
    MeshError,
    UnavailableError,
    UnsupportedError,
    UnusableMediaError,
)
from mesh.reasons import Reason

_LONGEST_LINE = 2_000
_KEPT_ERRORS = 20
_SHORTFALL = timedelta(seconds=0.5)

_DURATION = re.compile(r"\[info\]   Duration: (\d+):(\d\d):(\d\d(?:\.\d+)?)")
_AUDIO_STREAM = re.compile(r"\[info\]   Stream #0:\d+.*?: Audio:")
_DEMUXER_COMPLAINT = re.compile(r"\[(?!in#|out#)[\w,]+ @ 0x[0-9a-f]+\] \[(?:error|fatal)\]")
_DAMAGE = re.compile(r"\[(?:error|fatal)\]|corrupt input packet")
_PREFIX = re.compile(r"^(?:\[[^\]]*\] )+")
_TOOL_LACKS = re.compile(
    r"Unknown encoder|No such filter|Unrecognized option|Option .* not found"
    r"|Requested output format|Unable to find a suitable output format"
)


@dataclass(slots=True)
class Report:
    """Fed with stderr; remembers what matters and nothing more."""

    opened: bool = False
    """Whether the container was understood."""
    has_audio: bool = False
    recognised: bool = False
    """Whether some demuxer took it for its own, even if it then failed."""
    doubtful: bool = False
    """Whether that demuxer only guessed, or is not one we let open files."""
    total: timedelta | None = None
    """Length the container announces."""
    tool_lacks: str = ""
    problems: int = 0
    first_problems: list[str] = field(default_factory=list)
    last_line: str = ""
    _partial: str = ""

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of stderr."""
        *lines, rest = re.split(r"[\r\n]", self._partial + data.decode("utf-8", "replace"))
        self._partial = rest[:_LONGEST_LINE]
        for line in lines:
            self._read(line[:_LONGEST_LINE])

    def _read(self, line: str) -> None:
        self.last_line = line.strip() or self.last_line
        if line.startswith("[info] Input #0,"):
            self.opened = True
        if found := _DURATION.match(line):
            hours, minutes, seconds = found.groups()
            self.total = timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))
        self.has_audio |= _AUDIO_STREAM.match(line) is not None
        self.recognised |= _DEMUXER_COMPLAINT.match(line) is not None
        self.doubtful |= "misdetection possible" in line or "not on whitelist" in line
        if _DAMAGE.search(line):
            self._note(_PREFIX.sub("", line))

    def _note(self, problem: str) -> None:
        if not self.tool_lacks and _TOOL_LACKS.search(problem):
            self.tool_lacks = problem
        self.problems += 1
        if len(self.first_problems) < _KEPT_ERRORS:
            self.first_problems.append(problem)


def failure(report: Report, exit_code: int, duration: timedelta) -> MeshError | None:
    """Why this run gave nothing usable; None if it gave something."""
    if exit_code == -signal.SIGKILL:
        return UnavailableError("ffmpeg was killed", reason=Reason.INTERNAL)
    if exit_code == -signal.SIGXCPU:
        return _too_slow()
    if exit_code < 0:
        return UnusableMediaError(
            f"ffmpeg crashed on this media (signal {-exit_code})", reason=Reason.CORRUPT_MEDIA
        )
    if duration:
        return None
    if report.tool_lacks:
        return UnsupportedError(
            f"this ffmpeg cannot do it: {report.tool_lacks}", reason=Reason.TOOL_MISSING
        )
    return _unusable(report, exit_code)


def later_failure(report: Report, exit_code: int) -> MeshError | None:
    """Why a process that gets good samples from the one before it gave up; None if it did not."""
    if exit_code == -signal.SIGXCPU:
        return _too_slow()
    if report.tool_lacks:
        return UnsupportedError(
            f"this ffmpeg cannot do it: {report.tool_lacks}", reason=Reason.TOOL_MISSING
        )
    if exit_code:
        what = report.last_line or f"exit code {exit_code}"
        return UnavailableError(f"isolating the voice failed: {what}", reason=Reason.INTERNAL)
    return None


def _too_slow() -> LimitExceededError:
    return LimitExceededError(
        "the recording takes more processor time than one may", reason=Reason.TOO_LONG
    )


def _unusable(report: Report, exit_code: int) -> UnusableMediaError:
    if report.doubtful or not (report.opened or report.recognised):
        return UnusableMediaError("this is not a media file", reason=Reason.NOT_MEDIA)
    if report.opened and not report.has_audio:
        return UnusableMediaError("the media has no audio", reason=Reason.NO_AUDIO)
    if report.opened and not (exit_code or report.problems or report.total):
        return UnusableMediaError("the audio is 0 s long", reason=Reason.EMPTY_MEDIA)
    detail = report.first_problems[0] if report.first_problems else "no audio could be decoded"
    return UnusableMediaError(f"the media is damaged: {detail}", reason=Reason.CORRUPT_MEDIA)


def warnings(report: Report, exit_code: int, duration: timedelta) -> tuple[str, ...]:
    """What a person should know about a run that gave something."""
    found = []
    if report.total is not None and report.total - duration > _SHORTFALL:
        found.append(
            f"the recording announces {report.total.total_seconds():.1f} s, "
            f"but its audio ends at {duration.total_seconds():.1f} s"
        )
    if report.problems:
        found.append(
            f"the media is damaged; problems while decoding: {report.problems}, "
            f"the first: {report.first_problems[0]}"
        )
    elif exit_code:
        found.append(f"ffmpeg ended early (exit code {exit_code})")
    return tuple(found)
