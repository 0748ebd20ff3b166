"""Checkpoints and recovery of both engines over the same topic: a group aggregation over BIGINT keys from Kafka to Kafka.

A topic is filled with one record a key (one for each engine), the job reads it, and a feeder goes on with a steady rate of
rows of random keys. When checkpoints have settled, the process that holds the state is killed (kill -9) and a new one is started at
once, several times. What the sink's topic says is measured: each record there has the time at which it was written.
"""
import calendar
import json
import os
import shutil
import signal
import statistics
import subprocess
import time
import urllib.request

from . import engines, machine

KAFKA_SCRIPT = os.path.join(engines.ROOT, "test", "peers", "kafka")
KAFKA_PORT, FLINK_PORT, HTTP_PORT = "45092", "48081", "48090"
INTERVAL = 10  # seconds between checkpoints

SOURCE = """CREATE TABLE src (k BIGINT, v BIGINT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') WITH (
  'connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{kafka}', 'properties.group.id' = '{group}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json');
"""
JOB = SOURCE + """CREATE TABLE res (k BIGINT, n BIGINT, total BIGINT, latest TIMESTAMP_LTZ(3), PRIMARY KEY (k) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{kafka}', 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO res SELECT k, COUNT(*), SUM(v), MAX(ts) FROM src GROUP BY k;
"""
FEED = """CREATE TABLE gen (s BIGINT, v BIGINT) WITH ('connector' = 'datagen', {rows}, 'fields.v.min' = '1', 'fields.v.max' = '1000');
CREATE TABLE topic (k BIGINT, v BIGINT) WITH ('connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{kafka}', 'format' = 'json');
INSERT INTO topic SELECT {key}, v FROM gen;
"""
# One key of twenty is enough to see when rows come.
WATCH = """CREATE TABLE res (k BIGINT, latest TIMESTAMP_LTZ(3), written TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') WITH (
  'connector' = 'kafka', 'topic' = '{sink}', 'properties.bootstrap.servers' = '{kafka}', 'scan.startup.mode' = 'latest-offset', 'format' = 'json');
SELECT latest, written FROM res WHERE MOD(k, 20) = 0;
"""

# RocksDB with incremental checkpoints, a worker that is missed after 15 s at most instead of 50 (on a busy machine less than
# that misses workers that are there), and no delay before a restart.
FLINK_CONF = f"""state.backend.type: rocksdb
execution.checkpointing.incremental: true
heartbeat.interval: 1000
heartbeat.timeout: 15000
restart-strategy.type: fixed-delay
restart-strategy.fixed-delay.attempts: 1000
restart-strategy.fixed-delay.delay: 0 s
execution.checkpointing.interval: {INTERVAL} s
"""


def get(url):
    with urllib.request.urlopen(url, timeout=10) as r:
        return json.load(r)


def now_ms():
    return time.time() * 1000


def folder_bytes(path):
    """Bytes of the files below a folder; files may go while it is counted."""
    total = 0
    for dir, _, names in os.walk(path):
        for n in names:
            try:
                total += os.lstat(os.path.join(dir, n)).st_blocks * 512
            except OSError:
                pass
    return total


def until(what, seconds, f, every=0.2):
    """Waits until f gives something true."""
    end = time.time() + seconds
    while True:
        got = f()
        if got:
            return got
        if time.time() > end:
            raise engines.BenchError(f"{what}: not within {seconds} s")
        time.sleep(every)


class Kafka:
    """A broker of the benchmark's own."""

    def __init__(self):
        self.env = {**os.environ, "KAFKA_PORT": KAFKA_PORT, "KAFKA_HEAP": "1g"}
        self.address = f"127.0.0.1:{KAFKA_PORT}"
        self.script("start")

    def script(self, *args):
        r = subprocess.run([KAFKA_SCRIPT, *args], env=self.env, text=True, capture_output=True)
        if r.returncode:
            raise engines.BenchError(f"kafka {' '.join(args)}: {r.stderr[-1500:]}")
        return r.stdout

    def topic(self, name):
        self.script("topics", "--create", "--topic", name, "--partitions", "1")

    def close(self):
        self.script("wipe")


class Program:
    """A run of the tidemark command over a text."""

    def __init__(self, engine, folder, name, text, *args, out=None):
        self.file = os.path.join(folder, name + ".sql")
        with open(self.file, "w") as f:
            f.write(text)
        self.log = open(os.path.join(folder, name + ".log"), "ab")
        self.p = subprocess.Popen([engine.binary, "run", self.file, "--quiet", *args], stdin=subprocess.DEVNULL,
                                  stdout=out or self.log, stderr=self.log, cwd=folder)

    def wait(self):
        if self.p.wait():
            raise engines.BenchError(f"{self.file} ended with {self.p.returncode}, see {self.log.name}")

    def end(self):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGINT)
            try:
                self.p.wait(30)
            except subprocess.TimeoutExpired:
                self.p.kill()
                self.p.wait()
        self.log.close()


class TidemarkJob:
    name = "tidemark"

    def __init__(self, engine, folder, text):
        self.engine, self.folder, self.text = engine, folder, text
        self.checkpoints, self.tmp = os.path.join(folder, "checkpoints"), os.path.join(folder, "tmp")
        os.makedirs(self.tmp)
        self.started = None
        self.start()

    def start(self):
        self.started = Program(self.engine, self.folder, "job", self.text, "--http", ":" + HTTP_PORT,
                               "--set", f"execution.checkpointing.interval={INTERVAL} s", "--set", "execution.checkpointing.dir=" + self.checkpoints,
                               "--set", "io.tmp.dirs=" + self.tmp)

    def status(self):
        try:
            return get(f"http://127.0.0.1:{HTTP_PORT}/status")["jobs"][0]
        except (OSError, IndexError, ValueError):
            if self.started.p.poll() is not None:
                raise engines.BenchError(f"the job ended with {self.started.p.returncode}, see {self.started.log.name}") from None
            return None

    def rows(self):
        s = self.status()
        return s["rows"]["in"] if s else 0

    def last(self):
        """The last checkpoint: id, milliseconds, bytes written, milliseconds in which rows stood still."""
        s = self.status()
        c = s and s.get("checkpoints", {}).get("last")
        return c and (c["id"], c["durationMs"], c["bytes"], c["pauseMs"])

    def memory(self):
        return machine.peak_rss_mib(self.started.p.pid)

    def disk(self):
        return folder_bytes(self.checkpoints), folder_bytes(self.tmp)

    def kill(self):
        os.kill(self.started.p.pid, signal.SIGKILL)
        at = now_ms()
        self.started.p.wait()
        self.started.log.close()
        self.start()
        return at

    def close(self):
        self.started.end()


class FlinkJob:
    name = "flink"

    def __init__(self, cluster, text):
        self.cluster = cluster
        self.run = cluster.run_folder
        self.session = engines.flink_sql.Session(cluster.gw, cluster.jm, {"table.dml-sync": "false", "pipeline.object-reuse": "true"})
        statements = engines.flink_sql.split(text)
        for s in statements[:-1]:
            self.session.execute(s)
        self.job = self.session.submit(statements[-1])

    def rest(self, path):
        return get(f"{self.cluster.jm}/jobs/{self.job}{path}")

    def rows(self):
        return max((v["metrics"]["write-records"] for v in self.rest("")["vertices"]), default=0)

    def last(self):
        c = self.rest("/checkpoints")["latest"]["completed"]
        return c and (c["id"], c["end_to_end_duration"], c["checkpointed_size"], None)

    def memory(self):
        return machine.peak_rss_mib(self.cluster.tm)

    def disk(self):
        return folder_bytes(os.path.join(self.run, "checkpoints")), folder_bytes(os.path.join(self.run, "tmp"))

    def kill(self):
        os.kill(self.cluster.tm, signal.SIGKILL)
        at = now_ms()
        self.cluster.start_worker()
        return at

    def close(self):
        self.cluster.script("cancel", self.job)
        self.session.close()


class Cluster:
    """A Flink cluster of the benchmark's own, whose TaskManager can be killed and started."""

    def __init__(self, managed, process):
        self.env = {**os.environ, "FLINK_PORT": FLINK_PORT, "FLINK_TM_MEM": process, "FLINK_MANAGED": managed, "FLINK_CONF": FLINK_CONF, "FLINK_SLOTS": "1"}
        peers = os.path.abspath(os.environ.get("TIDEMARK_PEERS", os.path.expanduser("~/.cache/tidemark-peers")))
        self.run_folder = os.path.join(peers, "run", "flink-" + FLINK_PORT)
        self.dist = os.path.join(peers, "opt", "flink-" + os.environ.get("FLINK_VERSION", "1.20.3"))
        self.script("wipe")
        self.script("start")
        self.jm, self.gw = self.script("url", "jm"), self.script("url", "gw")
        self.tm = int(self.script("pid", "tm"))

    script = engines.Flink.script

    def start_worker(self):
        """As the script starts one, but without waiting until the cluster has noticed that the other is gone."""
        run = self.run_folder
        env = {**os.environ, "FLINK_CONF_DIR": run + "/conf", "FLINK_LOG_DIR": run + "/log", "FLINK_PID_DIR": run + "/pids",
               "FLINK_IDENT_STRING": "tidemark"}
        with open(run + "/log/tm.out", "ab") as out:
            p = subprocess.Popen([self.dist + "/bin/taskmanager.sh", "start-foreground"], env=env, stdin=subprocess.DEVNULL, stdout=out,
                                 stderr=out, start_new_session=True)
        self.tm = p.pid
        with open(f"/proc/{p.pid}/stat") as f:
            start = f.read().rsplit(")", 1)[1].split()[19]
        with open(run + "/tm.pid", "w") as f:  # so that the script can stop it
            f.write(f"{p.pid} {start}\n")

    def close(self):
        self.script("wipe")


class Watcher:
    """Reads what comes into the sink's topic."""

    def __init__(self, engine, folder, kafka, sink):
        self.path = os.path.join(folder, "watch.out")
        self.out = open(self.path, "wb")
        self.program = Program(engine, folder, "watch", WATCH.format(sink=sink, kafka=kafka), "-o", "json", out=self.out)
        self.seen = 0

    def rows(self):
        """The rows that came since the last call: (when written, the newest input they were made of), ms."""
        out = []
        with open(self.path, "rb") as f:
            f.seek(self.seen)
            text = f.read()
        text = text[:text.rfind(b"\n") + 1]
        self.seen += len(text)
        for line in text.splitlines():
            r = json.loads(line)
            r = r.get("row", r)
            out.append((instant(r["written"]), instant(r["latest"])))
        return out

    def close(self):
        self.program.end()
        self.out.close()


def instant(text):
    """Milliseconds of a TIMESTAMP_LTZ as JSON has it: 2026-11-30 02:20:11.5Z."""
    day, clock = text.rstrip("Z").replace("T", " ").split(" ")
    h, m, s = clock.split(":")
    days = time.strptime(day, "%Y-%m-%d")
    return (calendar.timegm(days) + int(h) * 3600 + int(m) * 60 + float(s)) * 1000


def fill(engine, folder, kafka, source, keys):
    """One record a key, scattered."""
    rows = f"'fields.s.kind' = 'sequence', 'fields.s.start' = '0', 'fields.s.end' = '{keys - 1}', 'rows-per-second' = '100000000'"
    kafka.topic(source)
    p = Program(engine, folder, "fill", FEED.format(rows=rows, source=source, kafka=kafka.address, key=f"MOD(s * 7919, {keys})"))
    p.wait()
    p.end()


def feed(engine, folder, kafka, source, keys, rate):
    rows = f"'rows-per-second' = '{rate}', 'fields.s.min' = '0', 'fields.s.max' = '{keys - 1}'"
    return Program(engine, folder, "feed", FEED.format(rows=rows, source=source, kafka=kafka.address, key="s"))


def measure_kills(job, watch, kills, say, out):
    """Kills half way between two checkpoints; adds (seconds to the first row, to rows of input that came after the kill) to out."""
    for n in range(kills):
        before = until("a checkpoint", 300, job.last)[0]
        until("two more checkpoints", 300, lambda: (job.last() or (0,))[0] >= before + (1 if n == 0 else 2))
        time.sleep(INTERVAL / 2)
        watch.rows()
        at = job.kill()
        first = caught = None
        end = time.time() + 300
        while caught is None:
            if time.time() > end:
                raise engines.BenchError("no row of new input within 300 s of the kill")
            time.sleep(0.2)
            for written, latest in watch.rows():
                if written > at:
                    first = min(first or written, written)
                    if latest > at:
                        caught = min(caught or written, written)
        out.append(((first - at) / 1000, (caught - at) / 1000))
        say(f"  kill {n + 1}: first row after {out[-1][0]:.2f} s, caught up after {out[-1][1]:.2f} s")


def measure(job, watch_of, settle, kills, say, m):
    """What one engine does; m gets it as it comes, so that a failure loses no more than what would have followed."""
    first = until("a checkpoint with all keys", 900, job.last)[0] + 1
    until("a checkpoint with all keys", 900, lambda: (job.last() or (0,))[0] > first)
    seen, end = {}, time.time() + settle
    while time.time() < end or len(seen) < 3:
        c = job.last()
        if c:
            seen[c[0]] = c
        time.sleep(0.5)
        if time.time() > end + 600:
            raise engines.BenchError("checkpoints do not come")
    store, local = job.disk()
    m.update({"checkpoints": sorted(seen.values()), "store_bytes": store, "local_bytes": local, "rss_mib": round(job.memory()), "deaths": []})
    watch = watch_of()
    try:
        time.sleep(2)
        measure_kills(job, watch, kills, say, m["deaths"])
    finally:
        watch.close()


def mib(n):
    return f"{n / 2**20:,.1f}"


def run(a, report):
    """The command: sizes one after the other, both engines each."""
    engine = engines.Tidemark(a.data, a.binary)
    work = os.path.join(a.data, "recovery")
    shutil.rmtree(work, ignore_errors=True)
    r = report(a, f"Checkpoints every {INTERVAL} s and recovery after kill -9: COUNT, SUM and MAX by a BIGINT key, {a.rate:,} rows/s of random keys")
    r.columns("keys", "engine", "checkpoint, ms (median)", "written a checkpoint, MiB", "checkpoint folder, MiB", "local files, MiB",
              "first row after the kill, s (median)", "all of them", "caught up, s (median)", "peak memory, MiB", "load of the machine")
    kafka = Kafka()
    try:
        for keys in a.sizes:
            size(a, r, engine, work, kafka, keys)
    finally:
        kafka.close()


def size(a, r, engine, work, kafka, keys):
    folder = os.path.join(work, str(keys))
    os.makedirs(folder)
    print(f"{keys:,} keys", flush=True)
    for name in a.engines.split(","):
        source, sink, mine = f"in-{keys}-{name}", f"out-{keys}-{name}", os.path.join(folder, name)
        os.makedirs(mine)
        fill(engine, mine, kafka, source, keys)
        kafka.topic(sink)
        text = JOB.format(source=source, sink=sink, kafka=kafka.address, group=sink)
        cluster = Cluster("1g", "3g") if name == "flink" else None
        feeder = job = None
        m = {}
        try:
            job = FlinkJob(cluster, text) if cluster else TidemarkJob(engine, mine, text)
            t = time.time()
            until(f"{keys:,} rows", 3600, lambda: job.rows() >= keys, 1)
            print(f"  {name} has read {keys:,} rows after {time.time() - t:.0f} s", flush=True)
            feeder = feed(engine, mine, kafka, source, keys, a.rate)
            measure(job, lambda: Watcher(engine, mine, kafka.address, sink), a.settle, a.kills, lambda s: print(s, flush=True), m)
        except (engines.BenchError, engines.flink_sql.FlinkError, OSError) as e:
            r.note(f"{keys:,} keys on {name}: {e}")
            m["error"] = str(e)
        finally:
            for x in (feeder and feeder.end, job and job.close, cluster and cluster.close):
                if x:
                    try:
                        x()
                    except (engines.BenchError, engines.flink_sql.FlinkError, OSError) as e:
                        print(f"  {e}", flush=True)
        load = os.getloadavg()[1]
        r.raw(keys=keys, engine=name, rate=a.rate, load=round(load, 1), **m)
        if not m.get("checkpoints"):
            continue
        first, caught = zip(*m["deaths"]) if m["deaths"] else ([], [])
        middle = lambda list: f"{statistics.median(list):.2f}" if list else ""  # noqa: E731
        r.line(f"{keys:,}", name, round(statistics.median(c[1] for c in m["checkpoints"])), mib(statistics.median(c[2] for c in m["checkpoints"])),
               mib(m["store_bytes"]), mib(m["local_bytes"]), middle(first), " ".join(f"{x:.2f}" for x in first),
               middle(caught), m["rss_mib"], f"{load:.1f}")
