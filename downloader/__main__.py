"""Runs the downloader: `python -m downloader`."""

from downloader.nursery import have_one, open_nursery
from downloader.scratch import Scratch
from downloader.servicer import downloader_service
from downloader.settings import Settings
from downloader.ytdlp import YtDlpEngine
from mesh.service import run_process, serve


async def _main(settings: Settings) -> None:
    scratch = Scratch(settings.work_dir)
    # What a service that was killed left behind.
    scratch.purge(dry_run=False)
    engine = YtDlpEngine(settings.manner, scratch, settings.bounds)
    service = downloader_service(engine, settings.limits)
    await serve(settings, [service], get_ready=have_one)


if __name__ == "__main__":
    open_nursery()
    run_process("downloader", Settings, _main)
