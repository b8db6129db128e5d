"""The other side of the pipes: runs yt-dlp, in a process that may be killed at any moment.

Media bytes leave through one pipe as they arrive. The other carries one JSON object a line: what
was found, as it is found, and at last `done` or `failed`.
"""

import json
import os
import select
import signal
from collections.abc import Iterator
from threading import Thread
from typing import Any

from downloader.captions import Captions
from downloader.confinement import caged_deno, confine
from downloader.errand import Errand, Say
from downloader.guard import Guard
from downloader.joining import only_joining
from downloader.listing import Listing
from downloader.order import CaptionsOrder, FetchOrder, ListOrder, Order
from downloader.recording import Recording
from downloader.visitor import Refusal, deno_of
from mesh.reasons import Reason


class Control:
    """Tells the service how it goes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def say(self, kind: str, **facts: Any) -> None:
        """Writes one line."""
        line = memoryview(json.dumps({"kind": kind, **facts}).encode() + b"\n")
        while line:
            line = line[os.write(self._descriptor, line) :]


def main(order: Order, media: int, control: int) -> None:
    """Carries out one order and ends the process."""
    os.setsid()
    os.chdir(order.folder)
    _silence()
    Thread(target=_die_with_the_service, args=(control,), daemon=True).start()
    guard = Guard(order.manner.exempt_addresses)
    voice = Control(control)
    errand = _errand(order, guard, voice.say, media)
    try:
        _enclose(order, guard)
        voice.say("done", **errand.run())
    except BaseException as error:  # noqa: BLE001 - whatever it is, the service must hear of it
        voice.say("failed", **_explain(error, guard, errand))
    finally:
        # Nothing here is worth tidying up, and threads of yt-dlp must not hold us.
        os._exit(0)


def _silence() -> None:
    """Strangers' prints go nowhere: our stdout and stderr are the service's."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)


def _die_with_the_service(control: int) -> None:
    """A pipe without a reader reports an error: nobody is left to download for."""
    reader_gone = select.poll()
    reader_gone.register(control, 0)
    reader_gone.poll()
    os.killpg(0, signal.SIGKILL)


def _errand(order: Order, guard: Guard, say: Say, media: int) -> Errand:
    match order:
        case FetchOrder():
            return Recording(order, guard, say, media)
        case ListOrder():
            return Listing(order, guard, say)
        case CaptionsOrder():
            return Captions(order, guard, say)
    raise TypeError(type(order))


def _enclose(order: Order, guard: Guard) -> None:
    manner = order.manner
    if manner.proxy and manner.proxy_is_trusted:
        guard.trust_proxy(manner.proxy)
    confine(
        order.folder,
        None if manner.allow_private_addresses else guard,
        {deno_of(manner): caged_deno, manner.ffmpeg: only_joining},
    )


def _explain(error: BaseException, guard: Guard, errand: Errand) -> dict[str, Any]:
    if guard.refused:
        return {"message": guard.refused[-1], "verdict": Reason.ADDRESS_FORBIDDEN}
    if refusal := next((each for each in _causes(error) if isinstance(each, Refusal)), None):
        return {"message": str(refusal), "verdict": refusal.reason}
    statuses = (getattr(each, "status", None) for each in _causes(error))
    status = next((each for each in statuses if isinstance(each, int)), None)
    # A site that described its recording and then forbids the bytes has only grown tired of
    # these links: new ones may work.
    tired = status == 403 and errand.is_of_a_known_site
    return {
        "message": errand.without_secrets(str(error) or type(error).__name__),
        "kinds": [type(each).__name__ for each in _causes(error)],
        "status": status,
        "verdict": Reason.SITE_ERROR if tired else "",
        "retry_after": errand.retry_after,
    }


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The exception and all behind it; yt-dlp has ways of its own to remember them."""
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
