"""What the subcommands promise: output, exit codes, messages."""

import gzip
import json
import os
import subprocess
import signal
import stat

from frames import FRAMES
from stage import Agent, Broker, Listener, Meter, check, configuration, equal, near, test

SUBCOMMANDS = "run demo simulate read decode sessions check replay version".split()


@test("help")
def help_texts(stage):
    overview = stage.run("--help")
    equal((overview.code, overview.err), (0, ""), "--help")
    for name in SUBCOMMANDS:
        check(f"\n  {name} " in overview.out, f"the overview names {name}", overview.out)
        text = stage.run(name, "--help")
        check(text.code == 0 and text.err == "" and text.out.startswith(f"usage: usbmeter {name}"),
              f"{name} --help", text)
        check(max(map(len, text.out.splitlines())) <= 110, "lines that fit a terminal", text.out)
        equal(stage.run(name, "-h").out, text.out, f"{name} -h")
    versions = [stage.run("version"), stage.run("--version")]
    check(all(v.code == 0 and v.out.startswith("usbmeter ") for v in versions) and
          versions[0].out == versions[1].out, "the version", versions)


WRONG = [line for line in """

frob
run one
run --config
run --config= --config=
run --confg file
demo one
demo --speed 0
demo --speed fast
demo --speed 101
demo --duration never
demo --duration 0
demo --broker :::
demo --broker host:99999
simulate
simulate um25c
simulate um99 --pty here
simulate um25c tc66c --pty here
simulate um25c --pty here --profile none
simulate um25c --pty here --fault none
simulate um25c --pty here --fault cut:p=2
simulate um25c --pty here --seed one
read
read one two
read --count 0 here
read --count many here
read --count
read --interval 0 here
read --interval soon here
read --model um99 here
read --temperature-unit kelvin here
read --json=yes here
decode
decode um25c 00 00
decode --temperature-unit kelvin um25c 00
sessions
sessions lst
sessions list one
sessions list --limit 0 --data .
sessions list --meter one --data .
sessions list --config one --data two
sessions show
sessions show one two
check one two
check --config one two
check --json
replay
replay one two
replay --jsn one
version one
""".split("\n")][1:-1]


@test("wrong-use")
def wrong_use(stage):
    for line in WRONG:
        result = stage.run(*line.split())
        check(result.code == 64, "exit 64", result)
        check(result.out == "" and len(result.err.strip().splitlines()) == 1 and
              result.err.startswith("usbmeter") and "--help" in result.err or "did you mean" in
              result.err, "one helpful line", result)
    for line, hint in (("runn", "run"), ("read --jsn here", "--json"), ("sesions list", "sessions")):
        result = stage.run(*line.split())
        check(f"did you mean {hint}?" in result.err, "a suggestion", result)
    equal(sorted(path.name for path in stage.folder.iterdir()), [], "files made by wrong use")


@test("decode")
def decode(stage):
    for model, hexadecimal, expected in FRAMES:
        spaced = " ".join(hexadecimal[i:i + 2] for i in range(0, len(hexadecimal), 2)).upper()
        plain = stage.run("decode", model, hexadecimal)
        equal((plain.code, plain.err), (0, ""), f"decode {model}")
        found = plain.json
        equal({key: found.get(key, "missing") for key in expected}, expected, model)
        equal(len(plain.out.splitlines()), 1, "lines")
        for same in (stage.run("decode", model.upper(), spaced),
                     stage.run("decode", model, "-", stdin=hexadecimal + "\n"),
                     stage.run("decode", model, stdin=spaced.replace(" ", ":") + "\r\n"),
                     stage.run("decode", model, hexadecimal, env={"LC_ALL": "de_DE.UTF-8"})):
            equal((same.code, same.out), (0, plain.out), f"the same frame in another way: {same!r}")
        for name, bad in {
                "odd": hexadecimal[:-1], "short": hexadecimal[:-2], "long": hexadecimal + "00",
                "no hex": "xy" + hexadecimal[2:], "nothing": " ", "one digit": "0"}.items():
            result = stage.run("decode", model, bad)
            check(result.code == 65 and result.out == "" and
                  len(result.err.strip().splitlines()) == 1, f"{name}: exit 65 and a line", result)
        spoilt = bytearray.fromhex(hexadecimal)
        spoilt[-1] ^= 1
        bad = stage.run("decode", model, spoilt.hex())
        equal((bad.code, bad.json["check"]), (1, "bad"), f"a bad check: {bad!r}")
        if model != "tc66c":
            equal({**bad.json, "check": "ok"}, found, "the rest of a frame with a bad check")
    equal(stage.run("decode", "um99", FRAMES[0][1]).code, 65, "exit code for an unknown model")
    fahrenheit = stage.run("decode", "--temperature-unit", "fahrenheit", "tc66c", FRAMES[3][1])
    near(fahrenheit.json["temperatureC"], (27 - 32) / 1.8, 0.1, "27 °F")


@test("read")
def read(stage):
    for model, digits in (("um24c", 2), ("um25c", 3), ("um34c", 2), ("tc66c", 4)):
        path = stage.folder / model
        meter = stage.start(
            [stage.program, "simulate", model, "--pty", path, "--profile", "flat"], f"sim-{model}")
        stage.wait("the meter is there", path.exists, 5)
        one = stage.run("read", path, "--model", model)
        check(one.code == 0 and len(one.out.splitlines()) == 1 and
              one.out.startswith(f"{model.upper()}  {5:.{digits}f} V  1.0"), "one reading", one)
        many = stage.run("read", path, "--count", "3", "--interval", "500 ms", "--json")
        equal((many.code, many.err), (0, ""), "read --json")
        objects = [json.loads(line) for line in many.out.splitlines()]
        equal([(o["model"], o["voltage"], o["current"], o["power"], o["check"]) for o in objects],
              [(model.upper(), 5, 1, 5, "ok")] * 3, "readings, without a model given")
        check(objects[0]["ts"] < objects[1]["ts"] < objects[2]["ts"], "ts rises", objects)
        piped = stage.call(["bash", "-c", 'set -o pipefail; "$0" read "$1" --count 3 --interval 300ms '
                            "--json | head -1", stage.program, path])
        equal((piped.code, piped.err, len(piped.out.splitlines())), (0, "", 1), "read | head -1")
        code, _ = meter.end(5, signal.SIGINT)
        check(code == 0 and "true: " in meter.out, "simulate tells what has flowed", meter.out)
        check(not os.path.lexists(path), "the link is removed")
    wrong = stage.start([stage.program, "simulate", "um25c", "--pty", stage.folder / "m"], "sim-m")
    stage.wait("the meter is there", (stage.folder / "m").exists, 5)
    busy = Agent(stage, configuration(stage, [("m", "um25c")])).start()
    stage.wait("the agent reads it", lambda: "answers on" in busy.program.log, 10)
    result = stage.run("read", stage.folder / "m")
    check(result.code == 1 and "in use" in result.err, "a meter that the agent reads", result)
    busy.program.end()
    del wrong


@test("read-failures")
def read_failures(stage):
    text = stage.file("text", "no meter\n")
    fifo = stage.folder / "fifo"
    os.mkfifo(fifo)
    for path, word in ((stage.folder / "missing", "not there"), (text, "not a serial device"),
                       (stage.folder, "not a serial device"), (fifo, "not a serial device"),
                       ("/dev/null", "not a serial device"), ("00:15:A3:00:55:01", "Bluetooth")):
        result = stage.run("read", path)
        check(result.code == 1 and result.out == "" and word in result.err and
              len(result.err.strip().splitlines()) == 1, f"exit 1 and {word!r}", result)
    # A terminal that this user may not open.
    meter = Meter(stage, "locked", "um25c", (20, 1, 1, 1, 1))
    device = os.path.realpath(stage.folder / "locked")
    os.chmod(device, 0)
    more = {}
    program = stage.program
    if os.geteuid() == 0:
        # Root may open everything; so somebody else tries, with a program that he can reach.
        more = {"user": 65534, "group": 65534, "extra_groups": []}
        # Copied by another process: a file that a thread here has just written may still be open in
        # what other threads are starting, and cannot be run then.
        program = stage.folder / "program"
        subprocess.run(["cp", stage.program, program], check=True)
        program.chmod(0o755)
    result = stage.call([program, "read", stage.folder / "locked"], **more)
    check(result.code == 1 and "may not be opened" in result.err and "dialout" in result.err,
          "a device without permission", result)
    os.chmod(device, stat.S_IRUSR | stat.S_IWUSR)
    meter.program.end()
    # A terminal with nobody behind it.
    mute = Meter(stage, "mute", "um25c", (1, 1, 30, 1, 1), power_loss="0,33",
                 power_loss_as="silence", name="mute-meter")
    result = stage.run("read", stage.folder / "mute")
    check(result.code == 1 and "no meter answers" in result.err, "a silent meter", result)
    mute.program.end()


@test("check")
def check_command(stage):
    good = stage.file("good.yaml", configuration(
        stage, [("m1", "um25c"), ("m2", "tc66c")], sessions="end_delay: 8 s"))
    result = stage.run("check", good)
    equal((result.code, result.err), (0, ""), f"a good configuration: {result!r}")
    for word in ("bench-1", "Bench 1", "Bench 2", "m1", "8 s", "500 ms", "nothing"):
        check(word in result.out, f"it says {word}", result.out)
    equal(stage.run("check", "--config", good).out, result.out, "check --config FILE")
    equal(stage.run("check", good, env={"LC_ALL": "de_DE.UTF-8"}).out, result.out, "in German")
    check(not (stage.folder / "data").exists(), "nothing is made")

    empty = stage.run("check", stage.file("empty.yaml", "gateway: { id: a, data: d }\nmeters: []\n"))
    check(empty.code == 0 and "warning" in empty.err and "meter" in empty.err, "no meters", empty)

    text = good.read_text().replace("poll_interval", "poll_intervall", 1)
    bad = stage.run("check", stage.file("bad.yaml", text))
    row = next(n for n, line in enumerate(text.splitlines(), 1) if "poll_intervall" in line)
    column = text.splitlines()[row - 1].index("poll_intervall") + 1
    check(bad.code == 2 and f"bad.yaml:{row}:{column}: " in bad.err and
          "did you mean \"poll_interval\"" in bad.err, "a misspelt key, its place and the right one", bad)
    for name, line in {
            "value": "sessions: { end_delay: soon }", "unit": "sessions: { start_current: 50 V }",
            "scheme": 'mqtt: { url: "http://here" }', "yaml": "sessions: { end_delay: 8 s",
            "twice": "log: { level: info }\nlog: { level: debug }"}.items():
        path = stage.file(f"{name}.yaml", f"gateway: {{ id: a, data: d }}\n{line}\nmeters: []\n")
        result = stage.run("check", path)
        check(result.code == 2 and f"{name}.yaml:" in result.err and ": error: " in result.err,
              f"exit 2 for a wrong {name}", result)
        check(stage.run("run", "--config", path).code == 1, f"run refuses a wrong {name}")
    missing = stage.run("check", stage.folder / "missing.yaml")
    equal(missing.code, 2, f"exit code without a file: {missing!r}")
    secret = stage.file("secret.yaml", 'gateway: { id: a, data: d }\nmqtt: { url: "mqtt://h", '
                        "username: u, password_file: nowhere }\nmeters: []\n")
    result = stage.run("check", secret)
    check(result.code == 2 and "nowhere" in result.err, "a password file that is missing", result)
    password = stage.file("nowhere", "word\n")
    password.chmod(0o644)
    result = stage.run("check", secret)
    check(result.code == 0 and "chmod 600" in result.err, "a password for all to read", result)


REPLAY_KEYS = """sessionId startedAt endedAt durationS energyWh chargeMah peakPower samples endReason
    startS endS""".split()


def recording():
    """Two charges of 200 s and 300 s at 5 V with the meter's counters, one row a second."""
    rows, energy, charge = ["t_s,voltage_v,current_a,mah,mwh,note"], 0.0, 0.0
    for second in range(1200):
        amperes = 1.0 if 100 <= second < 300 else 0.5 if 600 <= second < 900 else 0.0
        energy += 5 * amperes / 3.6
        charge += amperes / 3.6
        rows.append(f"{second},5.000,{amperes:.4f},{int(charge)},{int(energy)},")
    return "\n".join(rows) + "\n"


@test("replay")
def replay(stage):
    plain = stage.file("two.csv", recording())
    packed = stage.file("two.csv.gz", gzip.compress(recording().encode()))
    result = stage.run("replay", plain, "--json")
    equal((result.code, result.err), (0, ""), "replay --json")
    sessions = result.json
    equal(len(sessions), 2, "sessions")
    for session in sessions:
        equal([key for key in REPLAY_KEYS if key not in session], [], "missing keys")
    check(sessions[0]["startedAt"] < sessions[1]["startedAt"], "oldest first", sessions)
    for session, start, end, energy, charge in zip(
            sessions, (100, 600), (300, 900), (0.2778, 0.2083), (55.56, 41.67)):
        near(session["startS"], start, 1, "startS")
        near(session["endS"], end, 1, "endS")
        near(session["durationS"], end - start, 1, "durationS")
        near(session["energyWh"], energy, 0.01 * energy, "energyWh")
        near(session["chargeMah"], charge, 0.01 * charge, "chargeMah")
        equal(session["endReason"], "currentStopped", "endReason")
    equal([s["peakPower"] for s in sessions], [5, 2.5], "peakPower")

    def without_names(text):
        return [{key: value for key, value in session.items() if key != "meterName"}
                for session in json.loads(text)]
    for same in (stage.run("replay", packed, "--json"),
                 stage.run("replay", "-", "--json", stdin=recording()),
                 stage.run("replay", "--json", "-", stdin=packed.read_bytes()),
                 stage.run("replay", "--json", plain, env={"LC_ALL": "de_DE.UTF-8"})):
        equal((same.code, without_names(same.out)), (0, without_names(result.out)), f"{same.command}")
    table = stage.run("replay", plain)
    check(table.code == 0 and "2 sessions" in table.out and "1200 rows" in table.out, "for people", table)
    head = stage.call(["bash", "-c", 'set -o pipefail; "$0" replay "$1" | head -1', stage.program, plain])
    equal((head.code, head.err, len(head.out.splitlines())), (0, "", 1), "replay | head -1")
    cut = "\n".join(recording().splitlines()[:200]) + "\n"
    running = stage.run("replay", "-", "--json", stdin=cut).json
    equal([s["endReason"] for s in running], ["endOfRecording"], "a recording that ends in a charge")
    rules = stage.file("rules.yaml", "gateway: { id: a, data: d }\n"
                       "sessions: { start_current: 700 mA, stop_current: 600 mA }\nmeters: []\n")
    high = stage.run("replay", "--config", rules, plain, "--json")
    equal(len(high.json), 1, f"sessions from 700 mA: {high!r}")

    header = "t_s,voltage_v,current_a\n"
    for name, text, line in (
            ("number", header + "1,5,1\n2,5,x\n", 3), ("short", header + "1,5\n", 2),
            ("header", "time,volts\n1,5\n", 1), ("empty", "", 1), ("nan", header + "1,nan,1\n", 2)):
        result = stage.run("replay", stage.file(f"{name}.csv", text))
        check(result.code == 65 and f"line {line}" in result.err and result.out == "",
              f"broken ({name}): exit 65 and the line", result)
    half = packed.read_bytes()[:len(packed.read_bytes()) // 2]
    spoilt = bytearray(packed.read_bytes())
    spoilt[len(spoilt) // 2] ^= 0xFF
    for path in (stage.file("cut.csv.gz", half), stage.file("spoilt.csv.gz", bytes(spoilt)),
                 stage.file("bytes.csv", bytes(range(256)) * 20)):
        result = stage.run("replay", path)
        check(result.code in (1, 65) and result.err and not result.out, "a damaged file", result)
    equal(stage.run("replay", stage.folder / "missing.csv").code, 1, "exit code without a file")
    none = stage.run("replay", "-", "--json", stdin=header + "1,5,0\n2,5,0\n")
    equal((none.code, none.json), (0, []), "a recording without a session")


@test("output")
def output(stage):
    """Where the output cannot go."""
    full = stage.call(["bash", "-c", '"$0" version >/dev/full', stage.program])
    check(full.code == 1 and "standard output" in full.err, "a full disk is told", full)
    for words in ("--help", "run --help", f"decode um25c {FRAMES[1][1]}"):
        closed = stage.call(["bash", "-c", f'"$0" {words} | true; echo "${{PIPESTATUS[0]}}"',
                             stage.program])
        check(closed.code == 0 and closed.err == "" and closed.out.strip() in ("0", "141"),
              "a reader that has gone is no error", closed)


@test("simulate-faults")
def simulate_faults(stage):
    """Our own simulator under faults, read by the agent: 5 V and 1 A, or nothing."""
    broker = Broker(stage)
    listener = Listener(broker)
    models = ("um25c", "um34c", "tc66c")
    faults = ["split:p=0.2", "stray:n=37,p=0.1", "cut:p=0.05", "flip:n=1,p=0.1", "bad-check:p=0.1"]
    simulators = []
    for number, (model, last) in enumerate(
            zip(models, ("no-power@12s+15s", "out-of-range@12s+15s", "silence@12s+15s")), 1):
        words = [word for fault in [*faults, last] for word in ("--fault", fault)]
        simulators.append(stage.start(
            [stage.program, "simulate", model, "--pty", stage.folder / model, "--profile", "flat",
             "--seed", number, *words], f"sim-{model}"))
    agent = Agent(stage, configuration(stage, [(model, model) for model in models], broker)).start()
    stage.sleep(75)
    equal(agent.program.end(5)[0], 0, "exit code")
    for simulator in simulators:
        equal(simulator.end(5)[0], 0, f"exit code of {simulator.name}")
    sessions = agent.sessions()
    equal(sorted(s["modelType"] for s in sessions), sorted(m.upper() for m in models),
          f"one session of each meter: {sessions}")
    for number, model in enumerate(models, 1):
        live = [m.json for m in listener.of("live", f"0015a300550{number}")]
        values = {(b["voltage"], b["current"], b["power"]) for b in live}
        equal(values, {(5, 1, 5)}, f"values of the {model}")
        session = next(s for s in sessions if s["modelType"] == model.upper())
        hours = session["durationS"] / 3600
        # Without power nothing flows; out of range it goes on, as the meter's counter shows.
        expected = 5 * (hours - (15 / 3600 if model == "um25c" else 0))
        stage.note(f"{model}: {len(live)} live, {session['rejectedFrames']} rejected, "
                   f"energy {session['energyWh'] / expected - 1:+.2%}, {session['energySourceReason']}")
        near(session["energyWh"], expected, 0.05 * expected, f"energy of the {model}")
