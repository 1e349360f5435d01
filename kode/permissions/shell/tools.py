"""Which judge a tool has, by its name. The tool's subcommands decide: see the judges' modules.

Git has a module of its own; commands on files are in `verbs`.
"""

from collections.abc import Callable

from kode.permissions.shell import interpreters, packages, services
from kode.permissions.shell.judge import Finding, Scene
from kode.permissions.shell.words import Word

Tool = Callable[[list[Word], Scene], Finding]


def _same(judge: Tool, names: str) -> dict[str, Tool]:
    return dict.fromkeys(names.split(), judge)


TOOLS: dict[str, Tool] = {
    **_same(interpreters.python, "python python2 python3 pypy pypy3"),
    **_same(
        interpreters.interpreter,
        "perl ruby php lua luajit R Rscript julia groovy scala irb ghci tclsh elixir "
        "osascript kotlin swift",
    ),
    **_same(interpreters.node, "node ts-node tsx"),
    **_same(interpreters.deno, "deno"),
    **_same(packages.npm, "npm yarn pnpm bun"),
    **_same(packages.npx, "npx bunx pnpx pipx uvx"),
    **_same(packages.pip, "pip pip3 pip2 conda mamba micromamba"),
    **_same(packages.runner, "uv poetry pipenv hatch pdm rye"),
    **_same(packages.cargo, "cargo"),
    **_same(packages.go, "go"),
    **_same(packages.make, "make gmake"),
    **_same(packages.mix, "mix"),
    **_same(packages.cmake, "cmake"),
    **_same(packages.dotnet, "dotnet"),
    **_same(packages.ruby_tool, "bundle gem composer"),
    **_same(packages.rails, "rails rake"),
    **_same(services.docker, "docker podman nerdctl"),
    **_same(services.compose, "docker-compose podman-compose"),
    **_same(
        services.cloud,
        "kubectl oc helm aws gcloud gsutil az oci doctl linode-cli hcloud heroku fly "
        "flyctl vercel netlify railway wrangler firebase eksctl argocd s3cmd s5cmd mc "
        "rclone bq openstack ibmcloud",
    ),
    **_same(services.infrastructure, "terraform tofu pulumi cdk terragrunt"),
    **_same(
        services.database,
        "psql mysql mariadb sqlite3 mongo mongosh redis-cli cqlsh clickhouse-client "
        "influx mysqladmin pg_restore sqlcmd duckdb",
    ),
    **_same(services.gh, "gh glab hub tea"),
    **_same(services.openssl, "openssl"),
    **_same(services.man, "man info"),
}
