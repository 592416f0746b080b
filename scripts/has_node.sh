#!/bin/sh
# Succeed where the client for Node.js can be built, else say on stderr what is missing.
wanted="Node.js 20 or newer and npm are needed for the client in clients/node"
major=$(node --print 'process.versions.node.split(".")[0]' 2>/dev/null)
[ -n "$major" ] || { echo "$wanted: node isn't on the path, or doesn't run." >&2; exit 1; }
[ "$major" -ge 20 ] || { echo "$wanted: node is $(node --version)." >&2; exit 1; }
command -v npm >/dev/null || { echo "$wanted: npm isn't on the path." >&2; exit 1; }
