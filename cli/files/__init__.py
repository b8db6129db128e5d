"""Files of the user: sources to upload, captions to write, and the calls that move their bytes.

May import channel and render; never commands, client or local.
"""
