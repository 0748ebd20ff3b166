"""Computes what hourly.sql must give, without Tidemark: expected.py > hourly_expected.jsonl

One row at a time, as the semantics want it: a row is late when the last millisecond of its window
is not after the watermark, which is the highest departed_at of the rows before it less five
minutes. Rows are printed by hour and airport.
"""
import datetime as dt
import decimal
import gzip
import json
import os
import sys

HOUR = dt.timedelta(hours=1)
DELAY = dt.timedelta(minutes=5)
MS = dt.timedelta(milliseconds=1)
here = os.path.dirname(os.path.abspath(__file__))

windows, watermark, late, total = {}, dt.datetime.min, 0, 0
with gzip.open(os.path.join(here, "data", "departures-2013-01.jsonl.gz"), "rt", encoding="utf-8") as f:
    for line in f:
        r = json.loads(line)
        total += 1
        at = dt.datetime.strptime(r["departed_at"], "%Y-%m-%d %H:%M:%S.%f")
        start = at.replace(minute=0, second=0, microsecond=0)
        if start + HOUR - MS <= watermark:
            late += 1
        else:
            w = windows.setdefault((start, r["origin"]), [0, 0, 0])
            w[0] += 1
            w[1] += r["dep_delay"]
            w[2] += r["distance"]
        watermark = max(watermark, at - DELAY)

for (start, origin), (n, delay, distance) in sorted(windows.items()):
    # ROUND goes by the decimal digits of the double, half away from zero
    mean = decimal.Decimal(repr(delay / n)).quantize(decimal.Decimal("0.1"), decimal.ROUND_HALF_UP)
    print(json.dumps({"hour": f"{start:%Y-%m-%d %H:%M:%S}", "origin": origin, "departures": n,
                      "delay": float(mean), "distance": distance}, separators=(",", ":")))
print(f"{total} rows, {late} late", file=sys.stderr)
