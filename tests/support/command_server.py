"""Fork server for the command: imports its modules once, and forks a process for each run.

A run costs a fork instead of the start of an interpreter and the imports. Requests are JSON
messages on a socket, each with three descriptors: stdout, stderr, and one for pid and exit code.
"""

import gc
import json
import os
import signal
import socket
import sys
import tempfile
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import cli.client
from cli.__main__ import main

MAX_REQUEST_BYTES = 1 << 18
DESCRIPTORS = 3


def serve(requests: socket.socket) -> None:
    for module in iter_modules(cli.client.__path__, "cli.client."):
        import_module(module.name)
    gc.freeze()  # a collection in a fork would copy every page
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps the monitors
    while True:
        request, descriptors, *_ = socket.recv_fds(requests, MAX_REQUEST_BYTES, DESCRIPTORS)
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            _monitor(json.loads(request), *descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _monitor(request: dict[str, Any], out: int, err: int, reply: int) -> None:
    """Forks the command; reports its pid and its exit code. Returns in the command only."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    command = os.fork()
    if command == 0:
        os.close(reply)
        _run(request, out, err)
    os.close(out)
    os.close(err)
    os.write(reply, f"{command}\n".encode())
    _, status = os.waitpid(command, 0)
    os.write(reply, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _run(request: dict[str, Any], out: int, err: int) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
        os.close(source)
    # The streams of the server may be files, which can seek; pipes cannot.
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1) for number in (1, 2))
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    tempfile.tempdir = None  # TMPDIR may have changed
    sys.argv = ["ytcaption", *request["arguments"]]
    main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
