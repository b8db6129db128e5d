"""Turns the updates of a watch into captions, bars and lines."""

from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from cli.bars import UPLOAD, Bars, Figure, figure
from cli.screen import Screen
from cli.text import clock, for_terminal, size, to_json
from ytcaption.v1 import event_pb2 as event_pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb
from ytcaption.v1 import pipeline_service_pb2 as pb


def as_dict(message: Message) -> dict[str, Any]:
    """Our own spelling of the fields, as in the contracts."""
    return MessageToDict(message, preserving_proto_field_name=True)


def caption_line(segment: media_pb.Segment) -> str:
    """[00:00:01.000 --> 00:00:04.200] what was said."""
    start, end = segment.start_offset.ToTimedelta(), segment.end_offset.ToTimedelta()
    times = f"[{clock(start)} --> {clock(end)}] "
    said = f"{times}{for_terminal(segment.text)}"
    if not segment.translation:
        return said
    return f"{said}\n{' ' * len(times)}{for_terminal(segment.translation)}"


def caption_json(segment: media_pb.Segment) -> str:
    """The same for a program, in seconds."""
    plain: dict[str, Any] = {
        "type": "segment",
        "index": segment.index,
        "start": segment.start_offset.ToTimedelta().total_seconds(),
        "end": segment.end_offset.ToTimedelta().total_seconds(),
        "text": segment.text,
        "language": segment.language,
    }
    if segment.HasField("confidence"):
        plain["confidence"] = segment.confidence
    if segment.translation:
        plain["translation"] = segment.translation
    if segment.words:
        plain["words"] = [
            {
                "start": word.start_offset.ToTimedelta().total_seconds(),
                "end": word.end_offset.ToTimedelta().total_seconds(),
                "text": word.text,
            }
            for word in segment.words
        ]
    return to_json(plain)


class Report:
    """What one person or program is told about one job."""

    def __init__(
        self, screen: Screen, bars: Bars, *, json_lines: bool = False, captions: bool = True
    ) -> None:
        self.job = job_pb.Job()
        """The job as last heard of."""

        self.segments = 0
        self._screen = screen
        self._bars = bars
        self._json = json_lines
        self._captions = captions
        self._title = ""
        self._cut = False

    def sent(self, done: int, total: int) -> None:
        """An upload went on."""
        amount = f"{size(done)} of {size(total)}"
        self._bars.show([Figure(UPLOAD, done, total, amount)])

    def cut_off(self) -> None:
        """The server went away; said once until it is back."""
        if not self._cut:
            self._screen.line("the connection was lost; trying to get it back")
        self._cut = True

    def take(self, update: pb.WatchJobResponse) -> None:
        """One update, in order."""
        if self._cut:
            self._screen.line("connected again")
            self._cut = False
        match update.WhichOneof("update"):
            case "job":
                self._take_job(update.job)
            case "progress":
                self._show(update.progress.stages)
            case "event":
                self._take_event(update.event)

    def _take_event(self, event: event_pb.Event) -> None:
        match event.WhichOneof("payload"):
            case "segment_settled":
                self._take_segment(event.segment_settled.segment)
            case "stage_changed":
                self._show([event.stage_changed.stage])
            case "media_found":
                self._take_media(event.media_found.media)
            case "attempt_failed":
                failure = event.attempt_failed.failure
                self._screen.line(f"{failure_line(failure)}; it will be tried again")
            case "job_finished":
                self._take_job(event.job_finished.job)

    def _take_job(self, job: job_pb.Job) -> None:
        self.job.CopyFrom(job)
        self._take_media(job.media)
        self._show(job.stages)

    def _take_segment(self, segment: media_pb.Segment) -> None:
        self.segments += 1
        if self._captions:
            self._screen.out(caption_json(segment) if self._json else caption_line(segment))

    def _take_media(self, media: media_pb.MediaInfo) -> None:
        self.job.media.MergeFrom(media_pb.MediaInfo(title=media.title))
        if media.title and media.title != self._title:
            self._title = media.title
            self._screen.line(f"title: {media.title}")

    def _show(self, stages: "list[job_pb.StageStatus] | Any") -> None:
        figures = (figure(stage) for stage in stages)
        self._bars.show([one for one in figures if one is not None])


def failure_line(failure: job_pb.Failure) -> str:
    """The sentence for a person with the word for a program."""
    message = failure.message or "the job failed"
    return for_terminal(f"{message} ({failure.reason or 'INTERNAL'})")
