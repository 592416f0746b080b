#!/bin/sh
# Make a virtual environment, or bring it up to date: make_venv.sh FOLDER EXTRA [REQUIREMENT...]
#
# An existing one is kept when its interpreter is one that pick_python.sh would take.
set -eu
folder=$1
extra=$2
shift 2
here=$(dirname "$0")

if ! PYTHON="$folder/bin/python" "$here/pick_python.sh" >/dev/null 2>&1; then
    python=$("$here/pick_python.sh")
    echo "Making $folder with $python"
    "$python" -m venv --clear "$folder"
fi
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".[$extra]" "$@"
touch "$folder/.has-$extra"
