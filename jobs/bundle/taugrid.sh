#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# The program: ./taugrid.sh [--torch PYTHON] run …    PYTHON is one that has torch [python3, or TAUGRID_TORCH_PYTHON].
bundle="$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)"
source "$bundle/share/environment.sh"
# The loader names the levels of x86-64 that this processor has.
supported="$(/lib64/ld-linux-x86-64.so.2 --help 2>/dev/null | awk '/\(supported/ {print $1}')"
program=""
for level in x86-64-v4 x86-64-v3 x86-64-v2 x86-64; do
  [ -x "$bundle/bin/$level/taugrid" ] || continue
  if [ "$level" = x86-64 ] || grep -qx "$level" <<<"$supported"; then program="$bundle/bin/$level/taugrid"; break; fi
done
[ -n "$program" ] || say_and_end "no program in $bundle/bin is for this processor"
exec "$program" ${arguments[@]+"${arguments[@]}"}
