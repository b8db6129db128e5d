"""Presenters: turn messages of the gRPC contracts into response models.

May import schemas and the client; never routes, deps or sse.
"""
