"""Server-sent event streams of jobs, collections and lists: resumable, buffered, bounded in number.

May import presenters, schemas, http and the client; never routes or deps.
"""
