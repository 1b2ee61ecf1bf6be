# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# What the bundle's programs need in their environment. Sourced, with `bundle` naming its folder; takes `--torch PYTHON`
# from the front of the arguments, which it leaves in `arguments`.
say_and_end() { printf 'taugrid: error: %s\n' "$*" >&2; exit 2; }
if [ "${1:-}" = --torch ]; then
  [ $# -ge 2 ] || say_and_end "--torch names no Python; expected --torch PYTHON, one that has torch"
  TAUGRID_TORCH_PYTHON="$2"
  shift 2
fi
arguments=("$@")
export TAUGRID_TORCH_PYTHON="${TAUGRID_TORCH_PYTHON:-python3}"

expected_torch="$(cat "$bundle/share/torch-version")"
if [ "${TAUGRID_BUNDLE_READY:-}" != "$bundle:$TAUGRID_TORCH_PYTHON" ]; then  # ranks have it from mpirun.sh
  found="$("$TAUGRID_TORCH_PYTHON" -c '
import importlib.metadata, importlib.util
print(importlib.util.find_spec("torch").submodule_search_locations[0])
print(importlib.metadata.version("torch"))' 2>/dev/null)" ||
    say_and_end "$TAUGRID_TORCH_PYTHON has no torch; name a Python that has torch $expected_torch: --torch PYTHON"
  { read -r torch_folder; read -r torch_version; } <<<"$found"
  [ "${torch_version%%+*}" = "$expected_torch" ] ||
    say_and_end "$TAUGRID_TORCH_PYTHON has torch $torch_version; this bundle needs $expected_torch: --torch PYTHON"
  [ -e "$torch_folder/lib/libtorch_cpu.so" ] || say_and_end "there is no $torch_folder/lib/libtorch_cpu.so"

  # The system's C++ library where it is as new as the bundle's own or newer: other libraries may need the newer one.
  compiler=""
  newest() { grep -aoE 'GLIBCXX_3\.4\.[0-9]+' "$1" | sort -uV | tail -n 1; }
  system="$({ /sbin/ldconfig -p || ldconfig -p; } 2>/dev/null | awk '/libstdc\+\+\.so\.6 .*x86-64/ {print $NF; exit}')"
  if [ -z "$system" ] || [ ! -e "$system" ] ||
    [ "$(printf '%s\n' "$(newest "$system")" "$(newest "$bundle/lib/compiler/libstdc++.so.6")" | sort -V | tail -n 1)" != "$(newest "$system")" ]; then
    compiler=":$bundle/lib/compiler"
  fi
  export LD_LIBRARY_PATH="$bundle/lib:$torch_folder/lib$compiler${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  export OPAL_PREFIX="$bundle" OPAL_SYSCONFDIR="$bundle/etc/openmpi"
  # Plugins of the system's own PMIx and hwloc are of other versions.
  export PMIX_PKGLIBDIR="$bundle/lib/pmix" HWLOC_PLUGINS_PATH="$bundle/lib/hwloc"
  # Open MPI ends at once where it finds neither, though it needs one for other hosts alone.
  command -v ssh >/dev/null || command -v rsh >/dev/null || export OMPI_MCA_plm_rsh_agent="${OMPI_MCA_plm_rsh_agent:-false}"
  export TAUGRID_BUNDLE_READY="$bundle:$TAUGRID_TORCH_PYTHON"
fi
