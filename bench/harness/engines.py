"""Tidemark and Flink behind one face: run(sql, settings) gives wall and CPU seconds and the peak of memory."""
import dataclasses
import os
import re
import subprocess
import sys
import threading
import time

from . import machine

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test", "peers", "lib"))
import flink_sql  # noqa: E402

FLINK_SCRIPT = os.path.join(ROOT, "test", "peers", "flink")


class BenchError(Exception):
    pass


@dataclasses.dataclass
class Run:
    wall: float      # seconds
    cpu: float       # user and system seconds
    rss_mib: float   # peak
    others: float    # cores that other programs took meanwhile


class PeakMemory:
    """The peak resident size of a process while the block runs, sampled: what the kernel keeps for
    wait4 counts the memory of the program that started the process too."""

    def __init__(self, pid):
        self.pid, self.mib, self.stop = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while True:
            self.mib = max(self.mib, machine.peak_rss_mib(self.pid))
            if self.stop.wait(0.02):
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


class Tidemark:
    name = "tidemark"

    def __init__(self, data_dir, binary=None, tmp="tmp"):
        self.data_dir, self.binary = data_dir, binary or os.path.join(data_dir, "tidemark")
        self.tmp, self.prefix = os.path.join(data_dir, tmp), []
        os.makedirs(self.tmp, exist_ok=True)
        if not binary:
            subprocess.run(["go", "build", "-o", self.binary, "./cmd/tidemark"], cwd=ROOT, check=True)
        self.cpu_list = None

    def close(self):
        pass

    def fresh(self, cpu_list):
        """Makes ready for another query: a process of its own is fresh anyway."""
        self.cpu_list = cpu_list

    def run(self, sql, settings):
        file = os.path.join(self.tmp, "query.sql")
        with open(file, "w") as f:
            f.write(sql)
        cmd = [self.binary, "run", file]
        for k, v in settings.items():
            cmd += ["--set", f"{k}={v}"]
        return self.measure(cmd)

    def measure(self, cmd):
        if self.cpu_list:
            cmd = ["taskset", "-c", ",".join(map(str, self.cpu_list))] + cmd
        cmd = self.prefix + cmd
        log = os.path.join(self.tmp, "tidemark.log")
        busy, t0 = machine.busy(), time.perf_counter()
        with open(log, "wb") as out:
            p = subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            with PeakMemory(p.pid) as peak:
                # WNOWAIT: the pid is not given away while the watcher reads it
                os.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)
                wall = time.perf_counter() - t0
            _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode:
            with open(log, errors="replace") as f:
                raise BenchError(f"{self.name} exited with {p.returncode}: " + f.read()[-1500:])
        cpu = used.ru_utime + used.ru_stime
        return Run(wall, cpu, peak.mib, max(0, (machine.busy() - busy - cpu) / wall))


class Decoder(Tidemark):
    """Tidemark's JSON decoder alone, with the columns of a query: the bound of queries that do little else."""
    name = "decoder"

    def __init__(self, data_dir):
        self.binary = os.path.join(data_dir, "decode")
        subprocess.run(["go", "build", "-o", self.binary, "./bench/decode"], cwd=ROOT, check=True)
        self.tmp, self.prefix, self.cpu_list = os.path.join(data_dir, "tmp"), [], None

    def run(self, sql, settings):
        """sql is the file and the columns, with a blank between."""
        file, columns = sql.split()
        return self.measure([self.binary, "-columns", columns, file])


class Flink:
    name = "flink"

    def __init__(self, memory="6g"):
        # a cluster of its own, started anew: one that runs already may have other settings
        self.env = {"FLINK_PORT": "38081", **os.environ, "FLINK_TM_MEM": memory, "FLINK_MANAGED": "512m"}
        self.script("stop")
        self.script("start")
        self.jm, self.gw = self.script("url", "jm"), self.script("url", "gw")

    def close(self):
        self.script("stop")

    def script(self, *args):
        r = subprocess.run([FLINK_SCRIPT, *args], env=self.env, text=True, capture_output=True)
        if r.returncode:
            raise BenchError(f"flink {' '.join(args)}: {r.stderr[-1500:]}")
        return r.stdout.strip()

    def fresh(self, cpu_list):
        """A TaskManager that has compiled and cached nothing for the query before."""
        self.script("restart-tm")
        self.tm = int(self.script("pid", "tm"))
        if cpu_list:
            machine.pin_process(self.tm, cpu_list)

    def run(self, sql, settings):
        settings = {"table.dml-sync": "false", **settings}
        statements = flink_sql.split(sql)
        insert = [s for s in statements if re.match(r"INSERT|EXECUTE\s+STATEMENT", s, re.I)]
        if len(insert) != 1:
            raise BenchError(f"one INSERT is wanted, found {len(insert)}")
        try:
            session = flink_sql.Session(self.gw, self.jm, settings)
            try:
                for s in statements:
                    if s is not insert[0]:
                        session.execute(s)
                return self.measure(session, insert[0])
            finally:
                session.close()
        except flink_sql.FlinkError as e:
            raise BenchError(f"flink: {e}") from None

    def measure(self, session, insert):
        tm = int(self.script("pid", "tm"))
        with PeakMemory(tm) as peak:
            cpu, busy, t0 = machine.cpu_seconds(tm), machine.busy(), time.perf_counter()
            job = session.wait(session.submit(insert))
            cpu, wall = machine.cpu_seconds(tm) - cpu, time.perf_counter() - t0
        return Run(job["duration"] / 1000, cpu, peak.mib, max(0, (machine.busy() - busy - cpu) / wall))
