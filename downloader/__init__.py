"""The downloader: yt-dlp behind a contract."""
