"""The mesh over HTTP: JSON, server-sent events and the web page. A client of the orchestrator."""
