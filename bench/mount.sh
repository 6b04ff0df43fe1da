#!/usr/bin/env bash
# The mounted file system beside a pass-through FUSE file system on the same backing: sequential write
# (with its fsync) and sequential read of one file, interleaved, in one run. Prints MiB/s (median,
# least, most), CPU seconds of the server for each GiB, and the ratio of ours to the peer.
#
#   bench/mount.sh [--runs 3] [--size 512M] [--block 1M] [--options LIST]
#
#   --size     bytes of the file
#   --block    bytes of a request of the program
#   --options  `-o` of our mount
#
#   VARVE      our program (target/release/varve of this checkout)
#   SCRATCH    where image and files go for the time of the run; a tmpfs (/dev/shm)
#   PEER       a program PEER -o source=FOLDER -f DIR; if it is not set, the example passthrough_ll
#              of the package libfuse3-dev is compiled here
#
# Each run reads what it wrote, after the mount was made anew, so that nothing comes from the pages
# that the kernel kept of the mount itself. Both servers stand over the same tmpfs: ours over an image,
# the peer over a folder. Needs root, fio and python3.
set -euo pipefail
export LC_ALL=C

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VARVE=${VARVE:-$here/target/release/varve}
runs=3; size=512M; block=1M; options=

usage() { sed -n '2,/^set -/{/^set -/!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; }
die() { echo "mount.sh: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case $1 in
    --runs|--size|--block|--options)
      [ $# -gt 1 ] || die "$1: a value is missing"
      declare "${1#--}=$2"; shift ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument $1" ;;
  esac
  shift
done
[ "$(id -u)" -eq 0 ] || die "needs root"
[ -x "$VARVE" ] || die "$VARVE: not there; build it with \`cargo build --release -p varve\`"
for tool in fio python3; do command -v $tool >/dev/null || die "$tool: not there (scripts/setup)"; done

scratch=$(mktemp -d "${SCRATCH:-/dev/shm}/mount.XXXXXX")
dir=$scratch/mounted
mkdir "$dir" "$scratch/folder"
server=
end() {
  ! mountpoint -q "$dir" || umount "$dir" || umount -l "$dir" || true
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$scratch"
}
trap end EXIT

if [ -z "${PEER-}" ]; then
  example=/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c
  [ -e $example ] || [ -e $example.gz ] ||
    die "no pass-through to compare with: install libfuse3-dev and pkg-config, or set PEER"
  if [ -e $example ]; then cp "$(dirname $example)"/passthrough* "$scratch"; else
    for file in "$(dirname $example)"/passthrough*; do
      case $file in *.gz) gzip -dc "$file" >"$scratch/$(basename "$file" .gz)" ;; *) cp "$file" "$scratch" ;; esac
    done
  fi
  # shellcheck disable=SC2046
  cc -O2 -w -D_GNU_SOURCE "$scratch/passthrough_ll.c" $(pkg-config --cflags --libs fuse3) -o "$scratch/peer"
  PEER=$scratch/peer
  echo "mount.sh: the peer is passthrough_ll of libfuse $(pkg-config --modversion fuse3)"
fi

up() { # varve|peer
  case $1 in
    varve)
      [ -e "$scratch/image" ] || "$VARVE" mkfs "$scratch/image" --size "$bytes" >/dev/null
      "$VARVE" mount "$scratch/image" "$dir" --foreground ${options:+-o "$options"} >"$scratch/log" 2>&1 & ;;
    peer) "$PEER" -o "source=$scratch/folder" -f "$dir" >"$scratch/log" 2>&1 & ;;
  esac
  server=$!
  for _ in $(seq 200); do
    ! mountpoint -q "$dir" || return 0
    kill -0 $server 2>/dev/null || { cat "$scratch/log" >&2; die "$1 did not mount"; }
    sleep 0.02
  done
  die "$1 did not mount"
}

# CPU seconds that a process used.
cpu() { python3 -c 'import sys
f = open("/proc/%s/stat" % sys.argv[1]).read().rsplit(")", 1)[1].split()
print((int(f[11]) + int(f[12])) / 100)' "$1"; }

down() {
  umount "$dir"
  wait $server || die "the server failed: $(cat "$scratch/log")"
  server=
}

job() { # NAME write|read: appends "NAME KIND MIB/S CPU" to the results
  local name=$1 kind=$2 before after speed
  before=$(cpu $server)
  speed=$(fio --name=j --filename="$dir/file" --rw="$kind" --bs="$block" --size="$size" --ioengine=psync \
    --end_fsync=1 --output-format=json | python3 -c 'import json, sys
j = json.load(sys.stdin)["jobs"][0][sys.argv[1]]
print(j["bw_bytes"] / (1 << 20))' "$kind")
  after=$(cpu $server)
  echo "$name $kind $speed $(python3 -c "print($after - $before)")" >>"$scratch/results"
}

bytes=$(python3 -c 'import sys
t = sys.argv[1]
print(int(t[:-1]) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[t[-1]] * 2 + (256 << 20) & -4096)' "$size")
for run in $(seq "$runs"); do
  for name in varve peer; do
    up $name
    rm -f "$dir/file"
    job $name write
    down
    # Nothing of the file is in the kernel's pages of this mount.
    up $name
    job $name read
    down
  done
done
python3 - "$scratch/results" "$size" <<'PY'
import statistics, sys
unit = {"K": 1 / (1 << 20), "M": 1 / (1 << 10), "G": 1}
gib = float(sys.argv[2][:-1]) * unit[sys.argv[2][-1]]
rows = [line.split() for line in open(sys.argv[1])]
medians = {}
print(f"{'':16}{'MiB/s':>8} {'least':>8} {'most':>8} {'CPU s/GiB':>10}")
for kind in ("write", "read"):
    for name in ("varve", "peer"):
        speeds = [float(r[2]) for r in rows if r[:2] == [name, kind]]
        cpus = [float(r[3]) / gib for r in rows if r[:2] == [name, kind]]
        medians[name, kind] = statistics.median(speeds)
        print(f"{kind + ' ' + name:16}{statistics.median(speeds):8.0f} {min(speeds):8.0f} "
              f"{max(speeds):8.0f} {statistics.median(cpus):10.2f}")
for kind in ("write", "read"):
    print(f"{kind}: ours is {medians['varve', kind] / medians['peer', kind]:.2f} of the peer")
PY
