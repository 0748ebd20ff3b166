#!/usr/bin/env python3
"""A tumbling window of one day that is larger than the memory for state: rows a second, CPU seconds and peak resident
memory with each budget, one after the other, round and round.

  bench/scale/day.py --binary ./tidemark [--keys 10000000] [--rounds 1] [BUDGET...]

A budget is a value of tidemark.state.memory, or "none" for a run without one. Every run is checked: as many results as
keys, as many rows in as were made.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", required=True)
    p.add_argument("--keys", type=int, default=10_000_000)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("budget", nargs="*", default=["none", "256 mb", "64 mb"])
    a = p.parse_args()
    rows = 2 * a.keys
    with open(os.path.join(HERE, "day.sql")) as f:
        sql = f.read().replace("${SINK}", "'connector' = 'blackhole'").replace("${KEYS}", str(a.keys)).replace("${ROWS}", str(rows)).replace("${LAST}", str(rows - 1))
    print(f"{a.keys:,} keys, {rows:,} rows")
    for _ in range(a.rounds):
        for budget in a.budget or ["none"]:
            run(a.binary, sql, budget, rows, a.keys)


def run(binary, sql, budget, rows, keys):
    if budget != "none":
        sql = f"SET 'tidemark.state.memory' = '{budget}';\n" + sql
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "day.sql")
        with open(path, "w") as f:
            f.write(sql)
        with open(os.path.join(d, "out"), "w+") as log:
            start = time.time()
            pid = subprocess.Popen([os.path.abspath(binary), "run", path], stdout=log, stderr=subprocess.STDOUT).pid
            _, status, used = os.wait4(pid, 0)
            took = time.time() - start
            log.seek(0)
            out = log.read()
    if status != 0:
        sys.exit(out)
    counts = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) rows (?:in|out)", out)]
    counts += [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) (?:in|out)", out)]
    if rows not in counts or keys not in counts:
        sys.exit(f"not {rows} rows in and {keys} out:\n{out}")
    cpu = used.ru_utime + used.ru_stime
    print(f"{budget:>8}  {took:6.1f} s  {rows / took / 1000:7,.0f} k rows/s  {rows / cpu / 1000:7,.0f} k rows / CPU s"
          f"  {used.ru_maxrss / 1024:6,.0f} MiB at most", flush=True)


if __name__ == "__main__":
    main()
