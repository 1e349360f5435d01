"""The places that need care, as plain lists: where keys are, what runs later, what steers agents.

The only such lists, used by the gate, the file tools and the sandbox; `sensitive` matches paths
against them. An entry is a name, or several steps of a path, at any depth. `*` matches any part of
one step. Case is ignored, as in many file systems.
"""

KEY_FILES = (
    # Settings of a project
    ".env .env.* *.env .envrc.private .secrets secrets.json secrets.yml secrets.yaml secrets.toml "
    "secrets.env local.settings.json vault_pass .vault_pass *.tfvars *.tfstate *.tfstate.backup "
    "credentials credentials.* .credentials.json client_secret*.json service-account*.json "
    "service_account*.json *firebase-adminsdk*.json application_default_credentials.json "
    "gha-creds-*.json "
    # Keys and certificates
    "*.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.ppk *.asc.key *.keytab *.ovpn "
    "*.nmconnection id_rsa id_dsa id_ecdsa id_ed25519 id_rsa_* id_ecdsa_* id_ed25519_* id_x "
    "ssh_host_*_key wallet.dat "
    # Settings of a person's tools
    ".netrc _netrc .pgpass .my.cnf .htpasswd htpasswd .git-credentials .npmrc .pypirc .yarnrc.yml "
    ".vault-token .boto .s3cfg .dockercfg .dockerconfigjson .databrickscfg .terraformrc "
    ".docker/config.json kubeconfig *.kubeconfig rclone.conf .msmtprc .fetchmailrc "
    ".m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .composer/auth.json "
    "composer/auth.json .codex/auth.json .gemini/oauth_creds.json .fly/config.yml "
    # Shell histories, and what a browser stores
    ".bash_history .zsh_history .python_history .psql_history .mysql_history .node_repl_history "
    ".history fish_history login.keychain* key4.db logins.json cookies.sqlite "
    # System-wide
    "shadow gshadow sudoers master.passwd"
).split()
"""Files that hold keys or passwords."""

NO_KEYS = (
    "*.pub .env.example .env.sample .env.template .env.dist .env.defaults "
    # Programs about credentials
    "credentials.c credentials.cc credentials.cjs credentials.clj credentials.cpp credentials.cs "
    "credentials.css credentials.dart credentials.erl credentials.ex credentials.exs "
    "credentials.go credentials.h credentials.hpp credentials.java credentials.js credentials.jsx "
    "credentials.kt credentials.lua credentials.m credentials.mjs credentials.php "
    "credentials.proto credentials.py credentials.pyi credentials.rb credentials.rs "
    "credentials.scala credentials.scss credentials.svelte credentials.swift credentials.ts "
    "credentials.tsx credentials.vue"
).split()
"""Names that look like those of files with keys, but are not."""

KEYS_AMONG_SETTINGS = (".npmrc", ".yarnrc.yml", ".pypirc")
"""Files in many projects that only sometimes hold keys: check the content."""

KEY_FOLDERS = (
    ".ssh .gnupg .aws .azure .kube .docker/contexts .oci .password-store .terraform.d "
    ".subversion/auth .config/gcloud .config/gh .config/glab-cli .config/hub .config/op "
    ".config/sops .config/doctl .config/rclone .local/share/keyrings .local/share/kwalletd "
    ".electrum .mozilla .thunderbird .config/google-chrome .config/chromium .config/microsoft-edge "
    ".config/BraveSoftware Library/Keychains Library/Cookies"
).split()
"""Folders in which every file counts as a key. A copy of one is as secret."""

KEYS_OF_THE_MACHINE = (
    "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers.d /etc/ssl/private "
    "/etc/ssh/ssh_host_*_key /etc/NetworkManager/system-connections /run/secrets /var/run/secrets "
    "/Library/Keychains"
).split()
"""Absolute paths, of files and of folders."""

OTHER_PROCESSES = (
    "/proc/*/environ /proc/*/mem /proc/*/maps /proc/*/fd /proc/*/task/*/environ "
    "/proc/*/task/*/mem /proc/*/task/*/maps /proc/*/task/*/fd /dev/mem /dev/kmem"
).split()
"""Absolute paths that expose the memory and variables of processes."""

RUNS_LATER = (
    # Version control; of `.git` itself everything but `kode.git.RECORDS`
    "*.git/hooks *.git/config "
    ".gitconfig .gitmodules .githooks .hg/hgrc .sl/config .jj/repo/config.toml "
    ".jj/workspace-config.toml .pijul/config _darcs/prefs .husky .pre-commit-config.yaml "
    ".pre-commit-hooks.yaml lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml .lefthook "
    ".overcommit.yml "
    # Shells, and settings applied on entering a folder
    ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .bash_completion .profile .zshrc "
    ".zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .inputrc .envrc .autoenv "
    ".autoenv.zsh mise.toml mise.local.toml .mise.toml .mise.local.toml .mise .tool-versions "
    # Editors
    ".vscode .idea .zed .fleet .helix .nova *.code-workspace .devcontainer .devcontainer.json "
    ".gitpod.yml .vimrc .vimrc.local .lvimrc .nvimrc .nvim.lua .exrc .kakrc .emacs "
    ".dir-locals.el .dir-locals-2.el .ycm_extra_conf.py .cargo/config .cargo/config.toml "
    "rust-analyzer.toml .rust-analyzer.toml "
    # Other programs that read such a file on their own
    ".tmux.conf .screenrc .curlrc .wgetrc .psqlrc .sqliterc .gdbinit .lldbinit .pdbrc .pythonrc "
    ".irbrc .pryrc .Rprofile .Renviron .Xresources .xinitrc .xprofile .xsession .pam_environment "
    ".npmrc .pypirc .yarnrc .yarnrc.yml .yarn/plugins .yarn/releases .pnpmfile.cjs .pnpmfile.mjs "
    ".bundle/config .mvn gradle/wrapper sitecustomize.py usercustomize.py site-packages/*.pth "
    "dist-packages/*.pth .venv/bin venv/bin node_modules/.bin .local/bin .ssh .aws/config "
    ".kube/config .docker/config.json .config/autostart .config/systemd .config/environment.d "
    ".config/fish .config/git .config/nvim .config/mise .config/mise.toml .config/direnv "
    "Library/LaunchAgents "
    # Servers that build and test
    ".github/workflows .github/actions .forgejo/workflows .gitea/workflows .gitlab-ci*.yml "
    ".circleci .buildkite .woodpecker .woodpecker.yml .travis.yml .drone.yml .cirrus.yml "
    ".cirrus.star .semaphore .teamcity .tekton .build.yml .builds azure-pipelines*.yml "
    ".azure-pipelines bitbucket-pipelines.yml appveyor.yml .appveyor.yml buildspec.yml "
    "cloudbuild.yaml codefresh.yml netlify.toml vercel.json Jenkinsfile "
    # Agents: servers to start, hooks, what they may do without asking
    "kode.json .kode .mcp.json .agents .claude .claude.json .cursor .codex .gemini .qwen .windsurf "
    ".roo .kilocode .continue .aider.conf.yml .opencode opencode.json opencode.jsonc .amazonq "
    ".kiro .junie .goose .crush crush.json .crush.json .factory .augment .trae"
).split()
"""Files and folders whose content other programs run, or read as settings that make them run
something, without being asked to: on opening, entering or pushing the folder."""

TELLS_PROGRAMS = (
    ".husky .githooks .lefthook .lefthook.yml .lefthook.yaml lefthook.yml lefthook.yaml "
    ".pre-commit-config.yaml .pre-commit-hooks.yaml .overcommit.yml .envrc .vscode/tasks.json "
    ".vscode/settings.json .zed/tasks.json .idea/watcherTasks.xml .devcontainer "
    ".devcontainer.json .gitpod.yml"
).split()
"""Those in a project's own folder that name further files to run, which then run later too."""

STEERS_AGENTS = (
    "AGENTS.md AGENTS.override.md AGENTS.local.md AGENT.md CLAUDE.md CLAUDE.local.md GEMINI.md "
    "QWEN.md CRUSH.md WARP.md SKILL.md .cursorrules .windsurfrules .clinerules .roorules "
    ".goosehints .rules copilot-instructions.md *.instructions.md *.prompt.md *.chatmode.md "
    ".github/copilot* .github/instructions .github/prompts .github/agents .github/chatmodes"
).split()
"""Files that agents take for the project's instructions, in future sessions."""

CACHES = (
    "__pycache__ *.pyc *.pyo .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis "
    ".parcel-cache .turbo .nyc_output .gradle"
).split()
"""Byte code and caches: a tool that misses them makes them again, without a word."""

DEPENDENCIES = (
    "node_modules bower_components jspm_packages .venv venv __pypackages__ .tox .nox .eggs .pixi"
).split()
"""Folders of installed packages and programs. So is one that holds a `pyvenv.cfg`, and a `vendor`
that git ignores."""

FILLED_BY_BUILDS = (
    "build dist target out node_modules __pycache__ .pytest_cache .mypy_cache .ruff_cache .tox "
    ".nox .cache .hypothesis coverage htmlcov .nyc_output .next .nuxt .turbo .parcel-cache .gradle "
    ".svelte-kit _build .eggs .venv venv tmp temp .tmp obj DerivedData .build"
).split()
"""Folders that a build or an installation regenerates."""

MADE_BY_BUILDS = (
    "*.egg-info cmake-build-* bazel-* *.pyc *.pyo *.o *.obj *.class *.gcda *.gcno *.tsbuildinfo "
    ".coverage .DS_Store"
).split()
"""Other names that a build regenerates."""

TEMPORARY = ("/tmp", "/var/tmp")
"""Folders of which a command in the sandbox has its own."""

PROGRAMS_AND_DOCUMENTS = (
    "/usr /bin /sbin /lib /lib64 /opt /nix/store /snap /System /Library /Applications "
    "/etc/os-release /etc/hostname /etc/hosts /etc/timezone /etc/issue /etc/lsb-release "
    "/etc/debian_version /etc/services /etc/shells /etc/redhat-release /etc/alpine-release "
    "/etc/machine-info /proc/cpuinfo /proc/meminfo /proc/version /proc/uptime /proc/loadavg "
    "/proc/stat /proc/mounts /proc/filesystems /proc/diskstats /dev/null /dev/zero /dev/stdin "
    "/dev/random /dev/urandom"
).split()
"""Absolute paths that every machine has, and that hold nobody's data."""
