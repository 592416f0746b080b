#!/bin/sh
# Print the path of the best CPython for this project, or say on stderr what is missing.
#
#   PYTHON      take this one or fail
#   MIN, MAX    lowest and highest minor version allowed (default 11 and 14); the highest found wins
#
# Looks at PATH, pyenv, uv, /usr/bin, /usr/local, /opt and Homebrew. Each candidate is run, for a shim may point nowhere.
set -u
min=${MIN:-11}
max=${MAX:-14}

# Prints nothing when the interpreter $1 will do, else what is wrong with it.
flaw() {
    [ -x "$1" ] || { echo "not an executable"; return; }
    "$1" - "$min" "$max" 2>/dev/null <<'PY' || echo "does not run"
import sys
low, high = int(sys.argv[1]), int(sys.argv[2])
def flaw():
    if getattr(sys, "implementation", None) is None or sys.implementation.name != "cpython":
        return "not CPython"
    if sys.version_info[0] != 3 or not low <= sys.version_info[1] <= high:
        return "is Python %d.%d" % sys.version_info[:2]
    missing = []
    for name in ("venv", "ensurepip", "sqlite3", "ssl"):
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    if missing:
        return "lacks the module(s) " + ", ".join(missing)
    return ""
text = flaw()
if text:
    print(text)
PY
}

wanted="CPython 3.$min to 3.$max"
[ "$min" = "$max" ] && wanted="CPython 3.$min"

if [ -n "${PYTHON:-}" ]; then
    path=$(command -v "$PYTHON" || echo "$PYTHON")
    problem=$(flaw "$path")
    [ -z "$problem" ] && { echo "$path"; exit 0; }
    echo "PYTHON=$PYTHON will not do ($problem); needed is $wanted with venv, ensurepip, sqlite3 and ssl." >&2
    exit 1
fi

rejected=""
try() {
    [ -n "$1" ] && [ -x "$1" ] || return 1
    problem=$(flaw "$1")
    [ -z "$problem" ] && { echo "$1"; exit 0; }
    rejected="$rejected
  $1: $problem"
    return 1
}

minor=$max
while [ "$minor" -ge "$min" ]; do
    for candidate in \
        "$(command -v "python3.$minor" 2>/dev/null)" \
        "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."$minor".*/bin/python3."$minor" \
        "${UV_PYTHON_INSTALL_DIR:-$HOME/.local/share/uv/python}"/cpython-3."$minor"*/bin/python3."$minor" \
        /usr/bin/python3."$minor" /usr/local/bin/python3."$minor" \
        /opt/homebrew/bin/python3."$minor" /opt/python*/bin/python3."$minor"; do
        try "$candidate"
    done
    minor=$((minor - 1))
done
try "$(command -v python3 2>/dev/null)"
try "$(command -v python 2>/dev/null)"

{
    echo "No suitable Python found; needed is $wanted with venv, ensurepip, sqlite3 and ssl."
    [ -n "$rejected" ] && echo "Looked at:$rejected"
    echo "Install one (apt install python3-venv, brew install python, pyenv install 3.$max, uv python install 3.$max),"
    echo "or name one: PYTHON=/path/to/python make test"
} >&2
exit 1
