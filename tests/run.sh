#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Sets up, builds and runs every test, or with --quick those without the label `long`, for who changes a file. Further
# arguments go to ctest: bash tests/run.sh -R models
set -euo pipefail
if [ "${1-}" = --quick ]; then
  shift
  set -- -LE '^long$' "$@"
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash jobs/setup.sh --tests
unset PYTHONDONTWRITEBYTECODE  # see jobs/steps.sh
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
# Open MPI's plugins leak, and are unloaded before the sanitizer's report, so that no suppression can name them. Stand-ins
# for devices are loaded before everything else, the sanitizer too.
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=0:verify_asan_link_order=0}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}"  # else a test passes, and nobody sees the line
build="build/${TAUGRID_PRESET:-release}" code=0
# Three more than there are processors: many tests wait for a death, a limit or a launcher half of their time, asleep.
ctest --test-dir "$build" --output-on-failure -j "$(($(nproc) + 3))" "$@" || code=$?
bash tests/skipped.sh "$build/Testing/Temporary/LastTest.log"
exit "$code"
