"""Renders a collection as one report: JSON, Markdown, HTML, PDF or a zip of captions.

Imports no service, no transport and no broker; only the PDF process imports the PDF engine.
"""
