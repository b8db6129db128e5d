"""What the terminal shows: progress views, tables, captions, JSON lines, safe text.

Makes no calls; imports no other room of the command.
"""
