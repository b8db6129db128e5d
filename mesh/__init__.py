"""The runtime every service shares: gRPC servers and channels, errors, settings, NATS, processes.

Imports no service, and neither `captions` nor `reports`.
"""
