#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# taugrid against the public libraries that one would use instead, in turn on this machine: about 10 minutes.
# OMP_NUM_THREADS (1) holds for both sides. Arguments go to compare.py: --rounds 5, --only step
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash jobs/setup.sh --tests >&2
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
program="${TAUGRID_PROGRAM:-build/${TAUGRID_PRESET:-release}/suite/taugrid}"
exec "${TAUGRID_VENV:-.venv}/bin/python" suite/bench/peers/compare.py --program "$program" "$@"
