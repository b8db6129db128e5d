"""The normalizer: ffmpeg behind a contract."""
