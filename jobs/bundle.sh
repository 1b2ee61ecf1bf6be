#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Makes one archive that runs on any x86-64 Linux with glibc 2.36 or newer, without root and without a network, beside a
# Python environment that has the same PyTorch: the program, Open MPI with its plugins, HDF5, Kokkos and what else they
# need. LibTorch, CUDA and NCCL come from that PyTorch. docs/clusters.md says how it is used.
#   bash jobs/bundle.sh [ARCHIVE]      [build/taugrid-bundle.tar.xz]
# The program is built once for each of LEVELS, and taugrid.sh takes the best that the processor there has.
#   LEVELS="x86-64 x86-64-v3 x86-64-v4" is the default; without x86-64 it does not run everywhere.
#   PROGRAM=FILE takes this program, for processors like the one that it was built for, and builds none.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
say() { printf 'bundle: %s\n' "$*"; }
archive="${1:-build/taugrid-bundle.tar.xz}"
levels="${LEVELS:-x86-64 x86-64-v3 x86-64-v4}"
venv="${TAUGRID_VENV:-.venv}"
[ -x "$venv/bin/python" ] || { say "there is no $venv/bin/python: run bash jobs/setup.sh first" >&2; exit 2; }
torch="$("$venv/bin/python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')"
parts="$(mktemp -d)"
trap 'rm -rf "$parts"' EXIT
root="$parts/taugrid"
mkdir -p "$root/bin" "$root/lib/compiler" "$root/lib/hwloc" "$root/share"

[ -z "${PROGRAM:-}" ] || { levels=""; install -D --strip "$PROGRAM" "$root/bin/x86-64/taugrid"; }
for level in $levels; do
  build="build/bundle/$level"
  mkdir -p "$build" "$root/bin/$level"
  if [ ! -e "$build/build.ninja" ]; then
    cmake --preset release -B "$build" \
      -DTAUGRID_ENABLE_NATIVE=OFF -DCMAKE_CXX_FLAGS="-march=$level" -DTAUGRID_ENABLE_TESTS=OFF \
      -DTAUGRID_TORCH_ROOT="$torch" >"$build/configure.log" 2>&1 || { tail -n 20 "$build/configure.log" >&2; exit 1; }
  fi
  say "building for $level"
  cmake --build "$build" --target taugrid -- --quiet
  install --strip "$build/suite/taugrid" "$root/bin/$level/"
done

say "adding Open MPI and libraries"
path_of() { ompi_info --path "$1" --parsable | sed -n "s/^path:$1://p"; }
prefix="$(path_of prefix)"
for program in orterun orted; do install "$(path_of bindir)/$program" "$root/bin/"; done
# Plugins of networks and libraries that a machine has or lacks stay out: what is there speaks shared memory and TCP.
plugins="$root$(path_of pkglibdir | sed "s|^$prefix||")"
mkdir -p "$plugins"
for plugin in "$(path_of pkglibdir)"/mca_*.so; do
  case "$plugin" in
    *ucx* | *ofi* | *openib* | *psm* | *monitoring* | *flux* | *scoll* | *spml* | *sshmem* | *memheap*) ;;
    *) install -m 644 "$plugin" "$plugins/" ;;
  esac
done
cp -rL "$(path_of pkgdatadir)" "$root/share/openmpi"
mkdir -p "$root/etc/openmpi"
cp "$(path_of sysconfdir)"/*.conf "$root/etc/openmpi/" 2>/dev/null || true

# Every library that one of these needs, but those of the C library, which belong to the system, and PyTorch's.
closure() { ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u; }
closure "$root"/bin/*/taugrid "$root"/bin/orte* "$plugins"/*.so >"$parts/libraries"
pmix="$(ldconfig -p | awk '/libpmix\.so\.2/ && !found++ {print $NF}')"  # to the end, else ldconfig dies of its pipe
if [ -n "$pmix" ]; then
  mkdir -p "$root/lib/pmix"
  install -m 644 "$(dirname "$(readlink -f "$pmix")")"/pmix/*.so "$root/lib/pmix/"
  closure "$root"/lib/pmix/*.so >>"$parts/libraries"
fi
environment="$(readlink -f "$venv")"
sort -u "$parts/libraries" | while read -r library; do
  case "$(readlink -f "$library")" in "$environment"/*) continue ;; esac
  case "$(basename "$library")" in
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | libutil.so.* | libresolv.so.* | libmvec.so.* | \
      libgomp.so.* | ld-linux*) ;;
    libstdc++.so.* | libgcc_s.so.*) install -m 644 "$library" "$root/lib/compiler/" ;;
    *) install -m 644 "$library" "$root/lib/" ;;
  esac
done
# Before its paths are removed, by a level that this processor has.
for program in "$root"/bin/*/taugrid; do "$program" --version >"$root/share/version" 2>/dev/null && break; done
for program in "$root"/bin/*/taugrid; do  # the paths of this machine
  echo "file(RPATH_REMOVE FILE \"$program\")" >"$parts/rpath.cmake"
  cmake -P "$parts/rpath.cmake" 2>/dev/null
done

"$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("torch").split("+")[0])' >"$root/share/torch-version"
install jobs/bundle/taugrid.sh jobs/bundle/mpirun.sh "$root/"
install -m 644 jobs/bundle/environment.sh "$root/share/"
install -m 644 LICENSE "$root/"

mkdir -p "$(dirname "$archive")"
tar -C "$parts" --sort=name --owner=0 --group=0 -c taugrid | xz -T0 -1 >"$archive.part"
mv "$archive.part" "$archive"
say "$archive: $(du -h "$archive" | cut -f1), $(cat "$root/share/version"), for PyTorch $(cat "$root/share/torch-version")"
