"""The Node.js service of testproject/receipts, which runs where it can and is left out where it can't."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVICE = ROOT / "testproject" / "receipts"
COMMAND = ["node", "service.js"]
#: What `make node` leaves; the path of the client leads through the service's link to it.
BUILT = SERVICE / "node_modules" / "django-taskq-redis" / "dist" / "index.js"
SCHEMES = ("redis://", "rediss://", "unix://")


def reason_against(url: str) -> str:
    """Return why the service can't run with this Redis, in a line; nothing when it can."""
    found = subprocess.run([ROOT / "scripts" / "has_node.sh"], capture_output=True, text=True, timeout=30)
    if found.returncode:
        return found.stderr.strip()
    if not BUILT.exists():
        return "the client for Node.js isn't built: `make node` does it, or says why it can't be done."
    if not url.startswith(SCHEMES):
        return f"the client for Node.js knows {', '.join(SCHEMES)} only."
    return ""
