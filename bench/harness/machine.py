"""CPU seconds and memory of processes, from /proc, and a description of the machine."""
import os
import platform
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """User and system time of a process, all its threads, since it started."""
    with open(f"/proc/{pid}/stat") as f:
        x = f.read().rsplit(")", 1)[1].split()
    return (int(x[11]) + int(x[12])) / TICK


def peak_rss_mib(pid):
    """The highest resident size since the process began its program, 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/status") as f:
            for line in f:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0


def busy():
    """CPU seconds that the whole machine has spent on anything since it started."""
    with open("/proc/stat") as f:
        v = [int(x) for x in f.readline().split()[1:9]]
    return (sum(v) - v[3] - v[4]) / TICK


def wait_quiet(limit):
    """Waits up to limit seconds for half a second in which the machine has nothing to do."""
    end = time.time() + limit
    while time.time() < end:
        b, t = busy(), time.time()
        time.sleep(0.5)
        if (busy() - b) / (time.time() - t) < 0.2:
            return True
    return limit == 0


def cpus():
    return sorted(os.sched_getaffinity(0))


def pin_process(pid, cpu_list):
    """Binds all threads of a running process; those that it starts later inherit it."""
    subprocess.run(["taskset", "-a", "-p", "-c", ",".join(map(str, cpu_list)), str(pid)],
                   check=True, stdout=subprocess.DEVNULL)


def describe(root):
    def first(path, key):
        try:
            with open(path) as f:
                for line in f:
                    if line.startswith(key):
                        return line.split(":", 1)[1].strip()
        except OSError:
            pass
        return "?"

    def out(*cmd):
        try:
            return subprocess.run(cmd, cwd=root, text=True, capture_output=True).stdout.strip()
        except OSError:
            return "?"

    memory = first("/proc/meminfo", "MemTotal").split()[0]
    return {
        "cpu": first("/proc/cpuinfo", "model name"),
        "cores": len(cpus()),
        "memory_gib": round(int(memory) / 1024 / 1024) if memory.isdigit() else "?",
        "kernel": platform.release(),
        "go": out("go", "env", "GOVERSION"),
        "java": (subprocess.run(["java", "-version"], text=True, capture_output=True).stderr.splitlines() or ["?"])[0],
        "commit": out("git", "rev-parse", "--short=12", "HEAD"),
        "changed": bool(out("git", "status", "--porcelain", "--untracked-files=no")),
        "at": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime()) + " UTC",
    }
