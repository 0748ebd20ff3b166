"""Repeats runs until there is enough steady work, and takes the start-up off."""
import dataclasses
import statistics


class TooShort(Exception):
    pass


@dataclasses.dataclass
class Measure:
    """What an engine needs for rows input rows, without its start-up."""
    rows: int
    wall: float
    cpu: float
    rss_mib: float
    others: float
    runs: int

    @property
    def rows_a_cpu_second(self):
        return self.rows / self.cpu

    @property
    def rows_a_second(self):
        return self.rows / self.wall


def startup(engine, sql, settings, times=3):
    """The middle run over next to nothing."""
    runs = [engine.run(sql, settings) for _ in range(times)]
    return statistics.median(r.wall for r in runs), statistics.median(r.cpu for r in runs)


def steady(engine, sql, tiny_sql, settings, rows, seconds, warm):
    """Measures runs until they took the given CPU seconds in all; the first warm runs don't count."""
    for _ in range(warm):
        engine.run(sql, settings)
    start_wall, start_cpu = startup(engine, tiny_sql, settings)
    runs, cpu = [], 0
    while not runs or cpu < seconds:
        runs.append(engine.run(sql, settings))
        work = runs[-1].cpu - start_cpu
        if work < start_cpu / 2:
            raise TooShort(f"a run takes {runs[-1].cpu:.2f} CPU s and its start-up {start_cpu:.2f}: take more events (-n)")
        cpu += work
    wall = sum(max(r.wall - start_wall, 0.001) for r in runs)
    others = sum(r.others * r.wall for r in runs) / sum(r.wall for r in runs)
    return Measure(rows * len(runs), wall, cpu, max(r.rss_mib for r in runs), others, len(runs))
