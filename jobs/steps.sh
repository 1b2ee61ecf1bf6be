# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Sourced: what each step of a job takes, and two at once.

# setup.sh installs Python packages without their compiled modules, most of which are never imported. With this variable,
# which images of containers like to set, those that are would be compiled again at each start: for 1 to 4 seconds.
unset PYTHONDONTWRITEBYTECODE

# step NAME: this goes on from here until the next step, or end_step. When it ends, a line says how long it took, where
# that was a second or more; the file that TAUGRID_STEPS names, where it is set, has the line in any case.
step() {
  end_step
  step_name="$1" step_start="$SECONDS"
}

end_step() {
  [ -n "${step_name:-}" ] || return 0
  local took="$((SECONDS - step_start))"
  if [ "$took" -gt 0 ]; then printf '# %s: %s\n' "$step_name" "$(as_time "$took")"; fi
  if [ -n "${TAUGRID_STEPS:-}" ]; then printf '%s\t%s\n' "$took" "$step_name" >>"$TAUGRID_STEPS"; fi
  step_name=""
}

# as_time SECONDS: "2 min 40 s".
as_time() {
  if [ "$1" -lt 60 ]; then echo "$1 s"; else echo "$(($1 / 60)) min $(($1 % 60)) s"; fi
}

# both FUNCTION FUNCTION: both at the same time. Each goes on to its end; where one has failed, a line says so, and the
# script ends. It takes the script's trap of EXIT: who stops the script stops both, and it waits for their end.
both() {
  set -m  # each has a process group of its own, which can be ended whole
  "$1" </dev/null & local first=$!
  "$2" </dev/null & local second=$!
  set +m
  trap "kill -- -$first -$second 2>/dev/null || true; wait || true" EXIT
  local code=0
  wait "$first" || { code=$?; printf '# %s failed: see above\n' "$1" >&2; }
  wait "$second" || { code=$?; printf '# %s failed: see above\n' "$2" >&2; }
  trap - EXIT
  [ "$code" = 0 ] || exit "$code"
}
