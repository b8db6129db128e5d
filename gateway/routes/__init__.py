"""One module for each group of routes: request in, calls to the orchestrator, shapes out."""
