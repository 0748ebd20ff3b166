#!/usr/bin/env python3
"""What late rows cost a whole job: rows per CPU second of a job of which 5 % of the rows come too late and go to a late
sink, in percent of those of the same job without late rows.

  bench/late/late.py --binary ./tidemark [--rows 10000000] [--rounds 5] [WINDOW...]

The rows are made in process (datagen), the results and the late rows go nowhere. Both jobs take turns, and the
middle of their rounds counts, less what a job of 1,000 rows takes. WINDOW is tumble, hop, cumulate, session, or one of these
with "-final": final results only, with a minute of allowed lateness, for which a part of the late rows comes in time.
Every run is checked: as many rows in as were made, and as many late as there should be.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
WINDOWS = {
    "tumble": "TUMBLE(TABLE gen, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    "hop": "HOP(TABLE gen, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)",
    "cumulate": "CUMULATE(TABLE gen, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)",
    "session": "SESSION(TABLE gen PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND)",
}
LATE = 20  # one row in so many


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", required=True)
    p.add_argument("--rows", type=int, default=10_000_000)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("window", nargs="*")
    a = p.parse_args()
    worst = 1000
    for name in a.window or [w + f for f in ("", "-final") for w in WINDOWS]:
        start = min(run(a.binary, name, 1000, 10**12) for _ in range(3))
        took = {one: [] for one in (10**12, LATE)}
        for _ in range(a.rounds):
            for one, list_ in took.items():
                list_.append(run(a.binary, name, a.rows, one) - start)
        without, late = (a.rows / statistics.median(t) / 1e6 for t in took.values())
        percent = 100 * late / without
        worst = min(worst, percent)
        print(f"{name:<15} {without:6.2f} M rows / CPU s without late rows  {late:6.2f} with 5 %  {percent:5.1f} %", flush=True)
    sys.exit(worst < 80)


def run(binary, name, rows, one):
    """Runs a job and returns its CPU seconds."""
    window, _, final = name.partition("-")
    emit = "'final-only' = 'true', 'allowed-lateness' = '1 min', " if final else ""
    with open(os.path.join(HERE, "late.sql")) as f:
        sql = f.read()
    for key, value in {"ROWS": rows, "LAST": rows - 1, "ONE": one, "EMIT": emit, "WINDOW": WINDOWS[window]}.items():
        sql = sql.replace("${" + key + "}", str(value))
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "late.sql")
        with open(path, "w") as f:
            f.write("SET 'parallelism.default' = '1';\n" + sql)
        with open(os.path.join(d, "out"), "w+") as log:
            pid = subprocess.Popen([os.path.abspath(binary), "run", path], stdout=log, stderr=subprocess.STDOUT).pid
            _, status, used = os.wait4(pid, 0)
            log.seek(0)
            out = log.read()
    if status != 0:
        sys.exit(out)
    counts = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) (?:rows )?in\b", out)]
    dropped = [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) (?:rows )?late", out)]
    if rows not in counts or (one == LATE and rows > 1000) != any(dropped):
        sys.exit(f"not {rows} rows in, or the wrong number late:\n{out}")
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
