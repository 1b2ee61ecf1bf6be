#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# taugrid against the public libraries that one would use instead, in turn on this machine: three rounds of 27 minutes on a
# quiet EPYC of Zen 3. Each measurement is printed as it is made, with the time left, and kept after an interruption. At the
# end come whole merges, among them a round of bfloat16 ones, minutes each, with 13 GB of files in TMPDIR.
#   bash jobs/bench_peers.sh [--install] [ARGUMENTS of compare.py, such as --rounds 5, --only step]
# --install: also those that nothing else here needs, 0.6 GB into build/peers; whichever is missing is named.
# --record: adds the numbers to docs/peers.toml, and renews the table of docs/speed.md.
# OMP_NUM_THREADS (1) holds for both sides; neural-tangents always takes one thread.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash jobs/setup.sh --tests >&2
venv="${TAUGRID_VENV:-.venv}"
if [ "${1:-}" = --install ]; then
  shift
  "$venv/bin/pip" install --quiet --no-deps --upgrade --target build/peers/torch -r jobs/packages/python-peers-torch.txt
  "$venv/bin/python" -m venv build/peers/jax
  build/peers/jax/bin/pip install --quiet --no-deps -r jobs/packages/python-peers-jax.txt
fi
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
program="${TAUGRID_PROGRAM:-build/${TAUGRID_PRESET:-release}/suite/taugrid}"
exec "$venv/bin/python" jobs/peers/compare.py --program "$program" "$@"
