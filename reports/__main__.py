"""The PDF process: reads a collection and its texts from stdin, writes one PDF to stdout."""

import logging
import os
import pickle
import sys
from typing import BinaryIO

from reports.model import Document
from reports.pdf import PdfReport
from reports.typesetting import main_fonts

NICENESS = 5
"""Live captions get processor time before reports."""


def render(source: BinaryIO, target: BinaryIO) -> None:
    """Reads the collection, then (member or document, text) pairs up to None; then writes."""
    # fontTools logs a lot while it reads and subsets fonts.
    logging.disable(logging.WARNING)
    with main_fonts() as fonts:
        report = PdfReport(pickle.load(source), fonts)  # noqa: S301 - written by our parent
        while (pair := pickle.load(source)) is not None:  # noqa: S301
            write = report.document if isinstance(pair[0], Document) else report.member
            write(*pair)
        target.write(report.end())
        target.flush()


if __name__ == "__main__":
    os.nice(NICENESS)
    try:
        render(sys.stdin.buffer, sys.stdout.buffer)
    except EOFError:
        sys.exit("the parent process exited before it had sent everything")
