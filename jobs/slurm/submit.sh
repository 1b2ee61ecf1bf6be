# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that submit several jobs. Where sbatch refuses one, those before it are cancelled.
set -euo pipefail
name="${0##*/}" name="${name%.sh}"
say_and_end() { echo "$name: $*" >&2; exit 2; }
submitted=()
give_up() {
  local code=$?
  if [ "$code" != 0 ] && [ ${#submitted[@]} -gt 0 ]; then
    if scancel "${submitted[@]}"; then
      echo "$name: a job was refused; cancelled: ${submitted[*]}" >&2
    else
      echo "$name: a job was refused; scancel failed, so these stay in the queue: ${submitted[*]}" >&2
    fi
  fi
}
trap give_up EXIT

# submit WORD…: a job of these words for sbatch, whose number `job` is then.
submit() {
  job=$(sbatch --parsable "$@")
  job="${job%%;*}"  # in a federation the cluster's name stands behind it
  submitted+=("$job")
}

# keep_where WORD…: `where` has those of the words for sbatch then that decide where a job may run at all.
keep_where() {
  where=()
  while [ $# -gt 0 ]; do
    case "$1" in
      --account=* | --partition=* | --qos=* | --reservation=* | -[Apq]?*) where+=("$1") ;;
      --account | --partition | --qos | --reservation | -[Apq]) where+=("$1" "${2:-}") ;;
    esac
    shift
  done
}
