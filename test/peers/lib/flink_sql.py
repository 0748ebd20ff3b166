"""Runs SQL files on a Flink cluster through its SQL gateway; also the client that the benchmarks import."""
import argparse
import json
import re
import sys
import time
import urllib.error
import urllib.request

KINDS = {"INSERT": "+I", "UPDATE_BEFORE": "-U", "UPDATE_AFTER": "+U", "DELETE": "-D"}


class FlinkError(Exception):
    pass


def http(url, body=None, method=None):
    data = json.dumps(body).encode() if body is not None else None
    req = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(req, timeout=120) as r:
            return json.loads(r.read() or b"{}")
    except urllib.error.HTTPError as e:
        raise FlinkError(reason(e.read().decode(errors="replace"))) from None
    except urllib.error.URLError as e:
        raise FlinkError(f"{url}: {e.reason}") from None


def reason(text):
    """The lines of a Java stack trace that say something."""
    try:
        text = "\n".join(json.loads(text)["errors"])
    except (ValueError, KeyError, TypeError):
        text = text.replace("\\n", "\n")
    lines = [l.strip() for l in text.splitlines()]
    said = [l for l in lines if l and not l.startswith(("at ", "...", "<", "org.apache.flink.table.gateway"))]
    return "\n".join(dict.fromkeys(said))[:2000] or text[:2000]


def define(text, values):
    """Replaces ${NAME}; a name without a value is an error."""
    def value(m):
        if m.group(1) not in values:
            raise FlinkError(f"${{{m.group(1)}}} has no value: give --define {m.group(1)}=...")
        return values[m.group(1)]
    return re.sub(r"\$\{(\w+)\}", value, text)


TOKEN = re.compile(r"--[^\n]*|/\*(?!\+).*?\*/|'(?:[^']|'')*'|`(?:[^`]|``)*`|;|[^-/'`;]+|.", re.S)
SET_BEGIN = re.compile(r"^\s*(EXECUTE\s+STATEMENT\s+SET\s+BEGIN|BEGIN\s+STATEMENT\s+SET\s*;)", re.I)


def split(text):
    """Statements of a file, without comments; a statement set is one statement."""
    out, cur = [], ""
    for m in TOKEN.finditer(text):
        t = m.group()
        if t.startswith(("--", "/*")) and not t.startswith("/*+"):
            cur += " "
        elif t != ";":
            cur += t
        elif SET_BEGIN.match(cur + ";") and not re.search(r"\bEND\s*$", cur, re.I):
            cur += ";"
        elif cur.strip():
            out.append(cur.strip())
            cur = ""
        else:
            cur = ""
    if cur.strip():
        out.append(cur.strip())
    return out


class Session:
    """One session of the gateway: its tables and settings."""

    def __init__(self, gateway, jobmanager, properties=None):
        self.gateway, self.jobmanager = gateway, jobmanager
        body = {"properties": dict(properties or {})}
        self.base = f"{gateway}/v1/sessions/" + http(f"{gateway}/v1/sessions", body)["sessionHandle"]

    def close(self):
        try:
            http(self.base, method="DELETE")
        except FlinkError:
            pass

    def execute(self, sql):
        """Starts a statement; returns the address under which its results lie."""
        op = self.base + "/operations/" + http(self.base + "/statements", {"statement": sql})["operationHandle"]
        while True:
            status = http(op + "/status")["status"]
            if status == "FINISHED":
                return op
            if status in ("ERROR", "CANCELED", "CLOSED", "TIMEOUT"):
                http(op + "/result/0")  # raises with the reason
                raise FlinkError(f"statement ended as {status}")
            time.sleep(0.02)

    def results(self, op):
        """Yields (kind, fields, columns) of each row; the generator's value is the last answer."""
        token = 0
        while True:
            r = http(f"{op}/result/{token}")
            if r["resultType"] == "NOT_READY":
                time.sleep(0.05)
                continue
            columns = [c["name"] for c in r["results"]["columns"]]
            for row in r["results"]["data"]:
                yield KINDS[row["kind"]], row["fields"], columns
            if r["resultType"] == "EOS":
                return r
            token += 1

    def submit(self, sql):
        """Starts an INSERT and returns the job's id."""
        rows = self.results(self.execute(sql))
        first = None
        while True:
            try:
                row = next(rows)
                first = first or row
            except StopIteration as end:
                return end.value.get("jobID") or first[1][0]

    def wait(self, job, poll=0.1, each=None):
        """Waits for a job's end and returns its REST description; each is called at every poll."""
        while True:
            j = http(f"{self.jobmanager}/jobs/{job}")
            if each:
                each()
            if j["state"] == "FINISHED":
                return j
            if j["state"] in ("FAILED", "CANCELED"):
                e = http(f"{self.jobmanager}/jobs/{job}/exceptions").get("root-exception") or ""
                raise FlinkError(f"job {job} {j['state']}: {reason(e)}")
            time.sleep(poll)

    def run(self, sql, row):
        """Runs any statement to its end; row is called with (kind, fields, columns) of what a query gives."""
        m = re.match(r"SET\s+'([^']+)'\s*=\s*'((?:[^']|'')*)'$", sql, re.I)
        if m:
            self.execute(sql)
        elif re.match(r"(INSERT|EXECUTE\s+STATEMENT\s+SET|BEGIN\s+STATEMENT|EXECUTE\s+INSERT|CREATE\s+TABLE.*\bAS\s+SELECT\b)",
                      sql, re.I | re.S):
            self.wait(self.submit(sql))
        else:
            op = self.execute(sql)
            if re.match(r"(SELECT|WITH|VALUES|TABLE|EXPLAIN|DESC|SHOW)\b", sql, re.I):
                for r in self.results(op):
                    row(*r)


def main():
    p = argparse.ArgumentParser(prog="flink sql")
    p.add_argument("--jobmanager", required=True, help=argparse.SUPPRESS)
    p.add_argument("--gateway", required=True, help=argparse.SUPPRESS)
    p.add_argument("--set", action="append", default=[], metavar="K=V")
    p.add_argument("--define", action="append", default=[], metavar="NAME=VALUE")
    p.add_argument("--json", action="store_true", help="rows as JSON objects, the kind under op")
    p.add_argument("-v", action="store_true", help="each statement to standard error before it runs")
    p.add_argument("file", help="SQL file, - for standard input")
    a = p.parse_args()

    def row(kind, fields, columns):
        if a.json:
            print(json.dumps({"op": kind, **dict(zip(columns, fields))}, ensure_ascii=False))
        else:
            print(kind, json.dumps(fields, ensure_ascii=False), sep="\t")

    text = sys.stdin.read() if a.file == "-" else open(a.file, encoding="utf-8").read()
    session = None
    try:
        text = define(text, dict(d.split("=", 1) for d in a.define))
        session = Session(a.gateway, a.jobmanager, dict(s.split("=", 1) for s in a.set))
        for s in split(text):
            if a.v:
                print(s + ";", file=sys.stderr)
            try:
                session.run(s, row)
            except FlinkError as e:
                raise FlinkError(f"{e}\nin: {s[:300]}") from None
    except FlinkError as e:
        sys.stdout.flush()
        print(f"flink: {e}", file=sys.stderr)
        return 1
    finally:
        if session:
            session.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
