#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# The steps of Containerfile in a fresh Debian 12, where no container runtime is to be had: as root, with debootstrap.
#   bash tests/project/fresh_root.sh FOLDER [COMMAND [ARGUMENT…]]     the recipe's own command, or another
# FOLDER is made where it is missing, takes some 12 GB, and stays; a second call goes on with what is there. An
# administrator's own certificates and pip settings are put into it by hand, as into any fresh machine.
set -euo pipefail
root="$(realpath -m "${1:?usage: fresh_root.sh FOLDER [COMMAND …]}")"
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
variables=() folder=/

inside() {  # in a mount name space of its own, so that nothing stays mounted however this ends
  unshare --mount --pid --fork bash -c '
    root=$1 folder=$2; shift 2
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys" || exit
    exec chroot "$root" /bin/sh -c "cd \"\$0\" && exec \"\$@\"" "$folder" "$@"
  ' bash "$root" "$folder" env "HOME=/root" "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
    ${variables[@]+"${variables[@]}"} "$@"
}

while read -r step rest; do
  case "$step" in
    "" | "#"*) continue ;;
    *) echo "== $step $rest" ;;
  esac
  case "$step" in
    FROM)
      [ "$rest" = debian:12 ] || { echo "fresh_root: no debootstrap for $rest" >&2; exit 2; }
      [ -x "$root/bin/sh" ] || debootstrap --variant=minbase bookworm "$root" >/dev/null
      cp /etc/resolv.conf /etc/hosts "$root/etc/" ;;
    ENV) variables+=("$rest") ;;
    WORKDIR) folder="$rest"; mkdir -p "$root$folder" ;;
    COPY)
      read -r from to <<<"$rest"
      rm -rf "${root:?}$folder/$to" && cp -r "$from" "$root$folder/$to" && chown -R 0:0 "$root$folder/$to" ;;
    RUN) inside /bin/sh -c "$rest" ;;
    CMD)
      [ $# -gt 0 ] || mapfile -t command < <(python3 -c 'import json, sys; print(*json.loads(sys.argv[1]), sep="\n")' "$rest")
      inside "${@:-${command[@]}}" ;;
    *) echo "fresh_root: cannot do $step" >&2; exit 2 ;;
  esac
done < Containerfile
