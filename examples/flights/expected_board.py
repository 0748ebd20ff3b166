#!/usr/bin/env python3
"""Computes the board of board.sql in one pass over all reports, without Tidemark: the newest revision of each
flight counts, in the hour and airport that it has. Prints board_expected.jsonl.

    python3 examples/flights/expected_board.py > examples/flights/board_expected.jsonl
"""
import gzip
import json
import os
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal

here = os.path.dirname(os.path.abspath(__file__))
newest = {}
with gzip.open(os.path.join(here, "data", "status-2013-01.jsonl.gz"), "rt") as f:
    for line in f:
        r = json.loads(line)
        old = newest.get(r["flight_id"])
        if old is None or r["revision"] > old["revision"]:
            newest[r["flight_id"]] = r
cells = defaultdict(list)
for r in newest.values():
    cells[(r["attributed_at"][:13] + ":00:00", r["origin"])].append(r)
for (start, origin), rows in sorted(cells.items()):
    delays = [r["dep_delay"] for r in rows if r["dep_delay"] is not None]
    mean = (Decimal(sum(delays)) / len(delays)).quantize(Decimal("0.1"), ROUND_HALF_UP) if delays else None
    print(json.dumps({
        "origin": origin, "window_start": start, "flights": len(rows),
        "departed": sum(r["status"] in ("departed", "arrived") for r in rows),
        "cancelled": sum(r["status"] == "cancelled" for r in rows),
        "delay": None if mean is None else float(mean)}))
