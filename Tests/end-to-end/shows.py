"""The demo, and what `sessions` makes of its database."""

import os
import re
import shlex
import signal
import time

from stage import Broker, Listener, check, equal, test

# As much of an id as tables show.
ID = r"\b[0-9a-f]{8}-[0-9a-f]{4}\b"


def short(sessions):
    return [session["sessionId"][:13] for session in sessions]


@test("demo")
def demo(stage):
    """With a broker of its own and a folder that is removed."""
    program = stage.start([stage.program, "demo", "--speed", "60", "--duration", "20s"], "demo")
    start = time.monotonic()
    command = stage.wait(
        "the hint how to listen", lambda: re.search(r"mosquitto_sub .*-v\n", program.out), 10)
    own = stage.leftovers("mosquitto")
    equal(len(own), 1, f"brokers of the demo: {own}")
    # The hint works as it stands.
    words = shlex.split(command[0]) + ["-C", "20", "-W", "10"]
    heard = stage.call(words)
    equal((heard.code, len(heard.out.splitlines())), (0, 20), f"what {heard.command} shows")
    stage.wait("the demo ends", lambda: not program.runs, 40)
    took = time.monotonic() - start
    equal(program.process.returncode, 0, f"exit code; it printed {program.out[-800:]}{program.log}")
    check(20 <= took <= 28, f"a demo of 20 s took {took:.1f} s")
    completed = re.findall(ID, program.out.split("completed in this demo")[-1])
    stage.note(f"{len(completed)} sessions, {took:.1f} s")
    check(len(completed) >= 3, "completed sessions are printed", program.out[-1500:])
    for model in ("UM25C", "UM34C", "TC66C"):
        check(f"{model} answers" in program.out, f"{model} answers", program.out)
    check("completed in this demo" in program.out and "--state-dir" in program.out,
          "where they are stored", program.out[-500:])
    equal(program.log, "", "what it complains of")
    equal(stage.leftovers(), [], "processes that are left")
    equal([name for name in os.listdir(stage.folder) if name.startswith("usbmeter")], [],
          "folders that are left")


@test("demo-broker")
def demo_broker(stage):
    """With a given broker and a folder that stays; then `sessions` on that."""
    broker = Broker(stage)
    listener = Listener(broker)
    state = stage.folder / "state"
    # A terminal would be drawn on; a pipe gets a line for each event.
    program = stage.start(
        [stage.program, "demo", "--speed", "60", "--duration", "20s", "--state-dir", state,
         "--broker", f"127.0.0.1:{broker.port}"], "demo")
    stage.wait("the demo ends", lambda: not program.runs, 40)
    equal(program.process.returncode, 0, f"exit code; it printed {program.out[-800:]}{program.log}")
    equal(program.log, "", "what it complains of")
    live = [m for m in listener.all() if m.topic.endswith("/live")]
    equal(len({m.topic for m in live}), 3, "meters with live values")
    stage.note(f"{len(live)} live messages")
    # 1200 s at one a second from each of three meters.
    check(len(live) >= 3 * 1200 * 0.8, "live values keep up with the speed", len(live))
    retained = broker.retained()
    published = {topic.rsplit("/", 1)[1]: m.json for topic, m in retained.items()
                 if "/sessions/" in topic}
    equal(retained["usbmeter/gateway/demo/status"].payload, "offline", "status")
    listed = stage.run("sessions", "list", "--json", "--data", state)
    equal(listed.code, 0, f"exit of {listed!r}")
    sessions = {s["sessionId"]: s for s in listed.json}
    check(len(sessions) >= 3, "sessions in the database", listed)
    equal(published, sessions, "published sessions, against the database")
    check([s["startedAt"] for s in listed.json] == sorted(s["startedAt"] for s in listed.json),
          "oldest first", listed)
    printed = re.findall(ID, program.out.split("completed in this demo")[-1])
    equal(sorted(printed), sorted(short(listed.json)), "printed sessions")
    for mac in {s["macAddress"] for s in sessions.values()}:
        newest = max((s for s in sessions.values() if s["macAddress"] == mac),
                     key=lambda s: s["startedAt"])
        equal(retained[f"usbmeter/meter/{mac}/session/last"].json["sessionId"],
              newest["sessionId"], f"session/last of {mac}")
    sessions_command(stage, state, listed.json)


def sessions_command(stage, data, sessions):
    def run(*words):
        return stage.run("sessions", *words, "--data", data)
    table = run("list")
    equal(table.code, 0, f"exit of {table!r}")
    equal(re.findall(ID, table.out), short(reversed(sessions)), "the table, newest first")
    one = sessions[-1]
    for prefix in (one["sessionId"], one["sessionId"][:-4], one["sessionId"].upper()):
        shown = run("show", prefix, "--json")
        equal((shown.code, shown.json if shown.code == 0 else shown), (0, one), f"show {prefix}")
    text = run("show", one["sessionId"])
    check(text.code == 0 and one["meterName"] in text.out and one["sessionId"] in text.out,
          "show for people", text)
    for prefix in (sessions[0]["sessionId"][:2], ""):
        vague = run("show", prefix)
        check(vague.code == 1 and "more" in vague.err, "a prefix of several sessions", vague)
    for prefix in ("ffff", "no-id"):
        none = run("show", prefix)
        check(none.code == 1 and "no session" in none.err, "a prefix of none", none)
    newest = run("list", "--json", "--limit", "1")
    equal(newest.json, [one], "the newest one")
    of_meter = run("list", "--json", "--meter", "00:15:a3:00:55:02")
    equal(of_meter.json, [s for s in sessions if s["macAddress"] == "0015a3005502"], "of one meter")
    equal(run("list", "--meter", "nonsense").code, 64, "a wrong address")
    empty = stage.folder / "empty"
    empty.mkdir()
    for folder in (empty, stage.folder / "missing"):
        nothing = stage.run("sessions", "list", "--data", folder)
        check(nothing.code == 1 and str(folder) in nothing.err, "no database", nothing)
    equal(os.listdir(empty), [], "nothing is made in a folder that is only read")
    # A reader that goes away, and a foreign locale.
    for command in ("sessions list", "sessions list --json"):
        piped = stage.call(
            ["bash", "-c", f'set -o pipefail; "$0" {command} --data "$1" | head -1',
             stage.program, data])
        equal((piped.code, piped.err, len(piped.out.splitlines())), (0, "", 1), f"{command} | head -1")
    german = stage.run("sessions", "list", "--data", data, env={"LC_ALL": "de_DE.UTF-8"})
    equal(german.out, table.out, "the table under LC_ALL=de_DE.UTF-8")


@test("demo-interrupted")
def demo_interrupted(stage):
    """Ctrl-C in the middle: everything ends, with the summary."""
    state = stage.folder / "state"
    program = stage.start(
        [stage.program, "demo", "--speed", "60", "--duration", "60s", "--state-dir", state], "demo")
    stage.wait("a session began", lambda: "session began" in program.out, 20)
    stage.sleep(3)
    code, took = program.end(10, signal.SIGINT)
    stage.note(f"ended in {took:.2f} s")
    equal(code, 0, "exit code after SIGINT")
    check(took < 5, f"the end took {took:.1f} s")
    check("completed in this demo" in program.out and re.search(ID, program.out), "the summary",
          program.out[-800:])
    equal(program.log, "", "what it complains of")
    equal(stage.leftovers(), [], "processes that are left")
    listed = stage.run("sessions", "list", "--json", "--data", state)
    check(listed.code == 0 and listed.json and all(s["complete"] for s in listed.json),
          "the sessions are complete in the database", listed)
