"""Runs the downloader: `python -m downloader`."""

from downloader.commands import PRELOAD
from downloader.fork_server import wait_until_warm
from downloader.servicer import downloader_service
from downloader.settings import Settings
from downloader.ytdlp_engine import YtDlpEngine
from mesh.callers import guarded_by
from mesh.forking import open_fork_server
from mesh.scratch import Scratch
from mesh.service import run_process, serve


async def _main(settings: Settings) -> None:
    scratch = Scratch(settings.work_dir, "download-")
    # Removes what a killed service left behind.
    scratch.purge(dry_run=False)
    engine = YtDlpEngine(settings.client_options, scratch, settings.service_limits)
    service = guarded_by(settings.token_file, downloader_service(engine, settings.media_limits))
    await serve(settings, [service], get_ready=wait_until_warm)


if __name__ == "__main__":
    open_fork_server(PRELOAD)
    run_process("downloader", Settings, _main)
