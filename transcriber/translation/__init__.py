"""Text to text: translation models, their tokenizers and language tokens.

May import the interfaces beside it; never transcriber.speech, transcriber.model or grpc.
"""
