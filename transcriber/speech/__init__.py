"""Speech to text: voice detection, windows, Whisper decoding, language detection, timestamps.

May import translation and the interfaces beside it; never transcriber.model or grpc.
"""
