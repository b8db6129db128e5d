"""Measurements of the running mesh; each is a command of its own."""
