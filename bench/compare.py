#!/usr/bin/env python3
"""Counts what Icechunk, Lance and Delta Lake ask of an object store for a commit and for an open, while their history grows.

Each system appends a few rows (Icechunk: array elements) commit by commit to a fresh place on the S3 server at hand, through the same counting
proxy as Headwater's own gate. At each depth the next commits of the process that wrote all before are counted, and an open of what is
current by a process that has just started. Every request counts: below retries, pages of lists one by one.

    pip install icechunk==1.1.21 zarr==3.1.6 pylance==14.0.2 deltalake==1.6.6 pyarrow==26.0.1
    cargo build --package headwater-bench
    python bench/compare.py target/debug/headwater-s3-server

Prints a Markdown table, or with --json every count.
"""

import argparse
import importlib.metadata
import json
import os
import secrets
import subprocess
import sys
from collections import Counter

DEPTHS = (20, 80, 320)
# Commits counted at each depth: some systems do more at one commit than at the next.
COUNTED = 5
ROWS = 10


class Server:
    """The server at hand, behind the counting proxy."""

    def __init__(self, command):
        self.process = subprocess.Popen([command, "--counted"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        setting = self.process.stdout.readline().strip()
        if not setting:
            sys.exit(f"{command} names no server")
        self.address, self.access, self.secret, self.name = setting.split(",", 3)

    def taken(self):
        """The requests since the last time."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def place(self):
        return {"endpoint": f"http://{self.address}", "access": self.access, "secret": self.secret, "prefix": secrets.token_hex(6)}

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def batch():
    import pyarrow

    return pyarrow.table({"id": list(range(ROWS)), "name": [f"row {row:08}" for row in range(ROWS)]})


class Icechunk:
    packages = ("icechunk", "zarr")

    def __init__(self, place):
        import icechunk

        self.storage = icechunk.s3_storage(
            bucket="compare", prefix=place["prefix"], endpoint_url=place["endpoint"], allow_http=True, force_path_style=True,
            access_key_id=place["access"], secret_access_key=place["secret"], region="us-east-1",
        )

    def create(self):
        import icechunk
        import zarr

        self.repository = icechunk.Repository.create(self.storage)
        session = self.repository.writable_session("main")
        zarr.create_array(session.store, name="rows", shape=(ROWS,), chunks=(ROWS,), dtype="i8")[:] = range(ROWS)
        session.commit("created")

    def commit(self):
        import zarr

        session = self.repository.writable_session("main")
        zarr.open_array(session.store, path="rows", mode="a").append(list(range(ROWS)))
        session.commit("appended")

    def open(self):
        import icechunk
        import zarr

        session = icechunk.Repository.open(self.storage).readonly_session("main")
        return zarr.open_array(session.store, path="rows", mode="r").shape[0] // ROWS


class Lance:
    packages = ("pylance",)

    def __init__(self, place):
        self.uri = f"s3://compare/{place['prefix']}.lance"
        self.options = {
            "aws_endpoint": place["endpoint"], "aws_access_key_id": place["access"], "aws_secret_access_key": place["secret"],
            "aws_region": "us-east-1", "allow_http": "true",
        }

    def create(self):
        import lance

        self.dataset = lance.write_dataset(batch(), self.uri, storage_options=self.options)

    def commit(self):
        self.dataset.insert(batch())

    def open(self):
        import lance

        return lance.dataset(self.uri, storage_options=self.options).version


class Delta:
    packages = ("deltalake",)

    def __init__(self, place):
        self.uri = f"s3://compare/{place['prefix']}"
        self.options = {
            "AWS_ENDPOINT_URL": place["endpoint"], "AWS_ACCESS_KEY_ID": place["access"], "AWS_SECRET_ACCESS_KEY": place["secret"],
            "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true", "aws_conditional_put": "etag",
        }

    def create(self):
        import deltalake

        deltalake.write_deltalake(self.uri, batch(), storage_options=self.options)
        self.table = deltalake.DeltaTable(self.uri, storage_options=self.options)

    def commit(self):
        import deltalake

        deltalake.write_deltalake(self.table, batch(), mode="append")

    def open(self):
        import deltalake

        return deltalake.DeltaTable(self.uri, storage_options=self.options).version() + 1


SYSTEMS = {"Icechunk": Icechunk, "Lance": Lance, "Delta Lake": Delta}


def cost(requests):
    """What some requests add up to."""
    return {
        "requests": len(requests),
        "bytes": sum(request["sent"] + request["received"] for request in requests),
        "verbs": dict(Counter(request["verb"] for request in requests)),
    }


def measure(server, name):
    place = server.place()
    system = SYSTEMS[name](place)
    system.create()
    commits, points = 1, []
    for depth in DEPTHS:
        while commits < depth:
            system.commit()
            commits += 1
        server.taken()
        told = [sys.executable, __file__, "--open", name, json.dumps(place)]
        found = int(subprocess.run(told, check=True, capture_output=True, text=True).stdout)
        if found != commits:
            sys.exit(f"{name}: an open found {found} commits, not {commits}")
        opened, appended = cost(server.taken()), []
        for _ in range(COUNTED):
            system.commit()
            commits += 1
            appended.append(cost(server.taken()))
        if not opened["requests"] or not all(one["requests"] for one in appended):
            sys.exit(f"{name}: nothing was counted at {depth} commits")
        points.append({"depth": depth, "open": opened, "commits": appended})
        print(f"{name}: {depth} commits", file=sys.stderr)
    return {"system": name, "versions": {package: importlib.metadata.version(package) for package in system.packages}, "points": points}


def span(values):
    least, most = min(values), max(values)
    return f"{least:,}" if least == most else f"{least:,}–{most:,}"


def table(server, found):
    print(f"On {server.name}; a commit is one of {COUNTED} at each depth, from the cheapest to the dearest.\n")
    print("| system | commits | requests of a commit | its bytes | requests of a cold open | its bytes |")
    print("|---|---|---|---|---|---|")
    for one in found:
        name = f"{one['system']} ({', '.join(f'{package} {version}' for package, version in one['versions'].items())})"
        for point in one["points"]:
            commits = [span([commit[what] for commit in point["commits"]]) for what in ("requests", "bytes")]
            print(f"| {name} | {point['depth']} | {commits[0]} | {commits[1]} | {point['open']['requests']:,} | {point['open']['bytes']:,} |")
            name = ""


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("server", nargs="?", help="the command headwater-s3-server")
    arguments.add_argument("--only", choices=SYSTEMS, action="append", help="only this system")
    arguments.add_argument("--json", action="store_true", help="every count instead of a table")
    arguments.add_argument("--open", nargs=2, help=argparse.SUPPRESS)
    arguments = arguments.parse_args()
    # What the environment says about S3 is about another server.
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    if arguments.open:
        name, place = arguments.open
        print(SYSTEMS[name](json.loads(place)).open())
        return
    if not arguments.server:
        sys.exit("say where headwater-s3-server is")
    server = Server(arguments.server)
    try:
        bucket(server)
        found = [measure(server, name) for name in arguments.only or SYSTEMS]
    finally:
        server.end()
    if arguments.json:
        print(json.dumps({"server": server.name, "systems": found}, indent=2))
    else:
        table(server, found)


def bucket(server):
    import pyarrow.fs

    host = server.address
    store = pyarrow.fs.S3FileSystem(
        access_key=server.access, secret_key=server.secret, region="us-east-1", scheme="http", endpoint_override=host, allow_bucket_creation=True
    )
    store.create_dir("compare", recursive=False)


if __name__ == "__main__":
    main()
