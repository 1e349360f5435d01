"""Commands in the background and what the commands of one session share, from outside."""

import os
from pathlib import Path
from typing import Any

from tests.e2e.command import Place, needs_a_whole_sandbox
from tests.scripted_server import ScriptedServer


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def told(place: Place, *calls: dict[str, Any], mode: str = "auto-edit") -> list[str]:
    """What the model got for each of its calls, which `kode run` made one after the other."""
    with ScriptedServer([*calls, {"text": "done"}]) as server:
        place.url = server.openai_url
        done = place.run("run", "work", "--permission-mode", mode)
        assert done.code in (0, 1), done.err
        return [str(request.json["messages"][-1]["content"]) for request in [*server.requests][1:]]


SERVER = (
    "import http.server, functools, socketserver\n"
    "socketserver.TCPServer.allow_reuse_address = True\n"
    "print('ready', flush=True)\n"
    "http.server.test(http.server.SimpleHTTPRequestHandler, port=18431, bind='127.0.0.1')\n"
)
ASKING = (
    "import sys, time, urllib.request\n"
    "for _ in range(200):\n"
    "    try:\n"
    "        answer = urllib.request.urlopen('http://127.0.0.1:18431/' + sys.argv[1])\n"
    "        print('answer', answer.read().decode())\n"
    "        break\n"
    "    except OSError as error:\n"
    "        time.sleep(0.05)\n"
    "else:\n"
    "    print('no answer', error)\n"
)


def test_a_background_server_answers_later_commands_and_serves_later_edits(
    place: Place,
) -> None:
    needs_a_whole_sandbox(place)
    (place.project / "serve.py").write_text(SERVER)
    (place.project / "ask.py").write_text(ASKING)
    (place.project / "page").write_text("first")
    (place.project / "connect.py").write_text(
        "import socket; socket.create_connection(('127.0.0.1', 18431))"
    )

    begun, first, wrote, second, _, edited, third, stopped, gone = told(
        place,
        call("shell", command="python3 serve.py", background=True),
        call("shell", command="python3 ask.py page"),
        call("shell", command="sed -i s/first/second/ page"),
        call("shell", command="python3 ask.py page"),
        call("read_file", path="page"),
        call("edit_file", path="page", old_text="second", new_text="third"),
        call("shell", command="python3 ask.py page"),
        call("job", id="bg1", start=0, stop=True),
        call("shell", command="python3 connect.py"),
    )

    assert "bg1" in begun
    assert "answer first" in first
    assert "answer second" in second, (wrote, second)
    assert "answer third" in third, (edited, third)
    assert "ready" in stopped
    assert "stopped" in stopped
    assert "refused" in gone.casefold()


def test_a_jobs_changes_are_kept_when_it_ends(place: Place) -> None:
    needs_a_whole_sandbox(place)
    (place.project / "wait.sh").write_text(
        "echo on; until [ -e /tmp/go ]; do sleep 0.02; done; echo x > made; exit 3"
    )
    (place.project / "go.sh").write_text("touch /tmp/go")
    begun, went, seen = told(
        place,
        call("shell", command="bash wait.sh", background=True),
        call("shell", command="bash go.sh"),
        call("job", id="bg1", wait_s=60),
    )
    assert "bg1" in begun
    assert "exit status 3" in seen
    assert "It changed made (new)" in went + seen
    assert (place.project / "made").read_text() == "x\n"


def test_a_running_job_ends_with_its_session_keeping_changes(
    place: Place,
) -> None:
    needs_a_whole_sandbox(place)
    (place.project / "run.sh").write_text("echo $$ x > made; echo on; sleep 300")
    [begun] = told(place, call("shell", command="bash run.sh", background=True))
    assert "bg1" in begun
    assert (place.project / "made").exists()
    assert not list((place.home / "sandbox").glob("layers-*"))


def test_commands_and_file_tools_share_one_tmp(place: Place) -> None:
    needs_a_whole_sandbox(place)
    (place.project / "write.py").write_text(
        "import os\nopen('/tmp/kode-note', 'w').write('a needle')\n"
        "os.symlink('/etc/shadow', '/tmp/kode-link')"
    )
    (place.project / "run.py").write_text("exec(open('/tmp/kode-script.py').read())")
    _, read, searched, listed, wrote, ran, link = told(
        place,
        call("shell", command="python3 write.py"),
        call("read_file", path="/tmp/kode-note"),
        call("search_files", pattern="needle", path="/tmp"),
        call("list_files", path="/tmp"),
        call("write_file", path="/tmp/kode-script.py", content="print(6 * 7)"),
        call("shell", command="python3 run.py"),
        call("read_file", path="/tmp/kode-link"),
    )
    assert "a needle" in read
    assert "/tmp/kode-note" in searched
    assert "/tmp/kode-note" in listed
    assert "/tmp/kode-script.py" in wrote
    assert "42" in ran
    assert "root:" not in link
    assert "nobody is here" in link
    assert not os.path.exists("/tmp/kode-note")
    assert not os.path.exists("/tmp/kode-script.py")
    assert not list((place.home / "sandbox").glob("layers-*"))


def test_mode_full_uses_the_tmp_of_the_machine(place: Place, tmp_path: Path) -> None:
    name = f"/tmp/kode-{tmp_path.name}"
    try:
        wrote, ran = told(
            place,
            call("write_file", path=name, content="for all"),
            call("shell", command=f"cat {name}"),
            mode="full",
        )
        assert name in wrote
        assert "for all" in ran
        assert Path(name).read_text() == "for all"
    finally:
        Path(name).unlink(missing_ok=True)


def test_tool_and_shell_can_both_search_saved_output(place: Place) -> None:
    needs_a_whole_sandbox(place)
    results: list[str] = []

    def script(request: dict[str, Any]) -> dict[str, Any]:
        results.append(str(request["messages"][-1]["content"]))
        saved = results[min(1, len(results) - 1)]
        path = saved.partition("The whole output is in ")[2].partition(": read it")[0]
        return [
            call("shell", command="seq 1 20000; echo needle; seq 1 20000"),
            call("search_files", pattern="needle", path=path),
            call("shell", command=f"grep -n needle {path}"),
            call("read_file", path=path, offset=20001, limit=1),
            {"text": "done"},
        ][len(results) - 1]

    with ScriptedServer(script) as server:
        place.url = server.openai_url
        done = place.run("run", "work", "--permission-mode", "auto-edit")
    assert done.code == 0, (done.err, results[2:])
    _, _, searched, ran, read = results
    assert "20001" in searched
    assert "20001:needle" in ran
    assert "needle" in read


def test_the_environment_of_a_command_has_no_key(place: Place) -> None:
    needs_a_whole_sandbox(place)
    (place.project / "env.sh").write_text("env; cat /proc/*/environ | tr '\\0' '\\n'")
    [ran] = told(place, call("shell", command="bash env.sh"))
    assert "PATH=" in ran
    keys = [value for name, value in place.environ.items() if name.endswith("_KEY")]
    assert keys
    for key in keys:
        assert key not in ran
        assert key[:6] not in ran
