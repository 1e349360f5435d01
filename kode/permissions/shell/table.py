"""What well-known commands do, as data. The commands whose options decide are in `verbs`,
`git` and `tools`."""

from kode.permissions.shell.classes import ShellClass


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SYSTEM_FOLDERS = (
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/opt/homebrew/bin",
)

TOOL_FOLDERS = (".venv/bin", "venv/bin", "node_modules/.bin", "vendor/bin", ".tox/py/bin")
"""Where a project keeps its own tools, below its root."""

PRINTERS = _names(
    "help apropos whatis zipinfo findmnt "
    "echo pwd true false : seq expr whoami groups id logname nproc uptime tty basename "
    "dirname sleep cal factor users who w last getconf lscpu lsblk free uname sw_vers break "
    "continue return exit shift wait times dirs jobs getopts yes shopt ulimit umask numfmt "
    "tput clear reset type hash which whereis whence figlet cowsay locale ncal pathchk "
    "vm_stat iostat vmstat mpstat lsusb lspci lsmod lsof ss netstat pgrep pidof pstree"
)
"""Print what they are given, or facts about the machine; no argument makes them do more."""

LISTERS = _names("ls dir vdir stat du realpath readlink lsattr exa eza lsd namei")
"""Look at names, sizes and dates, not at contents."""

READERS = _names(
    "bat batcat shuf hexyl diffstat "
    "cat head tail wc nl tac rev fold fmt cut paste join comm cmp diff diff3 sdiff od hexdump "
    "strings md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum shasum "
    "bc md5 base32 base64 basenc column expand unexpand pr tsort look zcat bzcat xzcat zgrep "
    "zdiff colordiff cloc tokei scc wdiff shellcheck readelf nm size otool iconv hd gzcat "
    "bzgrep xzgrep lz4cat zstdcat colrm ul asa jsonlint xmllint egrep fgrep ack "
    "ag objdump"
)
"""Read files and print; every argument that is no option may be a file."""

READER_VALUE_OPTIONS: dict[str, str] = {
    "head": "-n -c --lines --bytes",
    "tail": "-n -c --lines --bytes -s --pid",
    "cut": "-d -f -c -b --delimiter --fields --output-delimiter",
    "paste": "-d",
    "join": "-t -1 -2 -j -o -e -a -v",
    "fold": "-w",
    "fmt": "-w",
    "nl": "-b -w -s -n -v -i",
    "od": "-A -t -N -j",
    "hexdump": "-n -s -e",
    "xmllint": "--xpath --encode",
    "shuf": "-n --head-count",
    "bat": "-l -r -m -H --style --theme --line-range --language",
    "strings": "-n -t -e",
    "column": "-s -o -N -c",
    "diff": "-U -C -W -I -x --exclude --label -L",
    "du": "-d --max-depth -B --exclude -t",
    "ls": "-w -I --color --ignore --hide --sort --time -T",
    "stat": "-c -f --format --printf -t",
    "expand": "-t",
    "pr": "-l -w -h -o",
    "base64": "-w --wrap",
    "iconv": "-f -t",
    "cloc": "--exclude-dir --include-lang --exclude-lang",
}

SEARCH_VALUE_OPTIONS: dict[str, str] = {
    "grep": "-e -f -A -B -C -m -d -D --regexp --file --max-count --context --after-context "
    "--before-context --include --exclude --exclude-dir --exclude-from --label --binary-files "
    "--directories --devices",
    "rg": "-e -f -A -B -C -m -t -T -g -r -j -M -d -E --regexp --file --max-count --context "
    "--after-context --before-context --type --type-not --glob --iglob --replace --threads "
    "--max-columns --max-depth --encoding --sort --sortr --color --colors --engine "
    "--field-match-separator --max-filesize --type-add --context-separator "
    "--path-separator --ignore-file",
    "ag": "-A -B -C -m -G --depth --ignore --ignore-dir --max-count --file-search-regex",
    "ack": "-A -B -C -m --type --ignore-dir --max-count",
    "look": "-t --terminate",
}
"""Options of programs that search, whose value is the next word: the rest are the pattern and
files."""

READER_PATTERN_FIRST = _names("egrep fgrep zgrep bzgrep xzgrep ack ag look")
"""Readers whose first argument is a pattern, not a file."""

READER_OPTIONS: dict[str, str] = {
    "ack": "inwvlLchHABCmsxk1fgQ ignore-case files-with-matches nocolor color no-color group "
    "nogroup heading noheading type python perl js sort-files context after-context "
    "before-context count column literal word-regexp smart-case",
    "ag": "inwvlLchHABCmsaufgGQSUtrR ignore-case files-with-matches nocolor color group nogroup "
    "heading noheading numbers nonumbers column literal hidden python js depth ignore "
    "ignore-dir context after before count vimgrep smart-case unrestricted stats",
    "cloc": "v by-file by-file-by-lang json csv yaml md quiet hide-rate exclude-dir include-lang "
    "exclude-lang exclude-ext include-ext match-d not-match-d match-f not-match-f fullpath sum-one "
    "no-recurse follow-links progress-rate skip-uniqueness diff git max-file-size",
    "scc": "wmcdiszx by-file format exclude-dir include-ext exclude-ext no-cocomo no-complexity "
    "sort wide not-match ci no-duplicates",
    "tokei": "fCtesosV files exclude type sort output compact hidden no-ignore languages version",
    "xmllint": "? noout format xpath pretty html nowarning recover huge encode nonet noblanks c14n "
    "version timing debug repeat",
    "shellcheck": "fseSCaoV format severity exclude include shell color enable "
    "version wiki-link-count",
    "jsonlint": "qcpt quiet compact validate pretty-print",
    "bat": "pnAlrmHuP plain number show-all language line-range style theme color highlight-line "
    "decorations wrap tabs paging=never diff unbuffered list-languages list-themes version",
    "hexyl": "nscbv length skip bytes color border no-squeezing plain panels",
}
"""All options of readers that the system does not bring: with any other they are `unknown`. First
the letters, then the long names."""

READER_DANGERS: dict[str, str] = {
    "shuf": "-o --output --random-source",
    "base64": "-o --output",
    "diffstat": "-o",
    "apropos": "-C --config-file",
    "whatis": "-C --config-file",
    "findmnt": "-F --tab-file -p --poll",
    "last": "-f --file",
    "iconv": "-o --output",
    "readelf": "--dwarf-follow-links",
    "zgrep": "-f",
    "look": "-t",
    "pr": "",
    "wc": "--files0-from",
    "du": "--files0-from",
    "sdiff": "-o --output --diff-program",
    "diff3": "--diff-program",
    "hash": "-p",
    "jobs": "-x",
    "wait": "-p",
    "cowsay": "-f",
    "figlet": "-f -d -C -A",
    "nm": "--plugin",
    "size": "--plugin",
    "objdump": "--plugin -P --dwarf-follow-links",
    "zstdcat": "-o -D",
    "lz4cat": "-D",
    "ss": "-K --kill -D --diag -F --filter",
    "pgrep": "-F --pidfile",
    "lsof": "-D",
    "tput": "-S",
}
"""Options that make a reader run, write or read something else: then it is `unknown`."""

PLAIN_SHOPT = _names("globstar nullglob failglob nocaseglob checkwinsize histappend lastpipe")

CODE_FREE_WRITERS = _names(
    "mkdir rmdir touch mkfifo csplit patch dos2unix unix2dos gofmt goimports rustfmt isort "
    "black autopep8 yapf autoflake pyupgrade ruff shfmt clang-format swiftformat stylua "
    "buildifier prettier biome dprint tsc pyright basedpyright ty zip gzip gunzip bzip2 "
    "bunzip2 xz unxz zstd unzstd lz4 compress uncompress convert optipng jpegoptim pngquant "
    "svgo ffmpeg magick mogrify pandoc dot plantuml sass esbuild swc terraform-docs protoc "
    "buf ctags etags cscope msgfmt xgettext ogr2ogr exiftool typos codespell djlint sqlfluff "
    "taplo nixfmt alejandra ormolu fourmolu hindent elm-format zigfmt nimpretty standardrb "
    "ktlint google-java-format"
)
"""Change files they are given, or write beside them, and run nothing of the project."""

WRITER_DANGERS: dict[str, str] = {
    "exiftool": "-if -config -execute -p -stay_open -@ -userParam -api -fileNUM",
    "pandoc": "-F -L -d",
    "convert": "-script",
    "magick": "-script",
    "ktlint": "-R",
    "dot": "-l",
    "ffmpeg": "-filter_script -f -sseof -dump",
    "zip": "-TT -unzip-command",
    "ctags": "--options -L",
    "sqlfluff": "--library-path --templater",
    "esbuild": "--serve --servedir --watch",
    "buf": "generate push mod registry build-server",
    "plantuml": "-picoweb -gui -pipe",
    "sass": "--watch",
    "typos": "--config",
    "gzip": "",
}
"""Options (and subcommands) of those that run code or serve: then they are `unknown`."""

CHECK_ONLY = _names("gofmt shfmt clang-format goimports codespell typos")
"""Of these, those that only print unless an option says to write."""

WRITE_OPTIONS = _names("-w -i --write --in-place --write-changes --inplace")

NETWORK = _names(
    "ssh-keyscan svn supabase "
    "curl wget ssh scp sftp ftp lftp nc ncat netcat telnet ping ping6 dig nslookup host whois "
    "traceroute tracepath mtr aria2c axel http https xh curlie youtube-dl yt-dlp rclone mosh "
    "gh glab hub tea mail mailx sendmail mutt swaks socat tcpdump nmap masscan iperf iperf3 "
    "ipfs s3cmd mc gsutil bq ab wrk hey siege k6 vegeta grpcurl websocat rsync ngrok "
    "cloudflared localtunnel pssh autossh sshpass twine pipx npx bunx pnpx uvx nix-channel "
    "cpan cpanm luarocks vercel netlify heroku fly flyctl railway wrangler firebase surge "
    "doctl linode-cli hcloud openstack oci ibmcloud az aws gcloud eksctl kubectl oc helm "
    "argocd istioctl s5cmd mosquitto_pub redis-benchmark ntpdate dhclient smbclient snmpwalk "
    "ldapsearch kinit speedtest pip-audit govulncheck"
)
"""Talk to other machines."""

UNKNOWN_TOOLS = _names(
    "python python2 python3 node deno bun ruby perl php lua luajit tclsh wish zless irb ghci julia "
    "R Rscript scala groovy kotlin swift elixir iex erl java jshell guile sbcl clojure bb vi "
    "vim nvim view emacs nano pico ed ex code subl less more most man info bat top htop btop "
    "tmux screen psql mysql mariadb sqlite3 mongo mongosh redis-cli cqlsh influx "
    "clickhouse-client docker podman nerdctl docker-compose terraform tofu pulumi ansible "
    "ansible-playbook vagrant packer gdb lldb strace ltrace perf valgrind ldd dtruss m4 expect "
    "script parallel dc osascript open xdg-open start say source . eval fc bind complete "
    "compgen enable mapfile readarray read let openssl gcc g++ cc clang clang++ ld as ar "
    "javac rustc ghc nvcc arch"
)
"""May do anything, depending on what they are told."""

SYSTEM = _names(
    "pbpaste pbcopy xclip xsel wl-paste wl-copy screencapture scrot killall5 "
    "apt-cache "
    "apt apt-get aptitude dpkg yum dnf rpm zypper pacman yay paru apk snap flatpak port brew "
    "emerge xbps-install nix-env nixos-rebuild softwareupdate systemctl service initctl "
    "rc-service rc-update update-rc.d chkconfig launchctl crontab at batch atrm anacron "
    "useradd usermod adduser groupadd addgroup groupmod passwd chpasswd chsh chfn visudo vipw "
    "gpasswd newgrp chown chgrp setfacl chattr setcap chcon setenforce semanage restorecon "
    "auditctl mount umount fusermount losetup swapon swapoff kill pkill killall skill xkill "
    "renice ufw iptables ip6tables nft firewall-cmd pfctl ifconfig ip route arp ethtool iw "
    "nmcli networksetup scutil sysctl modprobe insmod rmmod depmod kextload dmesg update-grub "
    "grub-install update-alternatives ldconfig timedatectl hostnamectl localectl loginctl "
    "machinectl dscl defaults spctl csrutil codesign security ssh-keygen ssh-add ssh-agent "
    "ssh-copy-id gpg gpg2 gpgconf pass keyctl secret-tool certbot update-ca-certificates "
    "keytool history alias unalias printenv sudoedit tmutil pmset nvram bless diskutil "
    "hdiutil installer pkgutil plutil PlistBuddy xattr wall write mesg ldapmodify corepack "
    "nvm rbenv pyenv asdf mise rustup sdk volta fnm update-initramfs dracut "
    "debconf-set-selections dpkg-reconfigure add-apt-repository apt-key apt-mark tailscale wg "
    "wg-quick openvpn zerotier-cli op bw vault lpass aws-vault logger journalctl mkswap "
    "hwclock chvt loadkeys setxkbmap xmodmap xrandr gsettings dconf kwriteconfig5 doas pkexec "
    "su sudo runuser chroot nsenter unshare setpriv capsh disown prlimit mknod newuidmap "
    "ipcrm sg"
)
"""Change the machine, privileges or other users' things, or hand out secrets."""

DESTRUCTIVE = _names(
    "shred srm wipe wipefs fdisk sfdisk gdisk sgdisk cfdisk parted blkdiscard badblocks "
    "hdparm nvme shutdown reboot halt poweroff telinit dropdb dropuser userdel deluser "
    "groupdel delgroup lvremove vgremove pvremove zpool mdadm cryptsetup debugfs trash "
    "trash-empty unlink rimraf del newfs bfg git-filter-repo pg_dropcluster rm mke2fs tune2fs "
    "e2fsck fsck xfs_repair resize2fs"
)
"""Lose what cannot be had back, whatever their options."""

SYSTEM_LOOKS: dict[str, tuple[str, ...]] = {
    "apt": ("list", "show", "search", "policy"),
    "dpkg": ("-l", "-L", "-s", "-S", "--list", "--status", "--listfiles", "--search"),
    "rpm": ("-q", "-qa", "-qi", "-ql"),
    "apt-cache": ("policy", "search", "show", "showpkg", "depends", "rdepends", "madison"),
    "brew": ("list", "--prefix", "--version"),
    "systemctl": ("status", "is-active", "is-enabled", "list-units", "list-unit-files"),
    "timedatectl": ("status", "show"),
    "pyenv": ("version", "versions"),
    "rbenv": ("version", "versions"),
    "rustup": ("--version",),
    "nvm": ("ls", "current"),
    "crontab": (),
    "kill": ("-l",),
}
"""Subcommands of `SYSTEM` commands that only look."""

LOOKING_OPTIONS = _names(
    "-a -l -n -q -u -t -p --all --installed --upgradable --no-pager --failed --full --user --type "
    "--names-only --state --no-legend --plain --lines"
)
"""Options that leave a look of `SYSTEM_LOOKS` a look."""

LOOKS_THAT_ARE_UNKNOWN = _names("ifconfig ip route arp journalctl dmesg logger xattr plutil")
"""Of `SYSTEM`, those that are often used to look: without more they are `unknown`."""

DEVELOPMENT = _names(
    "pytest py.test tox nox unittest nosetests nose2 behave robot coverage mypy pylint flake8 "
    "pyflakes pycodestyle pydocstyle bandit vulture radon pre-commit pytype pyre sphinx-build "
    "mkdocs jest vitest mocha ava tap karma cypress playwright jasmine qunit eslint tslint xo "
    "standard oxlint stylelint next nuxt vite webpack rollup parcel tsup turbo nx lerna gulp "
    "grunt storybook svelte-check vue-tsc ng astro remix ts-node-dev typedoc knip depcheck "
    "madge make gmake ninja meson cmake ctest just task scons waf bazel bazelisk buck buck2 "
    "pants gradle gradlew mvn mvnw ant sbt lein mill rake rspec rubocop minitest cucumber "
    "phpunit phpstan psalm pest php-cs-fixer phpcs rebar3 dialyzer credo stack cabal dune "
    "xcodebuild swiftlint golangci-lint staticcheck gotestsum ginkgo air "
    "import-linter lint-imports clang-tidy cppcheck cpplint bats shellspec markdownlint "
    "markdownlint-cli2 yamllint hadolint ansible-lint actionlint tflint commitlint spectral "
    "vale proselint interrogate deptry refurb"
)
"""The project's own test, lint, type check and build tools: they run code of the project."""

NEVER_DEVELOPMENT = _names(
    "install uninstall deploy publish release upload push reset destroy drop prod production "
    "clean distclean mrproper clobber purge wipe nuke teardown login logout migrate seed "
    "rollback prepublish postinstall bootstrap provision ship update upgrade fetch download"
)
"""Words that make a target or script more than a build or a test."""

VERSION_ASKERS = _names(
    "python python2 python3 node npm npx yarn pnpm bun deno ruby gem bundle perl php composer "
    "java javac go cargo rustc rustup gcc g++ cc clang clang++ make cmake git docker podman "
    "kubectl helm terraform aws gcloud az gh ruff mypy black pip pip3 uv poetry pipenv "
    "nox tsc eslint prettier jest vitest curl wget ssh bash zsh sh fish psql mysql "
    "less man "
    "sqlite3 redis-cli openssl rg fd jq yq sed awk gawk tar zip unzip vim nvim nano emacs "
    "tmux mvn gradle dotnet swift kotlin scala elixir mix ghc stack lua R julia ansible "
    "vagrant brew apt dpkg rsync ffmpeg pandoc sbt ninja docker-compose hatch pdm"
)
"""Programs that may be asked for their version."""

CLASS_BY_NAME: dict[str, tuple[ShellClass, str]] = {
    **dict.fromkeys(NETWORK, ("network", "talks to other machines")),
    **dict.fromkeys(UNKNOWN_TOOLS, ("unknown", "may do anything")),
    **dict.fromkeys(SYSTEM, ("system", "changes the machine, or hands out secrets")),
    **dict.fromkeys(DESTRUCTIVE, ("destructive", "loses what cannot be had back")),
}

LOSING_WORDS = (
    r"\.(?:rm|rmSync|rmdirSync|unlink|delete_all)\s*\(|\b(?:unlink|rmtree|rmdir|os\.remove|removedirs|rimraf|rm\s+-\w|fs\.rm\w*|File\.delete"
    r"|FileUtils\.rm|drop\s+(?:table|database|schema|user|index|view|collection|owned)"
    r"|truncate\s+(?:table\s+)?\w|delete\s+from|flushall|flushdb|dropDatabase|deleteMany"
    r"|shutil\.move|os\.system|child_process|execSync|mkfs|/dev/sd|\.drop\(|unlinkSync)"
)
"""In a program text or a query: it deletes, or runs a shell to do so."""

LOSING_SUBCOMMANDS = (
    r"(?:\w+[:-])*(?:drop|destroy|purge|wipe|nuke|flush|flushdb|flushall|truncate|erase)"
    r"(?:[:-]?(?:all|db|database|schema|tables?))?|(?:db|migrate)[: ](?:reset|fresh|refresh|drop)"
    r"|migrate reset|--force-reset|reset_db|sqlflush|delete-all|--delete|--purge|delete"
)
"""A word of a command that is not known otherwise: it deletes."""
