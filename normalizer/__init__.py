"""The normalizer service: ffmpeg behind a gRPC contract.

Imports `mesh` and the generated stubs, and no other service.
"""
