"""What systemd hears, and what running costs."""

import os
import socket
import threading
import time

from stage import Agent, Broker, Listener, Meter, check, configuration, equal, test


class NotifySocket:
    """The socket that systemd gives to a service, and what arrives there when."""

    def __init__(self, path):
        self.messages = []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(0.2)
        self.open = True
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        while self.open:
            try:
                self.messages.append((time.monotonic(), self.socket.recv(4096).decode()))
            except TimeoutError:
                pass

    def of(self, start):
        return [(at, text) for at, text in self.messages if text.startswith(start)]

    def close(self):
        self.open = False
        self.thread.join()
        self.socket.close()


@test("systemd")
def systemd(stage):
    path = stage.folder / "n"
    bus = NotifySocket(path)
    try:
        broker = Broker(stage)
        agent = Agent(stage, configuration(stage, [("meter", "um25c")], broker))
        Meter(stage, "meter", "um25c", (2, 1, 30, 4, 5))
        agent.start(env={"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "2000000",
                         "JOURNAL_STREAM": "8:1"})
        ready = stage.wait("READY=1", lambda: bus.of("READY=1"), 10)
        stage.sleep(10)
        # At half of what the watchdog asks for.
        pings = [at for at, _ in bus.of("WATCHDOG=1")]
        steps = [b - a for a, b in zip(pings, pings[1:])]
        check(9 <= len(pings) <= 12 and max(steps) < 1.6, "WATCHDOG=1 each second", steps)
        states = [text for _, text in bus.of("STATUS=")]
        check(any("1 of 1 meters answer, 1 charging, broker connected" in text for text in states),
              "STATUS= tells what goes on", states)
        check(len(states) <= 5, "STATUS= only when something has changed", states)
        equal(agent.program.end(5)[0], 0, "exit code")
        stage.wait("STOPPING=1", lambda: bus.of("STOPPING=1"), 2)
        equal((len(ready), len(bus.of("READY=1")), len(bus.of("STOPPING=1"))), (1, 1, 1), "once each")
        lines = agent.program.log.splitlines()
        check(lines and all(line[:1] == "<" and line[2:3] == ">" and line[1] in "34567"
                            for line in lines), "the log has the journal's levels", lines[:3])
    finally:
        bus.close()


@test("systemd-without-meters")
def systemd_without_meters(stage):
    """Ready, whatever is missing: neither the broker nor a meter is a reason to wait."""
    path = stage.folder / "n"
    bus = NotifySocket(path)
    try:
        broker = Broker(stage, start=False)
        agent = Agent(stage, configuration(stage, [("meter", "um25c")], broker))
        agent.start(env={"NOTIFY_SOCKET": str(path)})
        stage.wait("READY=1", lambda: bus.of("READY=1"), 5)
        stage.wait("STATUS=", lambda: any(
            "0 of 1 meters answer" in text and "no broker" in text for _, text in bus.of("STATUS=")), 5)
        equal(agent.program.end(5)[0], 0, "exit code")
        equal(bus.of("WATCHDOG=1"), [], "pings that nobody asked for")
    finally:
        bus.close()


def cpu_seconds(number):
    with open(f"/proc/{number}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory(number):
    """In MB."""
    with open(f"/proc/{number}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 1024


@test("cost")
def cost(stage):
    """Peak memory, and processor time for each reading, with three meters that charge."""
    broker = Broker(stage)
    listener = Listener(broker)
    meters = [(f"meter{n}", model) for n, model in enumerate(("um25c", "um34c", "tc66c"), 1)]
    agent = Agent(stage, configuration(stage, meters, broker, sessions="start_delay: 2 s"))
    for link, model in meters:
        Meter(stage, link, model, (1, 1.5, 60, 2, 5), name=link)
    agent.start()
    stage.wait("all answer", lambda: len({m.topic for m in listener.of("live")}) == 3, 10)
    stage.sleep(2)

    def readings():
        return len(listener.of("live"))
    number = agent.program.id
    count, used, start = readings(), cpu_seconds(number), time.monotonic()
    stage.sleep(30)
    count, used = readings() - count, cpu_seconds(number) - used
    took = time.monotonic() - start
    memory = peak_memory(number)
    with open(f"/proc/{number}/status", encoding="ascii") as file:
        threads = next(int(line.split()[1]) for line in file if line.startswith("Threads:"))
    descriptors = len(os.listdir(f"/proc/{number}/fd"))
    stage.note(f"peak memory {memory:.1f} MB, processor {used / count * 1000:.2f} ms a reading "
               f"({used:.2f} s for {count} readings in {took:.0f} s), {threads} threads, "
               f"{descriptors} descriptors")
    check(count > 150, "readings", count)
    check(memory < 64, f"peak memory is {memory:.1f} MB")
    equal(agent.complaints(), [], "warnings and errors in the log")
    equal(agent.program.end(5)[0], 0, "exit code")


@test("reconnects")
def reconnects(stage):
    """A terminal that comes and goes leaves nothing behind: no descriptor, no thread."""
    broker = Broker(stage)
    agent = Agent(stage, configuration(stage, [("meter", "tc66c")], broker))

    def counts():
        with open(f"/proc/{agent.program.id}/status", encoding="ascii") as file:
            threads = next(int(line.split()[1]) for line in file if line.startswith("Threads:"))
        return len(os.listdir(f"/proc/{agent.program.id}/fd")), threads
    seen = []
    for turn in range(6):
        meter = Meter(stage, "meter", "tc66c", (30, 1, 1, 1, 1), name=f"meter{turn}")
        if turn == 0:
            agent.start()
        stage.wait("the meter answers", lambda: agent.program.log.count("answers on") > turn, 10)
        stage.sleep(1)
        seen.append(counts())
        meter.program.end()
        stage.wait("the loss is noticed", lambda: len(agent.complaints()) > turn, 5)
    stage.note(f"descriptors and threads: {seen}")
    check(seen[-1][0] <= seen[1][0] and seen[-1][1] <= seen[1][1] + 2, "nothing grows", seen)
    equal(len(agent.complaints()), 6, "one line on each loss")
