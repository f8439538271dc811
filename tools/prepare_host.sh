#!/usr/bin/env bash
# Makes sure that this host has what building and testing the tree needs besides
# Python packages: a C++ compiler with binutils, Python's headers and venv, and,
# with the argument `tests`, GoogleTest and an LLVM for the fake PPU SDK. What is
# missing is installed with
# apt-get where that exists and we may use it; otherwise a message says what to
# install. Does nothing when nothing is missing.
#
# usage: tools/prepare_host.sh PYTHON [tests]
set -euo pipefail

python=${1:?usage: tools/prepare_host.sh PYTHON [tests]}
want_tests=${2:-}

if ! "$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 15))'; then
  echo "error: CPython 3.10 to 3.14 is needed; \`$python\` is:" \
    "$("$python" --version 2>&1 || echo 'not there'). Name another with PYTHON=..." >&2
  exit 1
fi

# Debian names packages by the version of the distribution's own interpreter.
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
missing=()
compiles() { printf '%s\n' "$1" | "${CXX:-g++}" -x c++ -fsyntax-only "${@:2}" - >/dev/null 2>&1; }

if ! compiles 'int main() {}'; then missing+=(g++); fi
if ! command -v strip >/dev/null; then missing+=(binutils); fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then missing+=("python$version-venv"); fi
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
if [ ! -e "$include/Python.h" ]; then missing+=("python$version-dev"); fi
if [ "$want_tests" = tests ] && ! [[ " ${missing[*]} " = *" g++ "* ]] &&
  ! compiles '#include <gtest/gtest.h>'; then
  missing+=(libgtest-dev)
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then as_root=(sudo -n); fi
can_install() {
  command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }
}

# An LLVM that reads this Triton's IR (20 or later), with which the fake PPU SDK of the tests parses
# what it is given. Where there is none to install the tests do without, and say so.
if [ "$want_tests" = tests ] && ! compgen -G '/usr/lib/llvm-[2-9][0-9]/bin/llvm-as' >/dev/null &&
  can_install; then
  apt-cache show llvm-22 >/dev/null 2>&1 || "${as_root[@]}" apt-get update -qq || true
  for number in 22 21 20; do
    if apt-cache show "llvm-$number" >/dev/null 2>&1; then
      missing+=("llvm-$number")
      break
    fi
  done
fi
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

if can_install; then
  echo "installing with apt-get: ${missing[*]}"
  # A list of packages that cannot be refreshed may still be good enough.
  "${as_root[@]}" apt-get update -qq || true
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
  exit 0
fi
echo "error: this host lacks: ${missing[*]}" >&2
echo "  to do: install them (the names are Debian's; GoogleTest is libgtest-dev there)," >&2
echo "         or run this as root where apt-get exists" >&2
exit 1
