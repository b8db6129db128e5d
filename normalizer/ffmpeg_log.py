"""Reads ffmpeg's log from stderr, and turns it into errors and warnings for the caller."""

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

TOO_LONG_EXIT = 65
"""Exit code of a process of ours that refuses the recording as too long; its last line says why."""

_MAX_LINE = 2_000
_MAX_PROBLEMS = 20
_MAX_SHORTFALL = timedelta(seconds=0.5)

_DURATION = re.compile(r"\[info\]   Duration: (\d+):(\d\d):(\d\d(?:\.\d+)?)")
_AUDIO_STREAM = re.compile(r"\[info\]   Stream #0:\d+.*?: Audio:")
_DEMUXER_ERROR = re.compile(r"\[(?!in#|out#)[\w,]+ @ 0x[0-9a-f]+\] \[(?:error|fatal)\]")
_DAMAGE = re.compile(r"\[(?:error|fatal)\]|corrupt input packet")
_PREFIX = re.compile(r"^(?:\[[^\]]*\] )+")
_MISSING_FEATURE = re.compile(
    r"Unknown encoder|No such filter|Unrecognized option|Option .* not found"
    r"|Requested output format|Unable to find a suitable output format"
)


@dataclass(slots=True)
class FfmpegLog:
    """Parses stderr as it arrives; keeps a bounded summary of it."""

    opened: bool = False
    """Whether a demuxer opened the container."""
    has_audio: bool = False
    recognised: bool = False
    """Whether a demuxer recognised the format, even if it then failed."""
    doubtful: bool = False
    """Whether that demuxer only guessed, or is not on our whitelist."""
    total: timedelta | None = None
    """Duration the container declares."""
    missing_feature: str = ""
    problems: int = 0
    first_problems: list[str] = field(default_factory=list)
    last_line: str = ""
    _partial: str = ""

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of stderr."""
        *lines, rest = re.split(r"[\r\n]", self._partial + data.decode("utf-8", "replace"))
        self._partial = rest[:_MAX_LINE]
        for line in lines:
            self._read(line[:_MAX_LINE])

    def _read(self, line: str) -> None:
        self.last_line = line.strip() or self.last_line
        if line.startswith("[info] Input #0,"):
            self.opened = True
        if found := _DURATION.match(line):
            hours, minutes, seconds = found.groups()
            self.total = timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))
        self.has_audio |= _AUDIO_STREAM.match(line) is not None
        self.recognised |= _DEMUXER_ERROR.match(line) is not None
        self.doubtful |= "misdetection possible" in line or "not on whitelist" in line
        if _DAMAGE.search(line):
            self._note(_PREFIX.sub("", line))

    def _note(self, problem: str) -> None:
        if not self.missing_feature and _MISSING_FEATURE.search(problem):
            self.missing_feature = problem
        self.problems += 1
        if len(self.first_problems) < _MAX_PROBLEMS:
            self.first_problems.append(problem)


def failure(log: FfmpegLog, exit_code: int, duration: timedelta) -> MeshError | None:
    """The error of a run that produced nothing usable; None if it produced audio."""
    if exit_code == -signal.SIGKILL:
        return UnavailableError("ffmpeg was killed", reason=Reason.INTERNAL)
    if exit_code == -signal.SIGXCPU:
        return _cpu_limit_reached()
    if exit_code < 0:
        return UnusableMediaError(
            f"ffmpeg crashed on this media (signal {-exit_code})", reason=Reason.CORRUPT_MEDIA
        )
    if duration:
        return None
    return _missing_feature(log) or _unusable(log, exit_code)


def downstream_failure(log: FfmpegLog, exit_code: int) -> MeshError | None:
    """The error of a process that reads from another one's output; None if it succeeded."""
    if exit_code == -signal.SIGXCPU:
        return _cpu_limit_reached()
    if exit_code == TOO_LONG_EXIT:
        return LimitExceededError(log.last_line, reason=Reason.TOO_LONG)
    if exit_code and not log.missing_feature:
        what = log.last_line or f"exit code {exit_code}"
        return UnavailableError(f"isolating the voice failed: {what}", reason=Reason.INTERNAL)
    return _missing_feature(log)


def _cpu_limit_reached() -> LimitExceededError:
    return LimitExceededError(
        "the recording needs more processor time than allowed", reason=Reason.TOO_LONG
    )


def _missing_feature(log: FfmpegLog) -> UnsupportedError | None:
    if not log.missing_feature:
        return None
    return UnsupportedError(
        f"this ffmpeg lacks a feature: {log.missing_feature}", reason=Reason.TOOL_MISSING
    )


def _unusable(log: FfmpegLog, exit_code: int) -> UnusableMediaError:
    if log.doubtful or not (log.opened or log.recognised):
        return UnusableMediaError("this is not a media file", reason=Reason.NOT_MEDIA)
    if log.opened and not log.has_audio:
        return UnusableMediaError("the media has no audio", reason=Reason.NO_AUDIO)
    if log.opened and not (exit_code or log.problems or log.total):
        return UnusableMediaError("the audio is 0 s long", reason=Reason.EMPTY_MEDIA)
    detail = log.first_problems[0] if log.first_problems else "no audio could be decoded"
    return UnusableMediaError(f"the media is damaged: {detail}", reason=Reason.CORRUPT_MEDIA)


def warnings(log: FfmpegLog, exit_code: int, duration: timedelta) -> tuple[str, ...]:
    """Warnings about a run that produced audio."""
    found = []
    if log.total is not None and log.total - duration > _MAX_SHORTFALL:
        found.append(
            f"the file declares a duration of {log.total.total_seconds():.1f} s, "
            f"but its audio ends at {duration.total_seconds():.1f} s"
        )
    if log.problems:
        found.append(
            f"the media is damaged; problems while decoding: {log.problems}, "
            f"the first: {log.first_problems[0]}"
        )
    elif exit_code:
        found.append(f"ffmpeg ended early (exit code {exit_code})")
    return tuple(found)
