"""What the tests are made of: the air, a broker with an ear, and the program under test."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ADAPTER = "F0:00:00:00:00:01"
TICKS = os.sysconf("SC_CLK_TCK")


def wait_for(condition, seconds, every=0.05):
    """What the condition gives as soon as that is true, or what it gives at the end."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(every)
    return value


def end(process, seconds=8):
    """Ends a process of ours; tells how long that took, None if it had to be killed."""
    begun = time.monotonic()
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(seconds)
        return time.monotonic() - begun
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


class Lines:
    """The lines that a process writes, each with the time at which it came."""

    def __init__(self, stream, copy):
        self.lines = []
        self.thread = threading.Thread(target=self.read, args=(stream, copy), daemon=True)
        self.thread.start()

    def read(self, stream, copy):
        with open(copy, "a", buffering=1, encoding="utf-8") as file:
            for line in stream:
                self.lines.append((time.time(), line.rstrip("\n")))
                file.write(f"{time.time():.3f} {line}")

    def since(self, moment):
        return [(at, line) for at, line in list(self.lines) if at >= moment]


class Air:
    """The emulated radios and meters, in a process of their own (air/main.py)."""

    def __init__(self, results):
        self.folder = "/run/air"
        os.makedirs(self.folder, exist_ok=True)
        with open(f"{results}/air.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, "../air/main.py"), self.folder],
                stdout=subprocess.PIPE, stderr=log, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError("the emulated radios do not start; see air.log")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(f"{self.folder}/control")
        self.stream = self.socket.makefile("rw")
        self.read_until = 0
        self.records = []
        # Names are used again by the next test.
        self.begun = 0.0

    def do(self, name, **what):
        self.stream.write(json.dumps({"do": name, **what}) + "\n")
        self.stream.flush()
        answer = json.loads(self.stream.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["ok"]

    def journal(self, who=None, event=None, since=0.0):
        """What happened in this test, in order."""
        since = max(since, self.begun)
        with open(f"{self.folder}/journal", "rb") as file:
            file.seek(self.read_until)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self.records.append(json.loads(line))
                self.read_until += len(line)
        return [record for record in self.records
                if record["t"] >= since and who in (None, record["who"])
                and event in (None, record["event"])]

    def last(self, who, event, since=0.0):
        found = self.journal(who, event, since)
        return found[-1] if found else None


class Message:
    def __init__(self, line):
        stamp, retained, self.topic, self.text = line.split("\t", 3)
        self.at, self.retained = float(stamp), retained == "1"

    @property
    def value(self):
        return json.loads(self.text)


class Broker:
    """A private mosquitto and everything that it was told."""

    PORT = 18830

    def __init__(self, folder, results):
        with open(f"{folder}/mosquitto.conf", "w", encoding="utf-8") as file:
            file.write(f"listener {self.PORT} 127.0.0.1\nallow_anonymous true\npersistence false\n")
        with open(f"{results}/mosquitto.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["mosquitto", "-c", f"{folder}/mosquitto.conf"], stdout=log, stderr=log)
        if not wait_for(self.listens, 20):
            raise RuntimeError("mosquitto does not listen; see mosquitto.log")
        self.ear = subprocess.Popen(
            ["mosquitto_sub", "-h", "127.0.0.1", "-p", str(self.PORT), "-t", "#",
             "-F", "%U\t%r\t%t\t%p"], stdout=subprocess.PIPE, text=True)
        self.heard = Lines(self.ear.stdout, f"{results}/mqtt.txt")
        self.read_until, self.parsed = 0, []
        time.sleep(0.5)

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", self.PORT), 1).close()
            return True
        except OSError:
            return False

    def messages(self, topic=".*", since=0.0):
        lines = self.heard.lines
        while self.read_until < len(lines):
            line = lines[self.read_until][1]
            self.read_until += 1
            if line.count("\t") >= 3:
                self.parsed.append(Message(line))
        pattern = re.compile(topic)
        return [m for m in list(self.parsed) if m.at >= since and pattern.fullmatch(m.topic)]

    def live(self, meter, since=0.0):
        """The live values of a meter, each with `at`, when the broker had it."""
        topic = f"usbmeter/meter/{meter['address'].replace(':', '').lower()}/live"
        return [{**m.value, "at": m.at} for m in self.messages(topic, since)]

    def forget(self):
        """Clears what is retained, so that the next test starts anew."""
        for topic in {m.topic for m in self.messages() if m.text}:
            if not topic.endswith("/live"):
                subprocess.run(["mosquitto_pub", "-h", "127.0.0.1", "-p", str(self.PORT), "-t", topic,
                                "-r", "-n"], check=False)
        self.parsed.clear()

    def stop(self):
        end(self.ear)
        end(self.process)


class Program:
    """The program under test."""

    def __init__(self, path, folder, results, name):
        self.path, self.folder = path, folder
        self.results = f"{results}/{name}"
        os.makedirs(self.results, exist_ok=True)
        os.makedirs(folder, exist_ok=True)
        self.configuration = f"{folder}/usbmeter.yaml"
        self.process = None

    def configure(self, meters=(), adopt="automatic", mode="auto", slots=None):
        """Writes the configuration. Meters are those of the air, with keys to add or leave out."""
        known = f", slots: {slots}" if slots else ""
        text = (f"gateway: {{ id: vm, data: {self.folder}/data }}\n"
                f"mqtt: {{ url: 'mqtt://127.0.0.1:{Broker.PORT}' }}\n"
                f"bluetooth: {{ adopt: {adopt}, mode: {mode}{known} }}\n"
                "sessions: { end_delay: 5 s, start_delay: 1 s }\n"
                "storage: { flush_interval: 2 s }\n"
                "log: { level: debug }\n")
        entries = [f"  - {{ name: {m['name']}, address: '{m['address']}' }}\n" for m in meters]
        text += "meters:\n" + "".join(entries) if entries else "meters: []\n"
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(text)
        with open(f"{self.results}/usbmeter.yaml", "w", encoding="utf-8") as file:
            file.write(text)

    def start(self):
        self.process = subprocess.Popen(
            [self.path, "run", "--config", self.configuration], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace")
        self.log = Lines(self.process.stdout, f"{self.results}/run.log")
        self.started = time.time()

    def running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        """Seconds that it took, or None if it had to be killed."""
        return end(self.process)

    def call(self, *arguments, seconds=60, unprivileged=False):
        """Runs another command of it."""
        command = [self.path, *arguments]
        if unprivileged:
            command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                       "--inh-caps=-all", "--bounding-set=-all", *command]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                                  timeout=seconds, check=False)
        except subprocess.TimeoutExpired as late:
            done = subprocess.CompletedProcess(
                command, 124, (late.stdout or b"").decode(), (late.stderr or b"").decode())
        with open(f"{self.results}/commands.txt", "a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}[{done.returncode}]\n\n")
        return done

    # --- What /proc says ------------------------------------------------------------------------

    def status(self, key):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(key + ":"):
                    return int(line.split()[1])
        raise KeyError(key)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def processor_seconds(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


# --- Judging ------------------------------------------------------------------------------------

def shown(record):
    return round(record["voltage"], 5), round(record["current"], 6)


def strangers(live, frames):
    """Those of the published readings that no frame of the meter said at that time."""
    wrong = []
    for reading in live:
        if not any(shown(frame) == shown(reading) and -0.3 <= reading["at"] - frame["t"] <= 4
                   for frame in frames):
            wrong.append(reading)
    return wrong


def longest_gap(moments, begin, finish):
    """The longest time between two of the moments, from begin to finish."""
    inside = [begin, *sorted(m for m in moments if begin < m < finish), finish]
    return max(b - a for a, b in zip(inside, inside[1:]))
