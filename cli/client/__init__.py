"""The commands that call a server: submit, follow, list, cancel, fetch.

May import local, files, channel and render; never commands.
"""
