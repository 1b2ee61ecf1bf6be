#!/bin/sh
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh TARGET BUILD SECONDS [OPTION...]: the committed corpus, then new inputs for so long. What a run finds new
# stays in BUILD/found; a failing input is named in the output and kept there. The seed is the same each time, so that
# a change fails by its own fault. A million inputs by hand:
#   sh tests/fuzz/fuzz.sh packed build/fuzz 0 -runs=1000000
set -eu
target="$1" build="$2" seconds="$3"
shift 3
here="$(cd "$(dirname "$0")" && pwd)"
found="$build/found/$target"
mkdir -p "$found"
set -- -seed=1 -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -verbosity=0 -print_final_stats=1 \
  -artifact_prefix="$build/found/$target-" "$@"
if [ -e "$here/$target.dict" ]; then set -- "$@" -dict="$here/$target.dict"; fi
exec "$build/tests/fuzz/fuzz_$target" "$@" "$found" "$here/corpus/$target"
