"""Compares the rows that both engines give, one by one."""
import collections
import decimal
import glob
import gzip
import json
import os
import re
import shutil

from . import nexmark

# Windows of processing time differ from run to run, and Flink drops those that are open at the end.
NOT_COMPARED = {"q12"}

TIME = re.compile(r"^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d+))?(Z?)$")


def canonical(v):
    """One spelling of a value: numbers without trailing zeros, times likewise."""
    if isinstance(v, bool) or v is None:
        return v
    if isinstance(v, (int, decimal.Decimal)):
        return format(decimal.Decimal(v).normalize(), "f")
    m = TIME.match(v)
    if m:
        fraction = (m[3] or "").rstrip("0")
        return f"{m[1]} {m[2]}" + (f".{fraction}" if fraction else "")
    return v


def row(obj):
    return tuple((k, canonical(v)) for k, v in sorted(obj.items()))


def lines(folder):
    for path in sorted(glob.glob(os.path.join(folder, "**"), recursive=True)):
        if not os.path.isfile(path) or os.path.basename(path).startswith((".", "_")):
            continue
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
            for line in f:
                if line.strip():
                    yield json.loads(line, parse_float=decimal.Decimal)


def folded(folder, updating):
    """The final rows as a multiset; what a changelog takes back is gone."""
    rows = collections.Counter()
    for obj in lines(folder):
        if not updating:
            rows[row(obj)] += 1
            continue
        # debezium-json: an update may come as one record or as a deletion and an insertion
        if obj.get("before"):
            rows[row(obj["before"])] -= 1
        if obj.get("after"):
            rows[row(obj["after"])] += 1
    if any(n < 0 for n in rows.values()):
        raise ValueError(f"{folder}: a row is taken back that never came")
    return +rows


def results(engine, query, folder, out, settings):
    shutil.rmtree(out, ignore_errors=True)
    updating = query in nexmark.UPDATING
    sink = f"'connector' = 'filesystem', 'path' = '{out}', 'format' = '{'debezium-json' if updating else 'json'}'"
    engine.run(nexmark.sql(query, folder, sink), settings)
    rows = folded(out, updating)
    shutil.rmtree(out, ignore_errors=True)
    return rows


def compare(a, b, names, limit=3):
    """None when equal, else a text that says what differs."""
    if a == b:
        return None
    out = [f"{names[0]} has {sum(a.values())} rows, {names[1]} has {sum(b.values())}"]
    for x, y, n in ((a, b, names[0]), (b, a, names[1])):
        only = list((x - y).items())
        out += [f"only {n}: {dict(r)} x{c}" for r, c in sorted(only, key=str)[:limit]]
    return "\n  ".join(out)
