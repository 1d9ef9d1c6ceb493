"""What the tests stand on: programs that end with their test, a broker, a listener, an agent, a meter.

A test is a function that takes a `Stage`. It fails by raising `Failed`, and whatever it started on its
stage is ended afterwards, however the test ends.
"""

import datetime
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
METER = HERE.parent / "bench" / "meter.py"
MOSQUITTO = next(
    (path for path in ("/usr/sbin/mosquitto", "/usr/bin/mosquitto", "/usr/local/sbin/mosquitto")
     if os.access(path, os.X_OK)), None)

tests = {}
stopped = threading.Event()


def test(name):
    """Registers a test under a name; one function may stand behind many names."""
    def register(function):
        assert name not in tests, name
        tests[name] = function
        return function
    return register


class Failed(Exception):
    """Something does not hold. The text says what was expected and what was found."""


class Stopped(Exception):
    """The whole run is being ended."""


def check(holds, text, *found):
    if not holds:
        raise Failed(text + "".join(f"\n        {item!r}" for item in found))


def equal(found, expected, what):
    check(found == expected, f"{what}: expected {expected!r}, found {found!r}")


def near(found, expected, tolerance, what):
    check(
        found is not None and abs(found - expected) <= tolerance,
        f"{what}: expected {expected:.6g} ± {tolerance:.2g}, found {found}")


def seconds(text):
    """Seconds since 1970 of a time as the agent writes it."""
    check(isinstance(text, str) and text.endswith("Z") and len(text) == 24, "a time", text)
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


# --- Programs -----------------------------------------------------------------------------------

class Program:
    """A running program, in a process group of its own, whose output goes to files."""

    def __init__(self, stage, command, name, env=None, stdin=subprocess.DEVNULL, user=None):
        self.name = name
        self.out_path = stage.folder / f"{name}.out"
        self.log_path = stage.folder / f"{name}.log"
        # Appended to: an agent that is started again under its name goes on with its files.
        with open(self.out_path, "ab") as out, open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command], stdin=stdin, stdout=out, stderr=log,
                cwd=stage.folder, env={**stage.env, **(env or {})}, start_new_session=True, user=user)
        self.id = self.process.pid

    @property
    def out(self):
        return self.out_path.read_text("utf-8", "replace")

    @property
    def log(self):
        return self.log_path.read_text("utf-8", "replace")

    @property
    def runs(self):
        return self.process.poll() is None

    def send(self, number):
        if self.runs:
            self.process.send_signal(number)

    def kill(self):
        """The program and all it has started, at once."""
        try:
            os.killpg(self.id, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def end(self, limit=10.0, number=signal.SIGTERM):
        """Asks it to end. Returns its exit code and how long that took."""
        start = time.monotonic()
        self.send(number)
        try:
            code = self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} did not end within {limit} s after {number.name}") from None
        return code, time.monotonic() - start


class Finished:
    """A program that has run to its end."""

    def __init__(self, command, code, out, err):
        self.command, self.code, self.out, self.err = command, code, out, err

    def __repr__(self):
        return f"{self.command}: exit {self.code}, printed {self.out[-600:]!r}, {self.err[-600:]!r}"

    @property
    def json(self):
        try:
            return json.loads(self.out)
        except ValueError as error:
            raise Failed(f"no JSON ({error}): {self!r}") from None


# --- The stage ----------------------------------------------------------------------------------

class Stage:
    def __init__(self, program, name, root):
        self.program, self.name = program, name
        self.folder = root / name
        self.folder.mkdir()
        self.folder.chmod(0o755)
        self.notes = []
        self.started = []
        self.env = {key: value for key, value in os.environ.items()
                    if not key.startswith(("LC_", "NOTIFY_", "WATCHDOG_", "JOURNAL_"))}
        self.env.update(LANG="C.UTF-8", TMPDIR=str(self.folder))

    def note(self, text):
        """A measured figure, to be shown beside the test's name."""
        self.notes.append(text)

    def start(self, command, name, **more):
        program = Program(self, command, name, **more)
        self.started.append(program)
        return program

    def run(self, *words, stdin=None, limit=20.0, env=None, **more):
        """Runs the program under test to its end."""
        return self.call([self.program, *words], stdin=stdin, limit=limit, env=env, **more)

    def call(self, command, stdin=None, limit=20.0, env=None, **more):
        command = [str(word) for word in command]
        shown = " ".join([os.path.basename(command[0]), *command[1:]])
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
            env={**self.env, **(env or {})}, start_new_session=True, **more)
        try:
            out, err = process.communicate(
                stdin.encode() if isinstance(stdin, str) else stdin, timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Failed(f"{shown}: still running after {limit} s") from None
        return Finished(
            shown, process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def sleep(self, duration):
        if stopped.wait(duration):
            raise Stopped

    def wait(self, what, condition, limit):
        """Waits until a condition gives something, and returns that."""
        deadline = time.monotonic() + limit
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > deadline:
                raise Failed(f"not within {limit:g} s: {what}")
            self.sleep(0.05)

    def file(self, name, content):
        path = self.folder / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, "utf-8")
        return path

    def leftovers(self, word=None):
        """Processes whose command line names this test's folder, other than those of `started`."""
        known = {program.id for program in self.started if program.runs} | {os.getpid()}
        return [(number, line) for number, line in processes_with(str(self.folder) + "/")
                if number not in known and (word is None or word in line)]

    def close(self):
        for program in reversed(self.started):
            if program.runs:
                program.send(signal.SIGTERM)
        deadline = time.monotonic() + (0.0 if stopped.is_set() else 3.0)
        for program in reversed(self.started):
            try:
                program.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            program.kill()
        for number, _ in self.leftovers():
            kill_quietly(number)

    def tail(self):
        """The last lines of each log."""
        lines = []
        for path in sorted(self.folder.glob("*.log")):
            text = path.read_text("utf-8", "replace").strip().splitlines()
            if text:
                most = 5 if path.name == "mosquitto.log" else 20
                lines += [f"--- {path.name}", *text[-most:]]
        return lines


def processes_with(text):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    line = file.read().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if text in line:
                found.append((int(entry), line))
    return found


def kill_quietly(number):
    try:
        os.kill(number, signal.SIGKILL)
    except ProcessLookupError:
        pass


# --- The broker ---------------------------------------------------------------------------------

_ports, _ports_lock = set(), threading.Lock()


def free_port():
    """A loopback port that nobody listens at and no other test was given."""
    with _ports_lock:
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            if port not in _ports:
                _ports.add(port)
                return port


class Message:
    def __init__(self, line):
        time_text, self.topic, retained, qos, self.payload = line.split("\t", 4)
        self.time = float(time_text)
        self.retained, self.qos = retained == "1", int(qos)

    @property
    def json(self):
        try:
            return json.loads(self.payload)
        except ValueError as error:
            raise Failed(f"{self.topic}: no JSON ({error}): {self.payload!r}") from None

    def __repr__(self):
        kept = ", retained" if self.retained else ""
        return f"{self.topic} (QoS {self.qos}{kept}): {self.payload}"


FORMAT = r"%U\t%t\t%r\t%q\t%p"


class Broker:
    """A real mosquitto that forgets all when it ends."""

    def __init__(self, stage, start=True):
        self.stage, self.port = stage, free_port()
        self.configuration = stage.file("mosquitto.conf", "\n".join([
            f"listener {self.port} 127.0.0.1", "allow_anonymous true", "persistence false",
            "log_dest stderr", "log_type error", "log_type warning", "log_type notice",
            "connection_messages true", "max_queued_messages 0", ""]))
        self.program = None
        self.url = f"mqtt://127.0.0.1:{self.port}"
        if start:
            self.start()

    def start(self):
        self.program = self.stage.start([MOSQUITTO, "-c", self.configuration], "mosquitto")
        self.stage.wait("the broker listens", self.listens, 10)

    def listens(self):
        check(self.program.runs, f"the broker has ended: {self.program.log}")
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def kill(self):
        self.program.kill()

    def client(self, tool, *words):
        return [tool, "-h", "127.0.0.1", "-p", str(self.port), "-V", "mqttv5", *words]

    def retained(self):
        """What a newcomer gets at once: topic → message."""
        result = self.stage.call(
            self.client("mosquitto_sub", "-t", "#", "-q", "1", "-W", "1", "--retained-only",
                        "-F", FORMAT))
        messages = [Message(line) for line in result.out.splitlines()]
        return {message.topic: message for message in messages}

    def publish(self, topic, payload):
        result = self.stage.call(
            self.client("mosquitto_pub", "-t", topic, "-m", payload, "-q", "1"))
        equal(result.code, 0, f"exit of {result!r}")


class Listener:
    """Everything that a broker passes on from now, also after it was away."""

    def __init__(self, broker):
        self.messages = []
        self.program = broker.stage.start(
            broker.client("mosquitto_sub", "-t", "#", "-q", "1", "--retain-as-published",
                          "-F", FORMAT), f"listener-{id(self):x}")
        self.position, self.rest = 0, ""
        self.lock = threading.Lock()
        self.broker = broker
        self.await_subscription()

    def await_subscription(self):
        """Until a message of ours arrives, so that none that follows is missed."""
        number = time.monotonic_ns()

        def arrives():
            self.broker.publish("probe", str(number))
            return any(m.topic == "probe" and m.payload == str(number) for m in self.all())
        self.broker.stage.wait("a listener is subscribed", arrives, 15)

    def all(self):
        with self.lock:
            with open(self.program.out_path, encoding="utf-8") as file:
                file.seek(self.position)
                text = file.read()
                self.position = file.tell()
            *lines, self.rest = (self.rest + text).split("\n")
            self.messages += [Message(line) for line in lines]
            return list(self.messages)

    def of(self, suffix, mac=None):
        """Messages whose topic ends so."""
        end = f"/{suffix}" if mac is None else f"/meter/{mac}/{suffix}"
        return [m for m in self.all() if m.topic.endswith(end)]


# --- Agent and meter ----------------------------------------------------------------------------

MAC = "0015a3005501"


def configuration(stage, meters, broker=None, sessions="", storage="", gateway="bench-1", data="data"):
    """Text of a configuration. `meters`: pairs of the link's name and the model."""
    lines = [f"gateway: {{ id: {gateway}, data: {stage.folder}/{data} }}"]
    if broker:
        lines.append(f'mqtt: {{ url: "{broker.url}", base_topic: usbmeter }}')
    if sessions:
        lines.append(f"sessions: {{ {sessions} }}")
    if storage:
        lines.append(f"storage: {{ {storage} }}")
    lines.append("meters:")
    for number, (link, model) in enumerate(meters, 1):
        lines.append(
            f'  - {{ name: Bench {number}, address: "00:15:A3:00:55:{number:02X}", '
            f"serial: {stage.folder}/{link}, model: {model}, poll_interval: 500 ms }}")
    return "\n".join(lines) + "\n"


class Agent:
    def __init__(self, stage, text, name="agent"):
        self.stage, self.name = stage, name
        self.path = stage.file(f"{name}.yaml", text)
        self.program, self.starts = None, 0

    def start(self, env=None):
        """Starts it, or starts it again, and waits until its database is open."""
        self.program = self.stage.start(
            [self.stage.program, "run", "--config", self.path], self.name, env=env)
        self.starts += 1
        self.stage.wait("the agent starts", lambda: (
            self.program.log.count(" starts as ") >= self.starts or not self.program.runs), 10)
        check(self.program.runs, f"the agent has ended: {self.program.log}")
        return self

    def lines(self):
        """Level and text of each line of the log."""
        found = []
        for line in self.program.log.splitlines():
            parts = line.split(" ", 2)
            check(len(parts) == 3 and parts[0].endswith("Z"), "a line of the log has no time", line)
            found.append((parts[1], parts[2]))
        return found

    def complaints(self):
        return [f"{level} {text}" for level, text in self.lines() if level in ("warning", "error")]

    def sessions(self):
        result = self.stage.run("sessions", "list", "--json", "--config", self.path)
        check(result.code == 0, f"sessions list: {result!r}")
        return result.json

    def completed(self):
        return [s for s in self.sessions() if s["complete"]]


class Meter:
    """The independent meter on a pseudo-terminal."""

    def __init__(self, stage, link, model, profile, name="meter", **options):
        self.truth_path = stage.folder / f"{name}.truth"
        command = [sys.executable, METER, "--model", model, "--link", stage.folder / link,
                   "--profile", ",".join(str(value) for value in profile),
                   "--truth", self.truth_path]
        for key, value in options.items():
            command += [f"--{key.replace('_', '-')}", str(value)]
        self.program = stage.start(command, name)
        stage.wait("the meter is ready", lambda: "ready" in self.program.out, 10)

    def truth(self):
        """Ends it. Returns what it has answered, and its summary."""
        self.program.end()
        check(self.truth_path.exists(), f"the meter failed: {self.program.log}")
        records = [json.loads(line) for line in self.truth_path.read_text().splitlines()]
        return records[:-1], records[-1]
