"""Model weights and model processes: hub, bundled weights, fork server, restartable models, pool.

May import speech and translation; never grpc.
"""
