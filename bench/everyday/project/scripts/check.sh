#!/usr/bin/env bash
set -euo pipefail
grep -q add calc.py
echo checked
