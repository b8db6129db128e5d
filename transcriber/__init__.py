"""The transcriber service: speech to timed text with faster-whisper, over gRPC."""
