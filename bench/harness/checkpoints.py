"""What checkpoints cost: the same query with and without them, in turn, so that both see the same machine."""
import glob
import os
import re
import shutil
import statistics

from . import machine, nexmark

QUERIES = ["q0", "q2", "q5w", "q7w"]  # without state, and windows
INTERVAL = "10 s"

ACCOUNT = re.compile(r"^(?P<count>[\d,]+) checkpoints?(, [\d,]+ failed [^;]*)?; the last, \d+, took (?P<took>.+?)"
                     r"(, made rows wait for (?P<pause>.+?))? and wrote (?P<bytes>.+?) in (?P<requests>[\d,]+) requests?\.$", re.M)


def repeated(folder, times):
    """A folder whose bids are those of folder, so many times: files that are read side by side, as they
    begin at the same event time."""
    out = os.path.join(folder, f"times-{times}")
    bids = os.path.join(out, "bid.json")
    os.makedirs(bids, exist_ok=True)
    source = os.path.join(folder, "bid.json")
    files = sorted(glob.glob(os.path.join(source, "*"))) if os.path.isdir(source) else [source]
    for n in range(times):
        for i, f in enumerate(files):
            link = os.path.join(bids, f"part-{n}-{i}.json")
            if not os.path.islink(link):
                os.symlink(f, link)
    return out


def last_account(log):
    """What a run said of its checkpoints: (how many, took, pause, bytes), or None."""
    with open(log, errors="replace") as f:
        m = ACCOUNT.search(f.read())
    return m and (int(m["count"].replace(",", "")), m["took"], m["pause"] or "", m["bytes"])


class Pairs:
    """Runs of one query, with checkpoints and without."""

    def __init__(self, engine, cores, settings, interval):
        self.engine, self.cores, self.settings = engine, cores, settings
        self.dir = os.path.join(engine.tmp, "checkpoints")
        self.saving = {"execution.checkpointing.interval": interval, "execution.checkpointing.dir": self.dir}

    def run(self, sql, saves):
        shutil.rmtree(self.dir, ignore_errors=True)
        self.engine.fresh(self.cores)
        r = self.engine.run(sql, {**self.settings, **(self.saving if saves else {})})
        return r, saves and last_account(os.path.join(self.engine.tmp, "tidemark.log"))


def measure(engine, cores, settings, query, folder, seconds, rounds, quiet, interval=INTERVAL):
    """Rounds of a run without and a run with checkpoints, each of at least the given seconds; returns the
    number of times that the input is read, and of each round (without, with, account)."""
    pairs = Pairs(engine, cores, settings, interval)
    once, _ = pairs.run(nexmark.sql(query, folder), False)
    times = max(1, -(-seconds // max(once.wall, 0.1)))
    sql = nexmark.sql(query, repeated(folder, int(times)))
    out = []
    for n in range(rounds):
        machine.wait_quiet(quiet)
        ways = (False, True) if n % 2 == 0 else (True, False)
        got = {saves: pairs.run(sql, saves) for saves in ways}
        out.append((got[False][0], got[True][0], got[True][1]))
    return int(times), out


def ratio(rounds):
    """With against without: the median of the rounds' CPU seconds."""
    return statistics.median(w.cpu / wo.cpu for wo, w, _ in rounds)
