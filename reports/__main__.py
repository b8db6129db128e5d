"""The press: a process that makes one PDF of what its parent says, and writes it to stdout."""

import logging
import os
import pickle
import sys
from typing import BinaryIO

from reports.fonts import main_fonts
from reports.pdf import PdfReport

POLITENESS = 5
"""Captions that are being made and watched go before reports."""


def press(told: BinaryIO, made: BinaryIO) -> None:
    """Reads the collection, then members and their texts, then None; then writes the file."""
    # The fonts' tables are read and cut with many words that help nobody here.
    logging.disable(logging.WARNING)
    with main_fonts() as fonts:
        report = PdfReport(pickle.load(told), fonts)  # noqa: S301 - our parent's own words
        while (said := pickle.load(told)) is not None:  # noqa: S301
            report.member(*said)
        made.write(report.end())
        made.flush()


if __name__ == "__main__":
    os.nice(POLITENESS)
    try:
        press(sys.stdin.buffer, sys.stdout.buffer)
    except EOFError:
        sys.exit("the parent went away before it had said everything")
