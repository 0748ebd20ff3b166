# Sourced by the peer scripts in the folder above; expects NAME to be set.
# What is installed lies in $PEERS/opt, what an instance writes in $PEERS/run/NAME-PORT.
PEERS=${TIDEMARK_PEERS:-$HOME/.cache/tidemark-peers}
mkdir -p "$PEERS/opt" "$PEERS/run"
PEERS=$(cd "$PEERS" && pwd)

die() { echo "$NAME: $*" >&2; exit 1; }
say() { echo "$NAME: $*" >&2; }

port_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# port_free PORT: a process that just ended may hold its port for a moment
port_free() {
  local n
  for ((n = 0; n < 50; n++)); do port_open "$1" || return 0; sleep 0.1; done
  die "port $1 is taken by another program; choose another one"
}

# proc_start PID: when the process started, in clock ticks since boot
proc_start() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# pid_write FILE PID: the start time beside the pid guards against a reused pid
pid_write() { echo "$2 $(proc_start "$2")" >"$1"; }

# pid_read FILE: prints the pid when that very process still runs
pid_read() {
  local pid start
  [[ -s $1 ]] || return 1
  read -r pid start <"$1" || true
  [[ -n ${pid:-} && -n ${start:-} && $(proc_start "$pid") == "$start" ]] || return 1
  [[ $(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -d' ' -f1) != Z ]] || return 1
  echo "$pid"
}

# pid_stop FILE SECONDS: TERM, then KILL after SECONDS; only ever the process that FILE names
pid_stop() {
  local pid n
  pid=$(pid_read "$1") || { rm -f "$1"; return 1; }
  kill "$pid" 2>/dev/null || true
  for ((n = 0; n < $2 * 10; n++)); do pid_read "$1" >/dev/null || break; sleep 0.1; done
  if pid_read "$1" >/dev/null; then kill -9 "$pid" 2>/dev/null || true; sleep 0.3; fi
  rm -f "$1"
}

# spawn PIDFILE LOG CMD...: in the background, in a session of its own; what it says goes behind what is in LOG
spawn() {
  local pidfile=$1 log=$2; shift 2
  # 9 is the lock of install and start: a server must not inherit it
  nohup setsid "$@" >>"$log" 2>&1 </dev/null 9>&- &
  pid_write "$pidfile" $!
}

# why_ended FILE...: what the logs of a process say of its end: the lines that tell of something fatal, or else the last
why_ended() {
  local f lines
  for f in "$@"; do
    [[ -s $f ]] || continue
    lines=$(grep -aiE 'fatal|panic|signal|out of ?memory|no space|uncaught|exception in thread' "$f" | tail -n 25 | cut -c 1-400) || true
    [[ -n $lines ]] || lines=$(tail -n 10 "$f" | cut -c 1-400)
    printf '%s\n' "$lines"
  done
}

# with_lock FILE CMD...: one at a time
with_lock() {
  local f=$1; shift
  exec 9>"$f"; flock 9
  "$@"
  exec 9>&-
}

# need COMMAND PACKAGE: installs Debian's PACKAGE when COMMAND is missing
need() {
  command -v "$1" >/dev/null && return 0
  say "installing $2"
  apt_install "$2"
  command -v "$1" >/dev/null || die "$1 is missing and package $2 did not bring it"
}

apt_install() {
  local log=$PEERS/opt/apt.log
  [[ $(id -u) == 0 ]] || die "needs Debian package(s) $*: install them, or run this as root"
  { DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" ||
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; }
  } >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "apt-get install $* did not work"; }
}

# need_java: Java 17 or newer, and Maven, which fetches the jars
need_java() {
  need curl curl
  need java openjdk-17-jre-headless
  need mvn maven
  local v
  v=$("${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
  ((${v:-0} >= 17)) || die "Java 17 or newer is wanted, found ${v:-none}; set JAVA_HOME"
}

# usage FILE: the comment at the top of a script
usage() { sed -n '2,/^set -/p' "$1" | sed '$d; s/^# \{0,1\}//'; exit 2; }
