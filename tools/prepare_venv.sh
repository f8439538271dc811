#!/usr/bin/env bash
# Makes the virtual environment that `make` works in: with the system's packages
# when its Python has PyTorch, else with a PyTorch of its own.
#
# usage: tools/prepare_venv.sh PYTHON VENV
# environment: TORCH_REQUIREMENT  what to ask pip for where the system has no
#   PyTorch; empty for none (the tests that need it are then skipped).
set -euo pipefail

python=${1:?usage: tools/prepare_venv.sh PYTHON VENV}
venv=${2:?usage: tools/prepare_venv.sh PYTHON VENV}
here=$(cd "$(dirname "$0")/.." && pwd)
torch_requirement=${TORCH_REQUIREMENT-torch==2.13.0}

if [ ! -x "$venv/bin/python" ]; then
  options=()
  if "$python" -c 'import torch' 2>/dev/null; then
    echo "using the PyTorch of $python"
    options=(--system-site-packages)
  fi
  "$python" -m venv "${options[@]}" "$venv"
fi
pip=("$venv/bin/python" -m pip --disable-pip-version-check --quiet)
"${pip[@]}" install --upgrade 'pip>=23'
"${pip[@]}" install -r "$here/python/requirements.txt" -r "$here/python/requirements-dev.txt"

if "$venv/bin/python" -c 'import torch' 2>/dev/null; then
  :
elif [ -z "$torch_requirement" ]; then
  echo "no PyTorch, as TORCH_REQUIREMENT is empty"
else
  echo "installing $torch_requirement. Where pip's index has only CUDA builds this takes several GB;"
  echo "to avoid it, point pip at an index of CPU builds, or set TORCH_REQUIREMENT to another"
  echo "requirement or to nothing."
  "${pip[@]}" install "$torch_requirement"
fi
