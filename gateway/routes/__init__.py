"""Routes, one module per group: parse the request, call the orchestrator, present the response.

May import every other package of the gateway; only gateway.app imports routes.
"""
