"""Pydantic models of requests and responses: the JSON contract of the gateway.

May import gateway.settings, mesh and the gRPC contracts; never presenters, routes or sse.
"""
