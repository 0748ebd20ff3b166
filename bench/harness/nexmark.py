"""The Nexmark queries, their data, and what Flink is best run with."""
import glob
import os
import re
import subprocess

from .engines import ROOT

QUERY_DIR = os.path.join(ROOT, "bench", "nexmark", "queries")
BLACKHOLE = "'connector' = 'blackhole'"

# Updating results: the check folds their changelog, and mini-batch may help Flink.
UPDATING = {"q15", "q16", "q17"}

# Columns of bid that queries read which do little but decode; the time is read for the watermark.
DECODED = {"q0": "0,1,2,5,6", "q1": "0,1,2,5,6", "q2": "0,2,5", "q12": "1,5", "q14": "0,1,2,5,6", "q21": "0,1,2,3,4,5",
           "q22": "0,1,2,3,4,5"}

# Documented means to make Flink faster; each query is measured with all that concern it, the best counts.
REUSE = {"pipeline.object-reuse": "true"}
MINI_BATCH = {**REUSE, "table.exec.mini-batch.enabled": "true", "table.exec.mini-batch.allow-latency": "2 s",
              "table.exec.mini-batch.size": "50000"}


def queries():
    names = [os.path.basename(f)[:-4] for f in glob.glob(os.path.join(QUERY_DIR, "*.sql"))]
    return sorted(names, key=lambda q: (int(re.sub(r"\D", "", q)), q))


def flink_variants(query):
    out = {"object reuse": REUSE}
    if query in UPDATING:
        out["object reuse, mini-batch"] = MINI_BATCH
    return out


def data(data_dir, events, parts):
    """Makes the files once; returns their folder."""
    folder = os.path.join(data_dir, f"nexmark-{events}" + (f"-x{parts}" if parts > 1 else ""))
    done = os.path.join(folder, ".complete")
    if not os.path.exists(done):
        subprocess.run(["go", "run", "./bench/nexmark/cmd/nexgen", "-n", str(events), "-parts", str(parts),
                        "-dir", folder], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        open(done, "w").close()
    return folder


def bids(events):
    """The number of bids among the first events."""
    return events // 50 * 46 + max(events % 50 - 4, 0)


def sql(query, folder, sink=BLACKHOLE, source=None):
    """The query's text; source replaces the options of the table of bids."""
    with open(os.path.join(QUERY_DIR, query + ".sql"), encoding="utf-8") as f:
        text = f.read()
    if source:
        text, n = re.subn(r"(CREATE TABLE bid \(.*?\n\) WITH \()[^;]*(\);)", lambda m: m[1] + source + m[2], text, flags=re.S)
        if n != 1:
            raise ValueError(f"{query}: no table of bids")
    return text.replace("${DATA}", folder).replace("${SINK}", sink)
