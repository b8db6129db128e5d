"""Everything that runs inside a download's child process: yt-dlp, its tasks and its confinement.

Imports yt-dlp, which the service itself never loads; nothing here imports gRPC.
"""

import os
import sys

# Both take effect when yt-dlp is imported, so they stand before every import of it: plugins are
# untrusted code, and curl_cffi would connect without passing the guard.
os.environ["YTDLP_NO_PLUGINS"] = "1"
sys.modules["curl_cffi"] = None  # type: ignore[assignment]
