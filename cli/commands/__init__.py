"""The click commands: options, usage checks and help texts, one module for each group.

May import every other room, but only within functions: `--help` must be quick.
"""
