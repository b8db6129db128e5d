"""The transcriber: faster-whisper behind a contract."""
