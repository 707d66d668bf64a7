#!/usr/bin/env python3
"""A day of the sidecar, in minutes: drills against rotel, Prometheus, NATS JetStream and DuckDB.

    tests/day/day.py PERFRING [--pictures DIR]

Needs `rotel` and `duckdb` from PyPI, and the programs prometheus, promtool and nats-server. Each drill has its own rings, and its
own sidecar, which runs until the end. Each count must be exact, each alert of tools/prometheus must fire in its drill, and each
query of tools/grafana must return data. At the end the figures of each sidecar are compared with `perfring stat`. The alert rules
are run as they are, except that each minute is a second.
"""

import base64
import gzip
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "tools/prometheus/perfring.rules.yml"
DASHBOARD = ROOT / "tools/grafana/perfring.json"
# A drill that takes longer has failed.
PATIENCE = 60.0

perfring = ""
place = pathlib.Path()
processes: list[subprocess.Popen] = []
mounts: list[pathlib.Path] = []
fired: dict[str, str] = {}
problems: list[str] = []


def until(what, condition, patience=PATIENCE):
    """Waits for a condition, and returns its value."""
    end = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience:g} s: {what}")
        time.sleep(0.1)
    return value


def check(what, is_right):
    print(f"   {'ok' if is_right else 'WRONG'}: {what}", flush=True)
    if not is_right:
        problems.append(what)


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def start(args, name, **more):
    log = open(place / f"{name}.log", "ab")
    process = subprocess.Popen([str(arg) for arg in args], stdin=subprocess.DEVNULL, stdout=log, stderr=log, **more)
    processes.append(process)
    return process


def end(process, by=signal.SIGTERM):
    process.send_signal(by)
    code = process.wait(PATIENCE)
    processes.remove(process)
    return code


def run(*args, text=None):
    done = subprocess.run([perfring, *map(str, args)], input=text, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def is_served(url):
    try:
        return fetch(url) or True
    except OSError:
        return False


class Sink(http.server.ThreadingHTTPServer):
    """A receiver of OTLP that answers with one code, and keeps the bodies of all log records."""

    daemon_threads = True

    def __init__(self, code=200):
        self.code, self.texts, self.records, self.hang = code, set(), 0, False
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        while self.server.hang:
            time.sleep(0.1)
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path == "/v1/logs" and self.server.code == 200:
            bodies = list(log_bodies(body))
            self.server.records += len(bodies)
            self.server.texts.update(bodies)
        self.send_response(self.server.code)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def fields(message):
    """Yields the length-delimited fields of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        match key & 7:
            case 0:
                varint()
            case 1:
                at += 8
            case 5:
                at += 4
            case _:
                length = varint()
                yield key >> 3, message[at : at + length]
                at += length


def log_bodies(request):
    """Yields the body of each log record of an ExportLogsServiceRequest."""
    below = [request]
    for number in (1, 2, 2):
        below = [value for message in below for key, value in fields(message) if key == number]
    for record in below:
        body = next((value for key, value in fields(record) if key == 5), b"")
        yield next((value for _, value in fields(body)), b"")


class Drill:
    """Rings of one drill, and the sidecar that reads them."""

    def __init__(self, name):
        print(f"-- {name}", flush=True)
        self.name, self.dir = name, place / name
        self.rings, self.out = self.dir / "rings", self.dir / "out"
        self.rings.mkdir(parents=True)
        self.out.mkdir()
        self.config, self.health, self.process = self.dir / "sidecar.toml", free_port(), None
        self.user = []
        self.written = {}

    def configure(self, outputs, more=""):
        self.config.write_text(
            f'{more}[control]\npath = "{self.dir}/control"\n[health]\nlisten = "127.0.0.1:{self.health}"\n'
            f'[[input]]\ndir = "{self.rings}"\n{outputs}'
        )

    def start(self):
        self.process = start([*self.user, perfring, "sidecar", "--config", self.config], self.name)
        until("its page is served", lambda: is_served(f"http://127.0.0.1:{self.health}/healthz"))
        targets = [{"targets": [f"127.0.0.1:{self.health}"], "labels": {"drill": self.name}}]
        (place / "targets" / f"{self.name}.json.new").write_text(json.dumps(targets))
        os.rename(place / "targets" / f"{self.name}.json.new", place / "targets" / f"{self.name}.json")

    def kill(self):
        end(self.process, signal.SIGKILL)

    def ring(self, name, size="1M", mode="0600", more=()):
        code, _, error = run("create", self.rings / name, "--size", size, "--time", "--mode", mode, *more)
        assert code == 0, error

    def publish(self, name, count, begin=0, wait=None):
        """Publishes numbered lines of 32 bytes. Returns how many the ring took."""
        lines = "".join(f"{name} {number:0{31 - len(name)}}\n" for number in range(begin, begin + count))
        more = ["--wait", wait] if wait else []
        code, _, error = run("publish", self.rings / name, *more, text=lines)
        assert code == 0, error
        taken = int(re.search(r"published (\d+) records", error)[1])
        self.written[name] = self.written.get(name, 0) + taken
        return taken

    def status(self):
        code, text, error = run("sidecar", "status", "--json", "--control", self.dir / "control")
        return json.loads(text) if text else {}

    def output(self, name):
        return next(it for it in self.status()["outputs"] if it["output"] == name)

    def delivered(self, output, count, patience=PATIENCE):
        """Waits until the rings hold nothing that the output lacks, and it delivered at least so much."""
        until(f"{output} delivers {count}", lambda: self.output(output)["delivered"] >= count, patience)

    def lines(self, file="out.jsonl"):
        found = []
        for path in sorted(self.out.glob(file.replace(".jsonl", "*.jsonl"))):
            found += [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        return found

    def exact(self, what, texts, ring, count, begin=0):
        """Checks for each of the numbered lines, once, and for no other."""
        texts = [text if isinstance(text, str) else text.decode() for text in texts]
        wanted = {f"{ring} {number:0{31 - len(ring)}}" for number in range(begin, begin + count)}
        check(f"{self.name}: {what}: {len(set(texts))} of {count}", set(texts) == wanted)
        return len(texts)

    def fires(self, *alerts):
        for alert in alerts:
            until(f"{alert} fires", lambda: self.is_firing(alert))
            fired[alert] = self.name
            print(f"   fired: {alert}", flush=True)

    def is_firing(self, alert):
        found = json.loads(fetch(f"{prometheus_url}/api/v1/alerts"))["data"]["alerts"]
        return any(
            it["labels"]["alertname"] == alert and it["state"] == "firing" and it["labels"].get("drill") == self.name
            for it in found
        )

    def accounts(self):
        """Compares the figures of the sidecar with those of the rings."""
        status = self.status()
        for ring in status["rings"]:
            stat = json.loads(run("stat", "--json", ring["location"])[1])
            lost = {
                cause: stat[f"{cause}_records"]
                for cause in ("full", "too_large", "contended", "pending", "lapped")
                if stat[f"{cause}_records"]
            }
            check(f"{self.name}: {ring['ring']}: losses of the sidecar are those of the ring: {lost}", ring["lost_records"] == lost)
            check(f"{self.name}: {ring['ring']}: balanced", stat["balanced"])
            self.losses_of_the_file(ring["ring"], lost)
        return status

    def losses_of_the_file(self, ring, lost):
        """Compares the losses that the JSON output has, whose last line of each cause has the sum, with those of the ring."""
        if any(it["output"] == "file" for it in self.status()["outputs"]):
            last = {it["lost"]["cause"]: it["lost"]["sum"] for it in self.lines() if "lost" in it and it["ring"] == ring}
            check(f"{self.name}: {ring}: losses in the file are those of the ring", last == lost)
        page = fetch(f"http://127.0.0.1:{self.health}/metrics")
        found = re.findall(r'^perfring_ring_lost_records_total{cause="(\w+)",ring="' + ring + r'"} (\d+)$', page, re.M)
        served = {cause: int(count) for cause, count in found if int(count)}
        check(f"{self.name}: {ring}: losses on the page are those of the ring", served == lost)


JSON = '[[output]]\ntype = "json"\nname = "file"\npath = "{}/out.jsonl"\nmax_bytes = 0\n'


def outage(rotel):
    """The receiver is down for some seconds, and the sidecar is killed meanwhile."""
    drill, count = Drill("outage"), 20_000
    sink = Sink()
    receiver = rotel(sink)
    drill.configure(
        JSON.format(drill.out)
        + f'[[output]]\ntype = "otlp"\nname = "collector"\nendpoint = "{receiver.url}"\nbatch_delay = "50ms"\ntimeout = "2s"\n'
        # Less than the ring holds, so that the output falls behind the file.
        "queue_bytes = 65536\n"
    )
    drill.ring("shop")
    drill.start()
    drill.publish("shop", 100)
    drill.delivered("collector", 100)
    until("rotel passes them on", lambda: len(sink.texts) == 100)
    receiver.stop()
    drill.publish("shop", count - 100, 100)
    drill.fires("PerfringOutputTrouble", "PerfringRecordsOld", "PerfringRingFull", "PerfringOutputNotDelivering")
    drill.kill()
    drill.start()
    drill.fires("PerfringOutputBehind", "PerfringRingStuck")
    receiver.start()
    until("all arrive", lambda: len(sink.texts) >= count)
    drill.exact("through rotel", sink.texts, "shop", count)
    came = drill.exact("the file", [it["text"] for it in drill.lines() if "text" in it], "shop", count)
    print(f"   {sink.records - count} twice by OTLP, {came - count} twice in the file, after kill -9")
    return drill


class Nats:
    """A NATS server with JetStream."""

    def __init__(self, drill):
        self.port, self.monitor = free_port(), free_port()
        store = drill.dir / "jetstream"
        start(["nats-server", "-a", "127.0.0.1", "-p", self.port, "-m", self.monitor, "-js", "-sd", store], "nats")
        until("NATS serves", lambda: is_served(f"http://127.0.0.1:{self.monitor}/healthz"))
        self.url = f"nats://127.0.0.1:{self.port}"

    def streams(self):
        found = json.loads(fetch(f"http://127.0.0.1:{self.monitor}/jsz?streams=true"))
        return [it for account in found.get("account_details", []) for it in account.get("stream_detail", [])]

    def messages(self):
        return sum(it["state"]["messages"] for it in self.streams())

    def texts(self):
        """Returns all messages of the one stream."""
        (stream,) = self.streams()
        with socket.create_connection(("127.0.0.1", self.port)) as link:
            lines = link.makefile("rb")
            link.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nSUB inbox 1\r\n')
            for number in range(1, stream["state"]["last_seq"] + 1):
                asked = json.dumps({"seq": number}).encode()
                link.sendall(b"PUB $JS.API.STREAM.MSG.GET.%s inbox %d\r\n%s\r\n" % (stream["name"].encode(), len(asked), asked))
                while not (line := lines.readline()).startswith(b"MSG "):
                    assert line, "the server hung up"
                answer = json.loads(lines.read(int(line.split()[-1])))
                lines.readline()
                yield base64.b64decode(answer["message"]["data"]).decode()


def jetstream():
    """NATS JetStream has each record once, after five kills of the sidecar."""
    drill, count = Drill("jetstream"), 50_000
    server = Nats(drill)
    drill.configure(f'[[output]]\ntype = "nats"\nname = "engine"\nservers = ["{server.url}"]\npayload = "raw"\n')
    drill.ring("engine", "8M")
    drill.start()
    for turn in range(5):
        drill.publish("engine", count // 5, turn * count // 5)
        before = server.messages()
        until("some come", lambda: server.messages() > before)
        drill.kill()
        drill.start()
    until("all come", lambda: server.messages() >= count)
    until("nothing is held", lambda: drill.status()["rings"][0]["lag_bytes"] == 0)
    came = drill.exact("in the stream", server.texts(), "engine", count)
    check(f"jetstream: each once: {came} messages of {count}", came == count)
    return drill


def full_disk():
    """A disk fills up, and is enlarged."""
    drill, count = Drill("full-disk"), 20_000
    disk = drill.dir / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True).returncode:
        print("SKIPPED: a full disk: only root may mount one")
        assert not os.environ.get("PERFRING_NO_SKIP")
        return None
    mounts.append(disk)
    drill.out = disk
    drill.configure(JSON.format(disk))
    drill.ring("shop", "2M")
    drill.start()
    drill.publish("shop", count)
    until("it is in trouble", lambda: drill.output("file")["trouble"])
    drill.fires("PerfringOutputTrouble")
    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
    drill.delivered("file", count)
    drill.exact("the file", [it["text"] for it in drill.lines()], "shop", count)
    return drill


def reload():
    """Outputs come by a reload, a second sidecar is refused, and DuckDB reads what Parquet has."""
    import duckdb

    drill, count = Drill("reload"), 10_000
    drill.configure(JSON.format(drill.out))
    drill.ring("shop")
    drill.start()
    drill.publish("shop", count // 2)
    drill.delivered("file", count // 2)
    parquet = f'[[output]]\ntype = "parquet"\nname = "table"\npath = "{drill.out}/table"\nmax_age = "1s"\n'
    drill.configure(JSON.format(drill.out) + parquet)
    code, _, error = run("sidecar", "reload", "--control", drill.dir / "control")
    check(f"reload: reloads {error.strip()}", code == 0)
    drill.publish("shop", count // 2, count // 2)
    drill.delivered("file", count)
    code, _, error = run("sidecar", "--config", drill.config)
    check(f"reload: a second sidecar does not start: {error.strip().splitlines()[-1]}", code not in (0, -9))
    drill.exact("the file", [it["text"] for it in drill.lines()], "shop", count)
    drill.delivered("table", count // 2)
    files = [str(path) for path in (drill.out / "table").rglob("*.parquet")]
    found = duckdb.sql(f"select count(*) from read_parquet({files!r}, union_by_name = true)").fetchall()[0][0]
    # A new output begins with what the rings still hold.
    check(f"reload: DuckDB reads {found}, the output delivered {drill.output('table')['delivered']}", found >= count // 2)
    return drill


def unreadable():
    """A producer makes its ring for itself alone."""
    drill = Drill("unreadable")
    if os.geteuid():
        print("SKIPPED: a ring without permission: only root may be another user")
        assert not os.environ.get("PERFRING_NO_SKIP")
        return None
    for path in (drill.dir, drill.out):
        os.chown(path, 65534, 65534)
    os.chmod(drill.rings, 0o755)
    drill.user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    drill.configure(JSON.format(drill.out))
    drill.ring("private", mode="0600")
    drill.ring("public", mode="0666")
    drill.start()
    drill.publish("public", 100)
    drill.delivered("file", 100)
    drill.fires("PerfringRingsUnreadable")
    drill.exact("the other ring", [it["text"] for it in drill.lines()], "public", 100)
    return drill


def losses():
    """A ring overflows while no sidecar runs: every output has the loss that `perfring stat` has."""
    import duckdb

    drill, count = Drill("losses"), 20_000
    sink, server = Sink(), Nats(drill)
    drill.configure(
        JSON.format(drill.out)
        + f'[[output]]\ntype = "otlp"\nname = "collector"\nendpoint = "{sink.url}"\nbatch_delay = "50ms"\n'
        f'[[output]]\ntype = "nats"\nname = "engine"\nservers = ["{server.url}"]\n'
        f'[[output]]\ntype = "parquet"\nname = "table"\npath = "{drill.out}/table"\nmax_age = "1s"\n'
    )
    drill.ring("first")
    drill.start()
    drill.publish("first", 10)
    drill.delivered("file", 10)
    drill.ring("small", "64K")
    end(drill.process)
    taken = drill.publish("small", count)
    # Prometheus saw the sidecar without this loss.
    drill.start()
    for output in ("file", "collector", "engine", "table"):
        drill.delivered(output, taken)
    drill.fires("PerfringRecordsLost")
    stat = json.loads(run("stat", "--json", drill.rings / "small")[1])["full_records"]
    check(f"losses: {taken} and {stat} lost are {count}", taken < count and taken + stat == count)
    tables = str(drill.out / "table*" / "**" / "losses.parquet")
    table = f"select sum(records)::bigint from read_parquet('{tables}') where cause = 'full'"
    for output, lost in {
        "the file": lambda: lost_in(drill.lines()),
        "OTLP": lambda: sum(int(text.split()[0]) for text in sink.texts if text.endswith(b" records lost: full")),
        "JetStream": lambda: lost_in([json.loads(text) for text in server.texts()]),
        "DuckDB": lambda: duckdb.sql(table).fetchall()[0][0],
    }.items():
        until(f"{output} has the loss", lost)
        check(f"losses: {output}: {lost()} of {stat}", lost() == stat)
    return drill


def lost_in(lines):
    return sum(it["lost"]["records"] for it in lines if "lost" in it and it["lost"]["cause"] == "full")


def refused():
    """The receiver calls everything malformed."""
    drill, count = Drill("refused"), 1000
    sink = Sink(400)
    drill.configure(
        f'[[output]]\ntype = "otlp"\nname = "collector"\nendpoint = "{sink.url}"\nbatch_delay = "50ms"\n'
        f'dead_letters = "{drill.out}/dead.jsonl"\n'
    )
    drill.ring("shop")
    drill.start()
    drill.publish("shop", count)
    until("all are refused", lambda: drill.output("collector")["refused"] >= count)
    drill.fires("PerfringOutputRefused")
    check(f"refused: {drill.output('collector')['refused']} of {count}", drill.output("collector")["refused"] == count)
    letters = [json.loads(line) for line in (drill.out / "dead.jsonl").read_text().splitlines()]
    texts = [body for it in letters for body in log_bodies(base64.b64decode(it["request"]))]
    drill.exact("dead letters", texts, "shop", count)
    return drill


def dropped():
    """A best-effort output is slower than its rings."""
    drill, count = Drill("dropped"), 20_000
    sink = Sink()
    sink.hang = True
    drill.configure(
        JSON.format(drill.out)
        + f'[[output]]\ntype = "otlp"\nname = "slow"\nendpoint = "{sink.url}"\ndelivery = "best-effort"\n'
        'queue_bytes = 65536\nbatch_bytes = 16384\nbatch_items = 100\nbatch_delay = "10ms"\n'
    )
    drill.ring("shop")
    drill.start()
    drill.publish("shop", count)
    drill.delivered("file", count)
    drill.fires("PerfringOutputDropped")
    sink.hang = False
    until("what it took is delivered", lambda: drill.output("slow")["held"] == 0)
    slow = drill.output("slow")
    check(f"dropped: {slow['dropped']} dropped and {slow['delivered']} delivered are {count}", slow["dropped"] + slow["delivered"] == count)
    return drill


def damaged_ring():
    """A program truncates a ring."""
    drill = Drill("damaged-ring")
    drill.configure(JSON.format(drill.out))
    drill.ring("shop")
    drill.ring("other")
    drill.start()
    drill.publish("shop", 100)
    drill.publish("other", 100)
    drill.delivered("file", 200)
    os.truncate(drill.rings / "shop", 4096)
    drill.fires("PerfringRingDamaged")
    drill.publish("other", 100, 100)
    drill.delivered("file", 300)
    drill.exact("the other ring", [it["text"] for it in drill.lines() if it["ring"] == "other"], "other", 200)
    return drill


def metrics_area():
    """A metrics area has no room, and a program writes over it."""
    drill = Drill("metrics-area")
    drill.configure(JSON.format(drill.out))
    drill.ring("shop", more=["--producers", "many", "--metrics-size", "64K"])
    drill.start()
    with open(drill.rings / "shop", "r+b") as file:
        file.seek(1328)
        area = int.from_bytes(file.read(8), sys.byteorder)

        def write(word, value):
            os.pwrite(file.fileno(), value.to_bytes(8, sys.byteorder), area + 8 * word)

        write(1, 3)  # so many instruments that programs registered found no room
        drill.fires("PerfringInstrumentsRefused")
        write(0, 65)
        drill.fires("PerfringMetricsDamaged")
    drill.publish("shop", 100)
    drill.delivered("file", 100)
    drill.exact("its records", [it["text"] for it in drill.lines() if it["ring"] == "shop"], "shop", 100)
    return drill


def damaged_buffer():
    """A disk damages the buffer of an output that is down."""
    drill, count = Drill("damaged-buffer"), 20_000
    sink = Sink(503)
    drill.configure(
        f'[[output]]\ntype = "otlp"\nname = "collector"\nendpoint = "{sink.url}"\nbatch_delay = "50ms"\nqueue_bytes = 65536\n'
        f'buffer = {{ path = "{drill.out}/buffer", max_bytes = 100_000_000 }}\n'
    )
    drill.ring("shop", "4M")
    drill.start()
    drill.publish("shop", count)
    until("the buffer has them", lambda: drill.status()["rings"][0]["records"] == count and drill.status()["settled"] is not None)
    drill.kill()
    files = [path for path in (drill.out / "buffer").iterdir() if path.stat().st_size > 200_000]
    check("damaged-buffer: the buffer has a file", bool(files))
    with open(files[0], "r+b") as file:
        file.seek(150_000)
        file.write(b"\xff" * 1000)
    sink.code = 200
    drill.start()
    drill.fires("PerfringBufferDamaged")
    until("nothing is held", lambda: drill.output("collector")["held"] == 0 and len(sink.texts) > 0)
    lost = drill.output("collector")["damaged"]
    # The report of the loss is a log record, too.
    came = lambda: sum(text.startswith(b"shop ") for text in sink.texts)
    until("all others come", lambda: came() + lost >= count)
    check(f"damaged-buffer: {came()} and {lost} damaged are {count}", came() + lost == count)
    return drill


def down():
    """A sidecar dies, and nothing starts it again."""
    drill = Drill("down")
    drill.configure(JSON.format(drill.out))
    drill.ring("shop")
    drill.start()
    until("Prometheus sees it", lambda: query(f'up{{drill="{drill.name}"}} == 1'))
    drill.kill()
    drill.fires("PerfringSidecarDown")
    return None


class Rotel:
    """rotel, which passes log records to a sink."""

    def __init__(self, sink):
        self.port, self.sink, self.process = free_port(), sink, None
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        import rotel

        agent = pathlib.Path(rotel.__file__).parent / "rotel-agent"
        self.process = start(
            [agent, "start", "--otlp-http-endpoint", f"127.0.0.1:{self.port}", "--otlp-grpc-endpoint", f"127.0.0.1:{free_port()}",
             "--exporter", "otlp", "--otlp-exporter-endpoint", self.sink.url, "--otlp-exporter-protocol", "http",
             "--pid-file", place / "rotel.pid", "--log-file", place / "rotel-agent.log"],
            "rotel",
        )  # fmt: skip
        until("rotel listens", self.listens)

    def listens(self):
        with socket.socket() as it:
            return it.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        end(self.process)


prometheus_url = ""


def query(expression):
    text = urllib.parse.urlencode({"query": expression})
    return json.loads(fetch(f"{prometheus_url}/api/v1/query?{text}"))["data"]["result"]


def start_prometheus():
    """Starts Prometheus with the alert rules, in which each minute is a second."""
    global prometheus_url
    (place / "targets").mkdir()
    rules = re.sub(r"\b(\d+)m\b", r"\1s", RULES.read_text()).replace("unread_age_seconds > 60", "unread_age_seconds > 1")
    (place / "rules.yml").write_text(rules)
    subprocess.run(["promtool", "check", "rules", RULES], check=True, stdout=subprocess.DEVNULL)
    test = RULES.with_name("perfring.rules.test.yml")
    subprocess.run(["promtool", "test", "rules", test], check=True, stdout=subprocess.DEVNULL)
    (place / "prometheus.yml").write_text(
        "global: { scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms }\n"
        f"rule_files: [{place}/rules.yml]\nscrape_configs:\n  - job_name: perfring\n"
        f"    file_sd_configs: [{{ files: ['{place}/targets/*.json'], refresh_interval: 1s }}]\n"
    )
    port = free_port()
    prometheus_url = f"http://127.0.0.1:{port}"
    start(
        ["prometheus", f"--config.file={place}/prometheus.yml", f"--storage.tsdb.path={place}/tsdb",
         f"--web.listen-address=127.0.0.1:{port}"],
        "prometheus",
    )  # fmt: skip
    until("Prometheus is ready", lambda: is_served(f"{prometheus_url}/-/ready"))


def panels():
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield panel, [target["expr"].replace("$__rate_interval", "5s") for target in panel["targets"]]


def dashboard():
    """Evaluates each query of the dashboard."""
    for panel, queries in panels():
        for expression in queries:
            check(f"dashboard: {panel['title']}: {expression}", bool(query(expression)))


def main():
    global perfring, place
    perfring = str(pathlib.Path(sys.argv[1]).resolve())
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    place = pathlib.Path(tempfile.mkdtemp(prefix="perfring-day-", dir=shm))
    place.chmod(0o755)
    began = time.monotonic()
    try:
        start_prometheus()
        drills = [
            lambda: outage(Rotel), jetstream, full_disk, reload, unreadable, losses, refused, dropped, damaged_ring, metrics_area,
            damaged_buffer, down,
        ]  # fmt: skip
        done = []
        for drill in drills:
            try:
                done.append(drill())
            except Exception as error:
                problems.append(f"{getattr(drill, '__name__', 'outage')}: {error!r}")
                print(f"   FAILED: {error!r}", flush=True)
        print("-- the dashboard and all figures", flush=True)
        dashboard()
        if "--pictures" in sys.argv:
            from picture import draw

            draw(prometheus_url, list(panels()), pathlib.Path(sys.argv[sys.argv.index("--pictures") + 1]))
        for drill in filter(None, done):
            drill.accounts()
            code = end(drill.process)
            check(f"{drill.name}: its sidecar ends with 0", code == 0)
        rules = re.findall(r"alert: (\w+)", RULES.read_text())
        check(f"each of {len(rules)} alerts fired: {sorted(set(rules) - set(fired)) or 'all'}", set(rules) == set(fired))
    except Exception as error:
        problems.append(repr(error))
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for mount in mounts:
            subprocess.run(["umount", "-l", mount])
        if problems and os.environ.get("PERFRING_KEEP"):
            print(f"all files are in {place}")
        else:
            shutil.rmtree(place)
    print(f"\nthe day took {time.monotonic() - began:.0f} s; {len(problems)} problems")
    for problem in problems:
        print(f"  {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
