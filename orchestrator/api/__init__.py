"""The gRPC servicers and what only they need: uploads, stats, health.

May import every other room; no room imports this one.
"""
