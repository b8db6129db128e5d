"""The downloader service: yt-dlp behind a gRPC contract.

This package is the service and must not load yt-dlp; `child/` is what its child processes run.
"""
