"""Looking at what will not be tried again, and giving it another chance."""

from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import click
import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from cli.bars import bars_for
from cli.channel import UNARY_SECONDS, Server, connected
from cli.exits import CommandError, Exit
from cli.following import verdict
from cli.jobs import state_of
from cli.listing import EVERYTHING, pages, print_list, read_list
from cli.reporting import Report, as_dict, failure_line
from cli.screen import Screen
from cli.tables import minute, print_facts
from cli.text import for_terminal, to_json
from mesh.correlation import call_metadata
from mesh.reasons import Reason
from mesh.status import reason_of
from mesh.watching import follow
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pipeline_pb


async def list_letters(address: str, reason: str, limit: int, *, as_json: bool) -> Exit:
    """A table, or one JSON object a line."""
    request = pb.ListDeadLettersRequest(reason=reason)
    async with connected(address) as server:
        found = await read_list(server.admin.ListDeadLetters, request, _letters_of, limit)
    heads = ("letter", "kind", "died", "attempts", "reason", "message")
    print_list(found, heads, _row, as_json=as_json)
    return Exit.OK


def _letters_of(page: pb.ListDeadLettersResponse) -> Sequence[job_pb.DeadLetter]:
    return page.dead_letters


def _row(letter: job_pb.DeadLetter) -> Sequence[str]:
    return (
        _id_of(letter),
        _kind_of(letter),
        minute(letter.dead_time),
        str(letter.attempts),
        letter.failure.reason,
        letter.failure.message,
    )


def _id_of(letter: job_pb.DeadLetter) -> str:
    return letter.letter_id or letter.job_id  # an older server knows only letters of jobs


def _kind_of(letter: job_pb.DeadLetter) -> str:
    kind = letter.kind or job_pb.LETTER_KIND_JOB
    if kind not in job_pb.LetterKind.values():
        return str(kind)
    return job_pb.LetterKind.Name(kind).removeprefix("LETTER_KIND_").lower()


async def show_letter(address: str, letter_id: str, *, as_json: bool) -> Exit:
    """Every fact of the letter, and what its job was about if it is about one."""
    async with connected(address) as server:
        try:
            found = await server.pipeline.GetJob(
                pipeline_pb.GetJobRequest(job_id=letter_id),
                timeout=UNARY_SECONDS,
                metadata=call_metadata(),
            )
        except grpc.aio.AioRpcError as error:
            if reason_of(error) != Reason.JOB_NOT_FOUND:
                raise
            job, letter = job_pb.Job(), await _other_letter(server, letter_id)
        else:
            job, letter = found.job, await _letter_of(server, found.job)
    if as_json:
        click.echo(to_json(as_dict(letter)))
    else:
        print_facts(_facts(letter, job))
    return Exit.OK


async def _other_letter(server: Server, letter_id: str) -> job_pb.DeadLetter:
    """One that is not named after a job."""
    letter = await _find(server, letter_id, reason="")
    if letter is None:
        raise _not_there(f"no dead letter of {for_terminal(letter_id)}")
    return letter


async def _letter_of(server: Server, job: job_pb.Job) -> job_pb.DeadLetter:
    letter = None
    if job.state == job_pb.JOB_STATE_FAILED:
        letter = await _find(server, job.job_id, job.failure.reason)
    if letter is None:
        raise _not_there(f"no dead letter of job {for_terminal(job.job_id)}: it is {state_of(job)}")
    return letter


async def _find(server: Server, letter_id: str, reason: str) -> job_pb.DeadLetter | None:
    """There is no call for one letter: looked for from the newest on."""
    request = pb.ListDeadLettersRequest(reason=reason)
    call = server.admin.ListDeadLetters
    async with aclosing(pages(call, request, _letters_of, EVERYTHING)) as read:
        async for page in read:
            for letter in page.dead_letters:
                if _id_of(letter) == letter_id:
                    return letter
    return None


def _not_there(message: str) -> CommandError:
    return CommandError(message, Exit.REFUSED, Reason.DEAD_LETTER_NOT_FOUND)


def _facts(letter: job_pb.DeadLetter, job: job_pb.Job) -> list[tuple[str, str]]:
    stage = job_pb.Stage.Name(letter.failure.stage).removeprefix("STAGE_").lower()
    return [
        ("letter", _id_of(letter)),
        ("kind", _kind_of(letter)),
        ("job", letter.job_id),
        ("collection", letter.collection_id),
        ("source", job.source.url or job.source.upload.file_name),
        ("title", job.media.title),
        ("failure", failure_line(letter.failure)),
        ("stage", stage if letter.failure.stage else ""),
        ("may pass", "yes" if letter.failure.retryable else "no"),
        ("attempts", str(letter.attempts)),
        ("accepted", _second(letter.work_item.enqueue_time)),
        ("first attempt", _second(letter.first_attempt_time)),
        ("died", _second(letter.dead_time)),
        ("captions", str(job.segment_count or "")),
        ("sequence", str(letter.sequence)),
        ("correlation", letter.correlation_id),
        ("subject", letter.subject),
        ("content", letter.content.decode(errors="replace") if letter.subject else ""),
    ]


def _second(time: Timestamp) -> str:
    return time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S UTC") if time.seconds else ""


async def replay_letter(address: str, letter_id: str, *, wait: bool, as_json: bool) -> Exit:
    """The job's id and state as soon as it is queued again, or how it ended this time."""
    async with connected(address) as server:
        done = await server.admin.ReplayDeadLetter(
            pb.ReplayDeadLetterRequest(job_id=letter_id),
            timeout=UNARY_SECONDS,
            metadata=call_metadata(),
        )
        if not done.HasField("job"):  # an event or a webhook: there is nothing to wait for
            told = {"letter_id": letter_id, "sent": True}
            click.echo(to_json(told) if as_json else f"{letter_id} sent again")
            return Exit.OK
        job = done.job
        if wait:
            job = await _new_life(server, job)
    click.echo(to_json(as_dict(job)) if as_json else f"{job.job_id} {state_of(job)}")
    return verdict(job) if wait else Exit.OK


async def _new_life(server: Server, replayed: job_pb.Job) -> job_pb.Job:
    """Follows the job to its end; what it went through before it died is left out."""
    with Screen() as screen:
        bars = bars_for(screen)
        report = Report(screen, bars, captions=False)
        born = False
        updates = follow(server.pipeline, replayed.job_id, on_cut=report.cut_off)
        try:
            async with aclosing(updates):
                async for update in updates:
                    event = update.event
                    if event.HasField("job_accepted"):
                        born = event.job_accepted.job.max_attempts == replayed.max_attempts
                    if born or not update.HasField("event"):
                        report.take(update)
        finally:
            bars.close()
        return report.job


async def purge_letters(  # noqa: PLR0913 # one for each option
    address: str,
    job_id: str,
    reason: str,
    older_than_hours: float | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> Exit:
    """Says how many went, or would go."""
    request = pb.PurgeDeadLettersRequest(job_id=job_id, reason=reason, dry_run=dry_run)
    if older_than_hours is not None:
        request.before.FromDatetime(datetime.now(UTC) - timedelta(hours=older_than_hours))
    async with connected(address) as server:
        done = await server.admin.PurgeDeadLetters(
            request, timeout=UNARY_SECONDS, metadata=call_metadata()
        )
    count = done.dead_letters_removed
    if as_json:
        click.echo(to_json({"dead_letters_removed": count, "dry_run": dry_run}))
    else:
        letters = "dead letter" if count == 1 else "dead letters"
        click.echo(f"{count} {letters} {'would be removed' if dry_run else 'removed'}")
    return Exit.OK
