"""Two lanes against one, beside what the machine gives two processes that have nothing to do with each other."""
import concurrent.futures
import dataclasses
import os
import statistics
import time

from . import engines, machine, nexmark

WAYS = ("one", "two", "apart", "at once")


@dataclasses.dataclass
class Work:
    """Seconds without start-up, of one round in one way."""
    wall: float
    cpu: float
    others: float


def halves(folder):
    """A folder for each of the two parts of the bids."""
    out = []
    for i in (0, 1):
        half = os.path.join(folder, f"half-{i}")
        os.makedirs(half, exist_ok=True)
        link = os.path.join(half, "bid.json")
        if not os.path.islink(link):
            os.symlink(os.path.join("..", "bid.json", f"part-{i}.json"), link)
        out.append(half)
    return out


class Lanes:
    """The same work over two files in four ways, in turn, so that all see the same machine:

    one       one process with one lane, on one core
    two       one process with two lanes, on two cores
    apart     two processes, a file each, one after the other, each on a core of its own
    at once   the same two processes at the same time
    """

    def __init__(self, engine, cores, settings, sql, tiny_sql, quiet, realtime):
        """sql and tiny_sql are the texts of the query for all of the data and for each half of it."""
        self.cores, self.settings, self.sql, self.quiet = cores, settings, sql, quiet
        self.pause = 1 if realtime else 0  # the others want to live too
        self.engines = [engine, engines.Tidemark(engine.data_dir, engine.binary, tmp="tmp-1")]
        for e in self.engines:
            e.prefix = ["chrt", "-r", "1"] if realtime else []
        self.start = {}
        for way in WAYS:
            runs = [self.run(way, tiny_sql, 0, 0) for _ in range(3)]
            self.start[way] = [statistics.median(x) for x in ([r.wall for r in runs], [r.cpu for r in runs])]

    def process(self, which, sql, cores, lanes):
        e = self.engines[which]
        e.fresh(cores)
        return e.run(sql, {**self.settings, "parallelism.default": str(lanes)})

    def run(self, way, sql, wall=None, cpu=None):
        time.sleep(self.pause)
        if wall is None:
            wall, cpu = self.start[way]
        if way == "one":
            runs = [self.process(0, sql[0], self.cores[1:], 1)]
        elif way == "two":
            runs = [self.process(0, sql[0], self.cores, 2)]
        elif way == "apart":
            runs = [self.process(i, sql[1 + i], [self.cores[i]], 1) for i in (0, 1)]
        else:
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                both = [pool.submit(self.process, i, sql[1 + i], [self.cores[i]], 1) for i in (0, 1)]
                runs = [b.result() for b in both]
        used = sum(r.cpu for r in runs)
        took = max(r.wall for r in runs) if way == "at once" else sum(r.wall for r in runs)
        # each process takes the other for somebody else
        others = sum(r.others * r.wall for r in runs) / took
        if way == "at once":
            others = max(0, min(r.others for r in runs) - used / 2 / took)
        return Work(took - wall, used - cpu, others)

    def round(self):
        machine.wait_quiet(self.quiet)
        return {way: self.run(way, self.sql) for way in WAYS}


def measure(engine, cores, settings, query, folder, tiny, seconds, quiet, realtime):
    """Rounds until they took so many CPU seconds; returns for each way its Works."""
    texts = [[nexmark.sql(query, f) for f in (d, *halves(d))] for d in (folder, tiny)]
    lanes = Lanes(engine, cores, settings, *texts, quiet, realtime)
    lanes.round()  # warms the files
    rounds, used = [], 0
    while not rounds or used < seconds:
        rounds.append(lanes.round())
        used += sum(w.cpu for w in rounds[-1].values())
    return {way: [r[way] for r in rounds] for way in WAYS}
