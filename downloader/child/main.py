"""Entry point of the child process, which runs one yt-dlp task and may be killed at any moment.

Media bytes leave through one pipe as they arrive. The other carries one JSON object a line:
messages about what was found, then a last one, `done` or `failed`.
"""

import json
import os
import resource
from collections.abc import Iterator
from functools import partial
from typing import Any

from downloader.child.captions import CaptionsTask
from downloader.child.confinement import check_deno_arguments, confine
from downloader.child.download import DownloadTask, check_ffmpeg_arguments
from downloader.child.guard import Guard
from downloader.child.resolve import ResolveTask
from downloader.child.task import ChildTask, Send
from downloader.child.ytdlp_client import Refusal, deno_path
from downloader.commands import CaptionsCommand, Command, DownloadCommand, ResolveCommand
from mesh.forking import end_with_parent
from mesh.reasons import Reason


def main(command: Command, media: int, control: int) -> None:
    """Executes one command and exits the process."""
    end_with_parent(control)
    _limit_memory(command.client_options.max_memory_bytes)
    os.chdir(command.folder)
    _redirect_standard_streams()
    guard = Guard(command.client_options.exempt_addresses)
    send = partial(_send, control)
    task = _task(command, guard, send, media)
    try:
        _confine(command, guard)
        send("done", **task.run())
    except BaseException as error:  # noqa: BLE001 - the service must learn of every failure
        send("failed", **_describe_failure(error, guard, task))
    finally:
        # No cleanup is needed, and yt-dlp's threads must not delay the exit.
        os._exit(0)


def _send(control: int, kind: str, **fields: Any) -> None:
    """Writes one message to the control pipe, as a line of JSON."""
    line = memoryview(json.dumps({"kind": kind, **fields}).encode() + b"\n")
    while line:
        line = line[os.write(control, line) :]


def _limit_memory(most: int) -> None:
    """Limits this process and each program it starts to so many bytes that are written to."""
    # Not the address space: deno reserves far more of it than it ever uses.
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _redirect_standard_streams() -> None:
    """Discards what third-party code prints: stdout and stderr belong to the service."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def _task(command: Command, guard: Guard, send: Send, media: int) -> ChildTask[Any]:
    match command:
        case DownloadCommand():
            return DownloadTask(command, guard, send, media)
        case ResolveCommand():
            return ResolveTask(command, guard, send)
        case CaptionsCommand():
            return CaptionsTask(command, guard, send)
    raise TypeError(type(command))


def _confine(command: Command, guard: Guard) -> None:
    options = command.client_options
    if options.proxy and options.proxy_is_trusted:
        guard.trust_proxy(options.proxy)
    confine(
        command.folder,
        None if options.allow_private_addresses else guard,
        {deno_path(options): check_deno_arguments, options.ffmpeg: check_ffmpeg_arguments},
    )


def _describe_failure(error: BaseException, guard: Guard, task: ChildTask[Any]) -> dict[str, Any]:
    if guard.refused:
        return {"message": guard.refused[-1], "reason": Reason.ADDRESS_FORBIDDEN}
    if refusal := next((each for each in _causes(error) if isinstance(each, Refusal)), None):
        return {"message": str(refusal), "reason": refusal.reason}
    if any(isinstance(each, MemoryError) for each in _causes(error)):
        return {"message": "it takes more memory than is allowed", "reason": Reason.TOO_LARGE}
    statuses = (getattr(each, "status", None) for each in _causes(error))
    status = next((each for each in statuses if isinstance(each, int)), None)
    # A site that described the recording and then answers 403 for the bytes has let the media
    # links expire: new ones may work.
    links_expired = status == 403 and task.has_site_metadata
    return {
        "message": task.without_secrets(str(error) or type(error).__name__),
        "exceptions": [type(each).__name__ for each in _causes(error)],
        "status": status,
        "reason": Reason.SITE_ERROR if links_expired else "",
        "retry_after": task.retry_after,
    }


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The exception and everything that caused it; yt-dlp also keeps causes in its own fields."""
    seen: set[int] = set()
    waiting: list[Any] = [error]
    while waiting:
        each = waiting.pop(0)
        if not isinstance(each, BaseException) or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        exc_info = getattr(each, "exc_info", None) or (None, None)
        waiting += [exc_info[1], getattr(each, "cause", None), each.__cause__, each.__context__]
