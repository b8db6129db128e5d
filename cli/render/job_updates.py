"""Renders the updates of a job's watch: captions, JSON lines, progress bars."""

from collections.abc import Iterable
from typing import Any

from cli.exits import CommandError, Exit
from cli.render.bars import UPLOAD, Figure, bars_for, figure
from cli.render.messages import failure_line
from cli.render.screen import ConnectionNotice, Screen
from cli.render.text import clock, for_terminal, size, to_json
from ytcaption.v1 import event_pb2 as event_pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb
from ytcaption.v1 import pipeline_service_pb2 as pb


def caption_line(segment: media_pb.Segment) -> str:
    """[00:00:01.000 --> 00:00:04.200] text of the segment."""
    start, end = segment.start_offset.ToTimedelta(), segment.end_offset.ToTimedelta()
    times = f"[{clock(start)} --> {clock(end)}] "
    line = f"{times}{for_terminal(segment.text)}"
    if not segment.translation:
        return line
    return f"{line}\n{' ' * len(times)}{for_terminal(segment.translation)}"


def caption_json(segment: media_pb.Segment) -> str:
    """The segment as one line of JSON, its times in seconds."""
    plain: dict[str, Any] = {
        "type": "segment",
        "index": segment.index,
        **_timed_text(segment),
        "language": segment.language,
    }
    if segment.HasField("confidence"):
        plain["confidence"] = segment.confidence
    if segment.uncertain:
        plain["uncertain"] = True
    if segment.translation:
        plain["translation"] = segment.translation
    if segment.words:
        plain["words"] = [_timed_text(word) for word in segment.words]
    return to_json(plain)


def _timed_text(spoken: media_pb.Segment | media_pb.Word) -> dict[str, Any]:
    return {
        "start": spoken.start_offset.ToTimedelta().total_seconds(),
        "end": spoken.end_offset.ToTimedelta().total_seconds(),
        "text": spoken.text,
    }


class JobRenderer:
    """Renders the watch of one job for one reader."""

    def __init__(self, screen: Screen, *, json_lines: bool = False, captions: bool = True) -> None:
        self.job = job_pb.Job()
        """The newest state of the job."""

        self.segments = 0
        self.connection = ConnectionNotice(screen.line)
        self._screen = screen
        self._bars = bars_for(screen)
        self._json = json_lines
        self._captions = captions
        self._title = ""

    def close(self) -> None:
        """Leaves the last progress on the screen."""
        self._bars.close()

    def show_upload(self, done: int, total: int) -> None:
        """Shows how many bytes of the upload are sent."""
        amount = f"{size(done)} of {size(total)}"
        self._bars.show([Figure(UPLOAD, done, total, amount)])

    def render(self, update: pb.WatchJobResponse) -> None:
        """Renders one update, in order."""
        self.connection.restored()
        match update.WhichOneof("update"):
            case "job":
                self._render_job(update.job)
            case "progress":
                self._show(update.progress.stages)
            case "event":
                self._render_event(update.event)

    def _render_event(self, event: event_pb.Event) -> None:
        match event.WhichOneof("payload"):
            case "segment_settled":
                self._render_segment(event.segment_settled.segment)
            case "stage_changed":
                self._show([event.stage_changed.stage])
            case "media_found":
                self._render_media(event.media_found.media)
            case "attempt_failed":
                failure = event.attempt_failed.failure
                self._screen.line(f"{failure_line(failure)}; it will be tried again")
            case "job_finished":
                self._render_job(event.job_finished.job)

    def _render_job(self, job: job_pb.Job) -> None:
        self.job.CopyFrom(job)
        self._render_media(job.media)
        self._show(job.stages)

    def _render_segment(self, segment: media_pb.Segment) -> None:
        self.segments += 1
        if self._captions:
            self._screen.out(caption_json(segment) if self._json else caption_line(segment))

    def _render_media(self, media: media_pb.MediaInfo) -> None:
        self.job.media.MergeFrom(media_pb.MediaInfo(title=media.title))
        if media.title and media.title != self._title:
            self._title = media.title
            self._screen.line(f"title: {media.title}")

    def _show(self, stages: Iterable[job_pb.StageStatus]) -> None:
        figures = (figure(stage) for stage in stages)
        self._bars.show([one for one in figures if one is not None])


def job_exit(job: job_pb.Job) -> Exit:
    """The exit code of a job that succeeded; raises for one that failed or was cancelled."""
    if job.state == job_pb.JOB_STATE_SUCCEEDED:
        return Exit.OK
    if job.state == job_pb.JOB_STATE_CANCELLED:
        note = f": {job.cancel_note}" if job.cancel_note else ""
        raise CommandError(f"the job was cancelled{note}", Exit.JOB_FAILED)
    raise CommandError(failure_line(job.failure), Exit.JOB_FAILED)
