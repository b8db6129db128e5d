"""HTTP gateway of the mesh: JSON, server-sent events and the web page."""
