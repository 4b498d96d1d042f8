"""`moor` against a real `moord server` without agents: what a person sees before there is a cluster."""
import os
import pty
import shutil
import subprocess
import sys

from cluster import BIN, DEADLINE, Place, Program, run_tests


def server(place):
    return Program(place, BIN / "moord", "server", "--dir", place.directory / "s", "--listen", "127.0.0.1:0")


def at_server(place):
    place.environment["MOOR_KUBECONFIG"] = str(place.directory / "s" / "kubeconfig")


def test_without_a_cluster_it_says_how_to_get_one():
    with Place() as place:
        _, _, error = place.run(BIN / "moor", "nodes", check=6)
        assert "no cluster" in error and "moord dev" in error, error


def test_a_server_that_is_gone_is_named_with_the_file_that_names_it():
    with Place() as place:
        with server(place):
            at_server(place)
            place.moor("volume", "list")
        _, out, error = place.run(BIN / "moor", "volume", "list", check=6)
        assert out == "" and "cannot reach the server at https://127.0.0.1:" in error, error
        assert "kubeconfig" in error and "$MOOR_KUBECONFIG" in error and "Start" in error, error


def test_certificate_token_and_plain_http_all_open_the_door():
    with Place() as place:
        with server(place) as running:
            at_server(place)
            place.moor("volume", "create", "v1", "--size", "4Ki")
            token = (place.directory / "s" / "admin.token").read_text().strip()
            config = place.directory / "by-token"
            config.write_text("clusters:\n- name: c\n  cluster:\n"
                              f"    server: {running.url}\n    certificate-authority: s/pki/ca.crt\n"
                              f"users:\n- name: u\n  user:\n    token: {token}\n"
                              "contexts:\n- name: x\n  context: {cluster: c, user: u}\ncurrent-context: x\n")
            assert place.moor("--kubeconfig", config, "volume", "list", "-o", "name") == "volume/v1\n"
            config.write_text(config.read_text().replace(token, "wrong" * 10))
            _, _, error = place.run(BIN / "moor", "--kubeconfig", config, "volume", "list", check=7)
            assert str(config) in error, error
        with Program(place, BIN / "moord", "server", "--dir", place.directory / "plain", "--listen", "127.0.0.1:0",
                     "--insecure-loopback"):
            place.moor("--kubeconfig", place.directory / "plain" / "kubeconfig", "volume", "list")


def test_kubectl_and_moor_see_the_same_volume():
    if not shutil.which("kubectl"):
        return print("  (no kubectl here)")
    with Place() as place, server(place):
        at_server(place)
        place.moor("volume", "create", "v1", "--size", "1Gi", "--replicas", "2")
        done = subprocess.run(["kubectl", "get", "lhv", "v1", "-o", "jsonpath={.spec.size} {.spec.numberOfReplicas}"],
                              env={**place.environment, "KUBECONFIG": place.environment["MOOR_KUBECONFIG"]},
                              capture_output=True, text=True, timeout=DEADLINE)
        assert done.stdout == "1073741824 2", done


def test_what_goes_wrong_has_its_own_exit_code():
    with Place() as place, server(place):
        at_server(place)
        place.moor("volume", "create", "v1", "--size", "1Gi")
        place.moor("volume", "create", "v1", "--size", "1Gi", check=5)
        place.moor("volume", "create", "v2", "--size", "1", check=2)
        place.moor("volume", "create", "v2", check=2)
        place.moor("volume", "show", "v2", check=3)
        place.moor("attach", "v1", "--node", "node-1", check=3)
        # No node, no place for replicas: it can never become ready.
        place.moor("volume", "create", "v3", "--size", "1Gi", "--wait", "--timeout", "200ms", check=4)


def test_colours_appear_on_a_terminal_only_and_never_with_no_color():
    with Place() as place, server(place):
        at_server(place)
        place.moor("volume", "create", "v1", "--size", "4Ki")

        def on_terminal(**more):
            ours, theirs = pty.openpty()
            subprocess.run([BIN / "moor", "volume", "list"], stdout=theirs, stderr=theirs,
                           env={**place.environment, **more}, timeout=DEADLINE, check=True)
            os.close(theirs)
            text = os.read(ours, 65536)
            os.close(ours)
            return text

        assert b"\033[" in on_terminal()
        assert b"\033[" not in on_terminal(NO_COLOR="1")
        assert "\033[" not in place.moor("volume", "list")


def test_bash_completes_commands_and_volumes():
    with Place() as place, server(place):
        at_server(place)
        place.moor("volume", "create", "database", "--size", "4Ki")
        script = ("source <(moor completion bash); COMP_WORDS=(moor volume show da); COMP_CWORD=3; _moor; "
                  "echo \"${COMPREPLY[@]}\"; COMP_WORDS=(moor vol); COMP_CWORD=1; _moor; echo \"${COMPREPLY[@]}\"")
        _, out, _ = place.run("bash", "-c", script, check=0)
        assert out == "database\nvolume\n", out


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
