# Sourced by the other scripts: makes .venv and keeps it equal to a pinned requirements file.
# Needs only Python >= 3.11 with pip and venv. A second call finds its stamp and does nothing.

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    echo "gpudiag needs Python 3.11 or newer; none was found. Set PYTHON=/path/to/python3." >&2
    return 1
}

# make_environment run|dev
make_environment() {
    local requirements=requirements/$1.txt stamp=.venv/gpudiag-$1.stamp python wanted
    if ! .venv/bin/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$(find_python)
        echo "Making .venv with $("$python" --version) ..." >&2
        if ! "$python" -m venv --clear .venv; then
            echo "That Python cannot make a virtual environment (on Debian: apt-get install python3-venv)." >&2
            return 1
        fi
    fi
    wanted=$(cat "$requirements" pyproject.toml | cksum)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
        return
    fi
    echo "Installing $requirements ..." >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$requirements"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
    printf '%s\n' "$wanted" >"$stamp"
}
