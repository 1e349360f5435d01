"""Marks that pass a text off as the system's or another speaker's."""

from kode.memory.scan.order import Order, order

PHRASES: tuple[Order, ...] = (
    order(
        "chat markup",
        "",
        r"<\|\s*/?(?:im_(?:start|end|sep)|endoftext|endofprompt|system|user|assistant|start|end|"
        r"eot_id|eom_id|start_header_id|end_header_id|begin_of_text|end_of_text|python_tag|channel|"
        r"message|return|call|tool\w*|human|begin\w*|turn\w*|constrain|fim_\w+|recipient|context)"
        r"\w*\s*\|?>",
        signs=("<|",),
    ),
    order(
        "chat markup",
        "",
        r"\[/?inst\]|\[sys\][^\[\n]{0,200}\[/sys\]|<</?sys>>|<(?:start|end)_of_turn>|\[/?(?:system_prompt|tool_calls|"
        r"available_tools|tool_results|system)\](?=.*\[/|\s*[:<]|\s*\n)|<\uff5c",
        signs=(
            "[inst]",
            "[/inst]",
            "[/sys]",
            "<<sys>>",
            "<</sys>>",
            "<start_of_turn>",
            "<end_of_turn>",
            "[system",
            "[/system",
            "[tool_",
            "[/tool_",
            "[available_tools",
            "<｜",
        ),
    ),
    order(
        "chat markup",
        "",
        r"<\s*/?\s*(?:system|assistant|tool_result|tool_results|tool_response|tool_output|"
        r"function_calls?|function_results?|function_response|invoke|parameter|think|tool_call|tool_use|"
        r"system[-_](?:prompt|message|reminder|instructions?|note|override)|human_turn|"
        r"assistant_turn|instructions_override|developer_message|antml:\w+|user_message|thinking|"
        r"admin_message|untrusted_\w+|trusted_\w+|kode[-_]\w+)\b(?![.:-]\w)(?=[^<>\n]{0,200}>)(?!\s+(?:"
        r"class|href|src)=)|<\s*/\s*(?:memory|memories|facts|episodes?|context|data|reference|"
        r"document|user_input|instructions?|buffer|untrusted|fence)\s*>",
        signs=("<",),
    ),
    order(
        "chat markup",
        "",
        r"<!--\s*(?:(?:hidden |secret )?(?:note|message|instructions?|"
        r"order)s? (?:for|to) )?(?:the )?(?:ai )?"
        r"(?:assistant|system|ai|agents?|model|llm|copilot|claude|gpt|chatgpt|kode|bot)s?\b\s*"
        r"(?:[:,]|must|should|please|note|instruction|prompt)",
        signs=("<!--",),
    ),
    order(
        "chat markup",
        "syst assi huma deve user",
        r"\s{0,3}(?:#{1,6}|\*\*|>|===+|---+|\[)\s*(?:system|assistant|human|developer|user)"
        r"(?: (?:message|prompt|instructions?|note|override|turn))?\s*(?::\s*(?:\*\*|\n|$)|\]\s*:|"
        r"(?:===+|---+)|:\s+\w)|"
        r"\s{0,3}(?:system|assistant|human|developer)(?: (?:message|prompt|override|note))?\s*:\s*"
        r"(?:you (?:are|must|will|should|have|may|can)|ignore|follow|obey|new |override|from now|"
        r"disregard|approved|i (?:will|have|am)|sure|reveal|run |execute|do not|the user)|"
        r"(?<=\n)\s*(?:human|assistant|system)\s*:\s",
        at_start=True,
    ),
    order(
        "chat markup",
        "syst assi deve user hidd secr admi inst resp inpu",
        r"\[\s*(?:system|assistant|admin|developer)[\W_]+(?:message|note|override|prompt|"
        r"instructions?|notice|directive|alert)s?\s*\]|"
        r"^###\s*(?:instruction|response|input)\s*:\s*(?:\n|$)|"
        r"(?:begin|end|start) (?:of )?(?:the )?(?:system|user|hidden|secret|admin) (?:prompt|"
        r"message|instructions?|input|context|override)\b(?:\s*[-=\]>:]|$)|"
        r"^```(?:system|assistant)\b",
        signs=("[", "###", "begin", "end ", "start ", "```"),
    ),
    order(
        "chat markup",
        "role",
        r"[\"']role[\"']\s*:\s*[\"'](?:system|developer|assistant|tool)[\"']\s*,\s*[\"']content"
        r"[\"']\s*:\s*[\"'][^\"'.\u2026<{$]{4}",
    ),
)
