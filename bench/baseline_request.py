"""The yardstick for a subagent's start: a bare process that imports the SDK and asks once.

`python baseline_request.py FILE` sends the request in FILE, a JSON body, and reads the answer.
"""

import json
import sys

from openai import OpenAI

with open(sys.argv[1]) as file:
    body = json.load(file)
for _ in OpenAI(max_retries=0).chat.completions.create(**body):
    pass
