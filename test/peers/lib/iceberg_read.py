"""Prints the rows of an Iceberg table as another engine reads them: JSON arrays, one a line, sorted."""
import base64
import datetime
import decimal
import json
import os
import sys
import uuid

from pyiceberg.catalog import load_catalog

env = os.environ
CATALOG = env["ICEBERG_CATALOG"]
S3 = {k: v for k, v in (("s3.endpoint", env.get("S3_ENDPOINT")), ("s3.access-key-id", env.get("AWS_ACCESS_KEY_ID")),
                        ("s3.secret-access-key", env.get("AWS_SECRET_ACCESS_KEY")), ("s3.region", env.get("AWS_REGION", "us-east-1"))) if v}
WAREHOUSE = env.get("ICEBERG_WAREHOUSE", "s3://warehouse")


def plain(v):
    """A value in a form that both engines and JSON have."""
    if isinstance(v, dict):
        return {str(plain(k)): plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    if isinstance(v, (bytes, bytearray, memoryview)):
        return base64.b16encode(bytes(v)).decode().lower()
    if isinstance(v, datetime.datetime):
        if v.tzinfo is not None:
            v = v.astimezone(datetime.timezone.utc).replace(tzinfo=None)
            return v.isoformat(sep=" ", timespec="microseconds") + "Z"
        return v.isoformat(sep=" ", timespec="microseconds")
    if isinstance(v, datetime.time):
        return v.isoformat(timespec="microseconds")
    if isinstance(v, (datetime.date, decimal.Decimal, uuid.UUID)):
        return str(v)
    if isinstance(v, float) and v != v:
        return "NaN"
    return v


def catalog():
    if CATALOG.startswith("http"):
        key, secret = env.get("AWS_ACCESS_KEY_ID", ""), env.get("AWS_SECRET_ACCESS_KEY", "")
        return load_catalog("rest", type="rest", uri=CATALOG, warehouse=WAREHOUSE, credential=f"{key}:{secret}", **S3)
    return load_catalog(env.get("ICEBERG_NAME", "tidemark"), type="sql", uri=CATALOG, **S3)


def pyiceberg(name):
    return [tuple(r.values()) for r in catalog().load_table(name).scan().to_arrow().to_pylist()]


def duckdb(name):
    import duckdb as d
    import duckdb_extensions

    con = d.connect()
    con.execute("set timezone = 'UTC'")
    for e in ("avro", "httpfs", "iceberg"):
        duckdb_extensions.import_extension(e)
        con.execute(f"load {e}")
    if "s3.endpoint" in S3:
        con.execute(f"create secret (type s3, key_id '{S3['s3.access-key-id']}', secret '{S3['s3.secret-access-key']}', "
                    f"endpoint '{S3['s3.endpoint'].split('://')[1]}', url_style 'path', use_ssl false, region '{S3['s3.region']}')")
    if CATALOG.startswith("http"):
        con.execute(f"create secret ic (type iceberg, client_id '{S3['s3.access-key-id']}', client_secret '{S3['s3.secret-access-key']}', "
                    f"oauth2_server_uri '{CATALOG}/v1/oauth/tokens')")
        con.execute(f"attach '{WAREHOUSE}' as wh (type iceberg, endpoint '{CATALOG}', secret ic)")
        return con.execute(f"select * from wh.{name}").fetchall()
    where = catalog().load_table(name).metadata_location
    return con.execute(f"select * from iceberg_scan('{where}')").fetchall()


if __name__ == "__main__":
    engine, table = sys.argv[1:3]
    rows = {"pyiceberg": pyiceberg, "duckdb": duckdb}[engine](table)
    for line in sorted(json.dumps(plain(r), ensure_ascii=False) for r in rows):
        print(line)
