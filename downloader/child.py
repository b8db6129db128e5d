"""The other side of the pipes: runs yt-dlp, in a process that may be killed at any moment.

Media bytes leave through one pipe as they arrive. The other carries one JSON object a line: `found`
first, `total` once the size is known, and at last `done` or `failed`.
"""

import json
import os
import select
import signal
import socket
from collections.abc import Iterator
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from downloader.guard import Guard
from downloader.order import Order
from downloader.recording import Recording, Refusal
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
    guard = Guard(order.exempt)
    voice = Control(control)
    recording = Recording(order, media, voice.say)
    try:
        if not order.allow_private:
            guard.allow(_addresses_of(order.proxy))
            guard.install()
        size = recording.fetch()
        voice.say("done", size=size)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the service must hear of it
        voice.say("failed", **_explain(error, guard, recording))
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


def _addresses_of(proxy: str) -> Iterator[str]:
    """The operator chose the proxy, so it may be anywhere."""
    if proxy:
        found = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        for *_, address in socket.getaddrinfo(found.hostname, found.port):
            yield str(address[0])


def _explain(error: BaseException, guard: Guard, recording: Recording) -> dict[str, Any]:
    if guard.refused:
        message = f"{guard.refused[-1]} is not a public address"
        return {"message": message, "verdict": Reason.ADDRESS_FORBIDDEN}
    if refusal := next((each for each in _causes(error) if isinstance(each, Refusal)), None):
        return {"message": str(refusal), "verdict": refusal.reason}
    statuses = (getattr(each, "status", None) for each in _causes(error))
    status = next((each for each in statuses if isinstance(each, int)), None)
    # A site that described its recording and then forbids the bytes has only grown tired of
    # these links: new ones may work.
    tired = status == 403 and recording.is_of_a_known_site
    return {
        "message": str(error) or type(error).__name__,
        "kinds": [type(each).__name__ for each in _causes(error)],
        "status": status,
        "verdict": Reason.SITE_ERROR if tired else "",
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
